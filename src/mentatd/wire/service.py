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
    """An http or https URL with a host, without user, query or fragment."""


Service = PortService | UrlService


def parse_announced(text: str) -> Service:
    """The value of `MENTAT_OPENAI_API` or `MENTAT_MCP_API` (wire.md section 5).

    `8000/v1`, `8000`, and a URL whose host is the wildcard address are the port form; any other http or https
    URL is the URL form. Raises ValueError, whose text names the value and what was expected.
    """
    raise NotImplementedError


def base_url(service: PortService, host: str) -> str:
    """`http://<host>:<port><path>`, an IPv6 `host` in brackets (wire.md section 3)."""
    raise NotImplementedError
