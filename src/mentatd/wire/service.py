"""Service endpoints as agents announce them: the port form and the URL form (wire.md sections 1, 3 and 5)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PortService:
    """The port form: the reader puts in the host, one candidate for each address of the agent's node."""

    port: int
    """1 to 65535."""
    path: str
    """Empty, or starting with `/`; without a trailing slash."""


@dataclass(frozen=True, slots=True)
class UrlService:
    """The URL form: used exactly as written."""

    url: str


Service = PortService | UrlService
