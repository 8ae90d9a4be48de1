"""The client side of HTTP/1.1: one Protocol per connection to an engine.  (Contract; see the module's owner.)"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from mentatd.errors import UpstreamError


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a connection goes; the key of the pool."""

    host: str
    port: int
    tls: bool = False


class ResponseHead:
    """A final response head (1xx are consumed silently)."""

    __slots__ = ("chunked", "http10", "keep_alive", "length", "raw", "status")

    status: int
    raw: bytes
    """Status line and field lines, each ending in CRLF, without the closing blank line."""
    http10: bool
    length: int | None
    """Content-Length, or 0 where the status or the method allows no body; None when not said."""
    chunked: bool
    keep_alive: bool
    """The connection may be used again after this message (by version, Connection and framing)."""

    def get(self, name: bytes) -> bytes | None:
        """The value of the first field called `name` (lower case), trimmed."""
        raise NotImplementedError


class Sink(Protocol):
    """Who receives one answer. Exactly one of `message_ended` and `exchange_failed` comes last, once."""

    def head_received(self, head: ResponseHead, rest: bytes) -> Callable[[bytes], object] | None:
        """The final head; `rest` is what came behind it in the same read, as on the wire, of this message only.

        Return where the bytes of the body that come later go as they came (pass through; the sink has then taken
        care of `rest` itself, in one write with its head), or None to have the whole body, what `rest` holds of it
        too, de-framed through `body_received`.
        """

    def body_received(self, payload: bytes) -> None:
        """A piece of the body without framing (only after `head_received` returned None)."""

    def message_ended(self) -> None:
        """The answer is complete; the connection has gone back to the pool or is closing."""

    def exchange_failed(self, error: UpstreamError) -> None:
        """The answer will not be completed; the connection is closed."""

    def request_sent(self) -> None:
        """Every byte of the request has been handed to the kernel: its body can be released."""


class Upstream(asyncio.Protocol):
    """One connection to an engine, carrying one exchange at a time."""

    reused: bool
    """It has carried an exchange before the present one."""
    payload_bytes: int
    """Bytes of the present answer's body that came so far, without framing."""
    tail: bytes
    """The last piece of the present answer's body, without framing (to tell whether an SSE event just ended)."""

    def send(self, sink: Sink, pieces: Sequence[bytes | memoryview], *, head_request: bool = False) -> None:
        """Send one request, head first. `head_request`: its answer has no body (HEAD)."""
        raise NotImplementedError

    def pause(self) -> None:
        """Stop reading: the client's buffer is full."""
        raise NotImplementedError

    def resume(self) -> None:
        raise NotImplementedError

    def abandon(self) -> None:
        """The sink is gone: close at once, so that the engine stops; no more calls to the sink."""
        raise NotImplementedError
