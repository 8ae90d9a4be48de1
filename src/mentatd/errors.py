"""The exceptions of the whole package, and the refusal: an answer that the router gives in its own name.

Library exceptions are translated into these once, at the edge where I/O happens. What is expected in normal
operation (a gate that is shut, a datagram that is not for us, a request that names no model) is a value, not an
exception; the value for an HTTP request is `Refusal`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


class MentatError(Exception):
    """Base of every exception that this package raises on purpose."""


class SettingsError(MentatError):
    """The environment asks for something impossible; the process stops at boot with this text."""


class WireError(MentatError):
    """Bytes from the network cannot be read at all (one wrong row is a `Problem`, not this)."""


class UpstreamError(MentatError):
    """A request to another HTTP server did not end in an answer. The text is `server: reason`."""

    def __init__(self, server: object, reason: str) -> None:
        """`server`: what was tried, an origin or a URL; `reason`: what came back."""
        super().__init__(f"{server}: {reason}")
        self.reason = reason
        """The text without the server, for who names it already."""


class ConnectFailed(UpstreamError):
    """No connection; nothing of the request was sent, so another address may be tried."""


class UpstreamTimeout(UpstreamError):
    """The deadline passed first."""


class UpstreamBroken(UpstreamError):
    """The connection ended or what came was not HTTP, after the request may have been sent.

    `reused` tells that the request went out on a connection that had served one before: the server may simply
    have closed it as idle, and whoever owns an idempotent question may ask it once more on a fresh one.
    """

    def __init__(self, server: object, reason: str, *, reused: bool = False) -> None:
        super().__init__(server, reason)
        self.reused = reused


class AnswerTooLarge(UpstreamError):
    """The answer passed the size that the caller allowed."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer in the router's own name, to be rendered in OpenAI's error envelope."""

    status: int
    """HTTP status, 400 to 599."""
    type: str
    """OpenAI's error type, such as `invalid_request_error`."""
    code: str
    """A stable word for programs, such as `model_not_found`."""
    message: str
    """What was tried, on what, and what came back."""
    param: str | None = None
    """The request field at fault."""
    extra: tuple[tuple[str, Any], ...] = ()
    """JSON members beside `error`, such as `available` and `not_ready`."""
    headers: tuple[tuple[bytes, bytes], ...] = field(default=())
    """Further header fields, such as `Allow` or `Retry-After`."""
    model: str = ""
    """The model that it is about, where one that the cluster knows was named; for counters, not in the answer."""
    group: str = ""
    """The group that it is about, where it is about one; likewise."""
    close: bool = False
    """The connection cannot be used again (its framing is in doubt, or its body was not read)."""
