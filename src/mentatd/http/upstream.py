"""The client side of HTTP/1.1: one Protocol per connection to an engine.

Theory of operation. A connection carries one exchange at a time: `send` writes the request and names the
sink, the reads that follow are a head (1xx are swallowed) and then a body, and the end of the body ends the
exchange. All of it happens inside the transport's callbacks; there is no task, no queue and no timer here, so
deadlines are the caller's. `response.py` and `framing.py` decide what the bytes mean, this file moves them.

An exchange ends in exactly one of three ways: `message_ended`, `exchange_failed`, or the sink's own `abandon`
(and then the sink hears nothing more). The connection goes back to its owner only when the message ended
where its framing says, nothing came behind it, the engine keeps the connection, and the request was wholly
written.
"""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Callable
from typing import Final, Protocol, cast

from mentatd.errors import UpstreamBroken
from mentatd.http.faults import describe
from mentatd.http.framing import Body, OpenBody, body_of
from mentatd.http.lastwords import last_words
from mentatd.http.outgoing import Outgoing
from mentatd.http.request import Body as Payload
from mentatd.http.response import BadAnswer, ResponseHead, head_end, read_again, read_head
from mentatd.http.sink import Sink
from mentatd.http.unanswered import repeats
from mentatd.origin import Origin

__all__ = ["Origin", "Owner", "ResponseHead", "Sink", "Upstream"]

_LARGEST_KNOWN: Final = 2048  # bytes of a head: each idle connection may hold one, in two forms
_NOTHING_YET: Final = Body()  # of an answer whose head has not come


class Owner(Protocol):
    """Who keeps the connection between two exchanges: the pool."""

    def finished(self, upstream: Upstream, head: ResponseHead) -> None:
        """An exchange is over and the connection may carry another; `head` is that of its answer."""

    def lost(self, upstream: Upstream) -> None:
        """The connection is closed, whoever closed it."""


class Upstream:
    """One connection to an engine, carrying one exchange at a time. An `asyncio.Protocol` like `Connection`."""

    __slots__ = (
        "_answered",
        "_body",
        "_forward",
        "_head",
        "_head_data",
        "_head_request",
        "_known",
        "_last",
        "_outgoing",
        "_owner",
        "_paused",
        "_poll",
        "_sink",
        "_socket",
        "_transport",
        "answer",
        "found_closed",
        "idle",
        "idle_s",
        "idle_since",
        "origin",
        "reused",
        "served",
        "window",
    )

    origin: Origin
    reused: bool
    """It has carried an exchange before the present one."""
    served: int
    """Exchanges that it has carried to their end."""
    found_closed: bool
    """It was reused and the engine closed it without a byte of an answer: most likely as idle."""
    answer: Body
    """The reader of the newest answer's body."""
    idle: bool
    """It lies in the pool. This and the next three are the pool's own."""
    idle_since: float
    """Loop time."""
    idle_s: float
    """How long it had been idle when it was taken."""
    window: float
    """Seconds of idleness within which it may be taken."""

    def __init__(self, origin: Origin, owner: Owner) -> None:
        self.origin = origin
        self.reused = False
        self.served = 0
        self.found_closed = False
        self.idle = False
        self.idle_since = self.idle_s = self.window = 0.0
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self._poll = select.poll()
        self._sink: Sink | None = None
        self.answer = _NOTHING_YET
        self._known: ResponseHead | None = None
        self._outgoing: Outgoing | None = None
        self._paused = self._answered = False
        self._clear()

    def _clear(self) -> None:
        """Forget the exchange."""
        self._sink = None
        self._forward: Callable[[bytes], object] | None = None
        self._head: ResponseHead | None = None
        self._head_data = b""
        self._body: Body | None = None
        if self._outgoing is not None and self._outgoing.under_way:
            self._outgoing.stop()

    @property
    def open(self) -> bool:
        """Connected, and not closing."""
        return self._transport is not None and not self._transport.is_closing()

    def usable(self) -> bool:
        """Whether it is open, and no end of stream or other byte waits unread in the kernel (idle connections only).

        Asking the kernel (about 1 µs) catches the engine's close that arrived in this very turn of the loop.
        """
        transport = self._transport
        return transport is not None and not transport.is_closing() and not self._poll.poll(0)

    @property
    def repeats(self) -> int:
        """How often in a row bytes were sent to the engine's host without an acknowledgement."""
        return 0 if self._transport is None else repeats(self._socket)

    # -- what the caller does

    def send(
        self, sink: Sink, head: bytes, body: Payload, *, head_request: bool = False, last: bool = False
    ) -> None:
        """Send one request; a large body is not copied.

        `head_request`: its answer has no body (HEAD). `last`: the connection is closed after it, whatever the engine
        says.
        """
        self._sink = sink
        self._last = last
        self._head_request = head_request
        self._answered = False
        self.answer = _NOTHING_YET
        if self._outgoing is None:
            self._fail("closed before the request was sent")
        elif self._outgoing.start(head, body):
            self._sent()

    def _sent(self) -> None:
        if self._sink is not None:
            self._sink.request_sent()

    def pass_to(self, forward: Callable[[bytes], object]) -> None:
        """From the next read on, the bytes of the body go there, in place of what `Sink.head_received` returned."""
        self._forward = forward

    def pause(self) -> None:
        """Stop reading: the client's buffer is full."""
        self._paused = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        self._paused = False
        if self._transport is not None:
            self._transport.resume_reading()

    def abandon(self) -> None:
        """The sink is gone: close at once, so that the engine stops; no more calls to the sink.

        Also closes a connection that was taken and not used; does nothing to one that is back in the pool.
        """
        if not self.idle:
            self.close()

    def close(self) -> None:
        """Close at once, without a word to the sink."""
        self._clear()
        if self._transport is not None:
            self._transport.abort()

    def fail(self, reason: str) -> None:
        """Close at once; an exchange under way fails with this reason."""
        if self._sink is None:
            self.close()
        else:
            self._fail(reason)

    # -- what the transport reports

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._outgoing = Outgoing(self._transport, self._sent, tls=self.origin.tls)
        self._socket: socket.socket = transport.get_extra_info("socket")
        self._poll.register(self._socket.fileno(), select.POLLIN | select.POLLRDHUP)

    def pause_writing(self) -> None:
        if self._outgoing is not None:
            self._outgoing.blocked()

    def resume_writing(self) -> None:
        if self._outgoing is not None:
            self._outgoing.drained()

    def data_received(self, data: bytes) -> None:
        body, forward = self._body, self._forward
        if body is None:
            self._before_body(data)
            return
        try:
            wire = body.take(data) if forward is None else body.pass_on(data)
        except BadAnswer as error:
            self._fail(str(error))
            return
        if forward is not None:
            forward(wire)
        else:
            self._deliver(body)
        if body.ended:
            self._end(body, stray=len(wire) < len(data))

    def _before_body(self, data: bytes) -> None:
        sink = self._sink
        if sink is None:
            # nobody asked: what an engine says unasked is never an answer to what is asked later
            self.close()
            return
        self._answered = True
        try:
            head, rest = self._read_head(data)
            if head is None:
                return
            body = body_of(head)
            wire = body.take(rest) if rest and not body.ended else b""
        except BadAnswer as error:
            self._fail(str(error))
            return
        self._head = head
        self._body = self.answer = body
        self._forward = sink.head_received(head, wire)
        if self._forward is None:
            self._deliver(body)
        if body.ended:
            self._end(body, stray=len(wire) < len(rest))

    def _read_head(self, data: bytes) -> tuple[ResponseHead | None, bytes]:
        """The final head and what follows it, None while it has not come; skips interim answers."""
        searched, known = len(self._head_data), self._known
        if searched:
            data, self._head_data = self._head_data + data, b""
        if known is not None and not self._head_request and (again := read_again(known, data)) is not None:
            return again, data[len(again.whole) :]
        while end := head_end(data, searched):
            head = read_head(data[:end], self._head_request)
            data = data[end:]
            if head.status >= 200:
                if not self._head_request:
                    self._known = head if len(head.whole) <= _LARGEST_KNOWN else None
                return head, data
            searched = 0
        self._head_data = data
        return None, b""

    def _deliver(self, body: Body) -> None:
        for piece in body.pieces:
            if self._sink is None or self._body is not body:  # abandoned by the sink
                return
            self._sink.body_received(piece)

    def eof_received(self) -> None:
        if self._sink is None:
            return  # an idle connection; the transport closes it
        if isinstance(self._body, OpenBody):
            self._end(self._body, stray=False)
        else:
            self._fail(f"closed {self._where()}")

    def connection_lost(self, exc: Exception | None) -> None:
        transport, outgoing = self._transport, self._outgoing
        self._transport = self._outgoing = None
        try:
            if outgoing is not None and outgoing.under_way:
                outgoing.stop()
                if transport is not None and exc is not None and not self.origin.tls:
                    self._hear(last_words(transport))
            if self._sink is not None and exc is not None:
                self._fail(f"{describe(exc)} {self._where()}")
            else:
                self.eof_received()
        finally:
            self._owner.lost(self)

    def _hear(self, said: bytes) -> None:
        if said and self._sink is not None:
            self.data_received(said)

    def _where(self) -> str:
        if self._body is not None:
            return f"in the middle of the answer, after {self._body.payload_bytes} bytes of it"
        return "in the head of its answer" if self._head_data else "before an answer"

    def _end(self, body: Body, *, stray: bool) -> None:
        """The message is complete, unless the sink has left it meanwhile."""
        if self._body is not body:
            return
        sink, head, outgoing = self._sink, self._head, self._outgoing
        assert sink is not None
        assert head is not None
        sent = outgoing is not None and not outgoing.under_way
        keep = head.keep_alive and sent and not stray and not self._last and self._transport is not None
        self._clear()
        body.pieces = ()  # an idle connection holds nothing of what it brought
        if self._paused:
            self.resume()
        self.served += 1
        if keep:
            self._owner.finished(self, head)
        else:
            self.close()
        sink.message_ended()

    def _fail(self, reason: str) -> None:
        sink = self._sink
        self.found_closed = self.reused and not self._answered
        self.close()
        if sink is not None:
            sink.exchange_failed(UpstreamBroken(self.origin, reason, reused=self.reused))
