"""Between the server and what answers: the calls that each makes on the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mentatd.errors import Refusal
from mentatd.http.request import Request

if TYPE_CHECKING:
    from mentatd.http.connection import Connection


class Flow(Protocol):
    """Who produces the answer of the request in progress, and must hear of the client's state."""

    def client_paused(self) -> None:
        """The client's buffer is full: write no more until `client_resumed` (what is written still queues)."""

    def client_resumed(self) -> None: ...

    def client_lost(self) -> None:
        """The client left (or half-closed) before the answer ended; nothing can be written any more."""


class Handler(Protocol):
    """What the server calls. All of it runs on the event loop, synchronously, and must not raise or block."""

    def admit(self, request: Request) -> Refusal | int:
        """Called before a body is read that is large (over 128 KiB), chunked, or announced by `Expect:
        100-continue`: a refusal to answer at once, after which the connection closes, or the largest body in bytes
        that is read for it. Any other request goes to `handle` as soon as it is whole."""

    def handle(self, request: Request, connection: Connection) -> None:
        """Answer the request: now through `connection.answer`, or later as a `Flow` set on `connection.flow`."""

    def refuse(self, refusal: Refusal, request: Request | None) -> tuple[bytes, bytes]:
        """Render a refusal: (content type, body). `request` is the one refused, None when no head could be read."""
