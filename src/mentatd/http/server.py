"""The server side of HTTP/1.1: one Protocol per client connection.  (Contract; see the module's owner.)"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from mentatd.errors import Refusal

Body = bytes | memoryview
"""A request body, whole and without chunk framing; a large one is a view of an anonymous mmap."""

Fields = Iterable[tuple[bytes, bytes]]


class Request:
    """One request: its head taken apart as far as routing needs, its body whole.

    In `Handler.admit` the body is not there yet and `body` is empty.
    """

    __slots__ = (
        "arrived",
        "body",
        "head",
        "http10",
        "length",
        "method",
        "odd",
        "path",
        "peer",
        "query",
        "target",
    )

    method: str
    target: bytes
    """Origin form, as on the wire (an absolute-form target already reduced to its path)."""
    path: str
    """The target up to `?`, not percent-decoded (latin-1)."""
    query: str
    """What follows `?`, or empty."""
    http10: bool
    head: bytes
    """The raw field lines, each ending in CRLF, without the start line and without the closing blank line."""
    odd: bool
    """The head holds a field that may not simply pass on (hop-by-hop, Expect, Transfer-Encoding, Content-Encoding,
    or a Connection other than keep-alive): the slow path must rewrite it."""
    length: int | None
    """The announced Content-Length; None when chunked. 0 without a body."""
    body: Body
    peer: str
    """The client's address; `::ffff:` forms are their IPv4 address, without a scope id."""
    arrived: float
    """Loop time when its first byte was seen."""

    def get(self, name: bytes) -> bytes | None:
        """The value of the first field called `name` (lower case), trimmed; None when absent."""
        raise NotImplementedError

    def get_all(self, name: bytes) -> list[bytes]:
        """Every value of the field, in order."""
        raise NotImplementedError


class Flow(Protocol):
    """Who produces the answer of the request in progress, and must hear of the client's state."""

    def client_paused(self) -> None:
        """The client's buffer is full: write no more until `client_resumed` (what is written still queues)."""

    def client_resumed(self) -> None: ...

    def client_lost(self) -> None:
        """The client left (or half-closed) before the answer ended; nothing can be written any more."""


class Handler(Protocol):
    """What the server calls. Both run on the event loop, synchronously, and must not raise or block."""

    def admit(self, request: Request) -> Refusal | int:
        """Called when a head has come whose body has not come whole: a refusal to answer at once (before any
        `100 Continue`), or the largest body in bytes that is read for it."""

    def handle(self, request: Request, connection: Connection) -> None:
        """Answer the request: now through `connection.answer`, or later as a `Flow` set on `connection.flow`."""

    def refuse(self, refusal: Refusal, request: Request | None) -> tuple[bytes, bytes]:
        """Render a refusal of the server itself: (content type, body)."""


class Connection(asyncio.Protocol):
    """One client connection. Requests are answered one at a time, in order."""

    flow: Flow | None
    """Set by the handler when it does not answer at once; cleared by the end of the answer."""
    write: Callable[[bytes | memoryview], None]
    """The transport's own `write`: for bytes of an answer whose head was written by the flow itself."""
    http10: bool
    """The request in progress came as HTTP/1.0."""
    head_only: bool
    """The request in progress is HEAD: only the head of the answer goes out."""
    must_close: bool
    """The answer in progress has to say `Connection: close` (the client asked for it, the server drains, or the
    connection's framing is in doubt); the flow that writes its own head asks this first."""

    def answer(
        self, status: int, body: bytes, content_type: bytes = b"application/json", fields: Fields = ()
    ) -> None:
        """Write a whole answer (framing, Date-less, HEAD, keep-alive and close seen to) and end it."""
        raise NotImplementedError

    def refuse(self, refusal: Refusal) -> None:
        """Answer with a refusal, rendered by the handler; closes as `Refusal.close` says, so that the client can
        still read it: the sending side is shut and what arrives is read away for up to 2 s."""
        raise NotImplementedError

    def end(self, *, keep: bool) -> None:
        """The flow's answer is complete; go on with the next request, or close after flushing."""
        raise NotImplementedError

    def cut(self) -> None:
        """Flush what was written, then cut the connection so that the client sees a truncated answer."""
        raise NotImplementedError
