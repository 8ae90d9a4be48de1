"""The client side of HTTP/1.1: one Protocol per connection to an engine.

Theory of operation. A connection carries one exchange at a time: `send` writes the request and names the
sink, the reads that follow are a head (1xx are swallowed) and then a body, and the end of the body ends the
exchange. All of it happens inside the transport's callbacks; there is no task, no queue and no timer here, so
deadlines are the caller's. `response.py` decides what the bytes mean, this file moves them.

An exchange ends in exactly one of four ways: `message_ended`, `exchange_failed`, or the sink's own `abandon`
(and then the sink hears nothing more). The connection goes back to its owner only when the message ended
where its framing says, nothing came behind it, the engine keeps the connection, and the request was wholly
written.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, cast

from mentatd.errors import UpstreamBroken, UpstreamError
from mentatd.http.faults import describe
from mentatd.http.response import BadAnswer, Body, OpenBody, ResponseHead, body_of, head_end, read_head

__all__ = ["Origin", "Owner", "ResponseHead", "Sink", "Upstream"]

_JOIN = 32768
"""A request up to this size is copied into one piece: one `write` is cheaper than gathering."""
_SLICE = 262144
"""A large body goes out in slices of this size, each when the one before has gone to the kernel, so that
neither the transport's queue nor TLS ever holds a second copy of it."""
_NOTHING_YET = Body()


class Origin(NamedTuple):
    """Where a connection goes; the key of the pool (a tuple, because it is hashed for every request)."""

    host: str
    """A name or a literal address, IPv6 without brackets."""
    port: int
    tls: bool = False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"


class Sink(Protocol):
    """Who receives one answer. Exactly one of `message_ended` and `exchange_failed` comes last, once.

    None of these may raise. Any of them may be called before `send` returns.
    """

    def head_received(self, head: ResponseHead, rest: bytes) -> Callable[[bytes], object] | None:
        """The final head; `rest` is what came behind it in the same read, as on the wire, of this message
        only.

        Return where the bytes of the body that come later go as they came (pass through; the sink has then
        taken care of `rest` itself, in one write with its head), or None to have the whole body, what `rest`
        holds of it too, de-framed through `body_received`.
        """

    def body_received(self, payload: bytes) -> None:
        """A piece of the body without framing (only after `head_received` returned None)."""

    def message_ended(self) -> None:
        """The answer is complete; the connection has gone back to the pool or is closing."""

    def exchange_failed(self, error: UpstreamError) -> None:
        """The answer will not be completed; the connection is closed."""

    def request_sent(self) -> None:
        """Every byte of the request has been handed to the kernel: its body can be released."""


class Owner(Protocol):
    """Who keeps the connection between two exchanges: the pool."""

    def finished(self, upstream: Upstream, head: ResponseHead) -> None:
        """An exchange is over and the connection may carry another; `head` is that of its answer."""

    def lost(self, upstream: Upstream) -> None:
        """The connection is closed, whoever closed it."""


class Upstream(asyncio.Protocol):
    """One connection to an engine, carrying one exchange at a time."""

    __slots__ = (
        "_answered",
        "_blocked",
        "_body",
        "_forward",
        "_head",
        "_head_data",
        "_head_request",
        "_newest",
        "_owner",
        "_paused",
        "_poll",
        "_sending",
        "_sink",
        "_transport",
        "_unsent",
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
        self._newest: Body = _NOTHING_YET
        self._unsent: memoryview | None = None
        self._blocked = self._sending = self._paused = False
        self._clear()

    def _clear(self) -> None:
        """Forget the exchange."""
        self._sink = None
        self._forward: Callable[[bytes], object] | None = None
        self._head: ResponseHead | None = None
        self._head_data = b""
        self._body: Body | None = None
        self._unsent = None
        self._sending = False
        self._answered = False

    @property
    def payload_bytes(self) -> int:
        """Bytes of the newest answer's body that came so far, without framing."""
        return self._newest.payload_bytes

    @property
    def tail(self) -> bytes:
        """The last four bytes of the newest answer's body that came so far (to tell whether an SSE event just
        ended)."""
        return self._newest.tail

    @property
    def at_boundary(self) -> bool:
        """What was passed on ends between two chunks: one more could be put in (only for a chunked
        answer)."""
        return self._newest.at_boundary

    @property
    def open(self) -> bool:
        """Connected, and not closing."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def usable(self) -> bool:
        """Open, and no end of stream or other byte waits unread in the kernel (idle connections only).

        Asking the kernel (about 1 µs) catches the engine's close that arrived in this very turn of the loop.
        """
        return self.open and not self._poll.poll(0)

    # -- what the caller does

    def send(self, sink: Sink, pieces: Sequence[bytes | memoryview], *, head_request: bool = False) -> None:
        """Send one request, head first; a large last piece is not copied. `head_request`: its answer has no
        body (HEAD)."""
        self._sink = sink
        self._head_request = head_request
        self._newest = _NOTHING_YET
        transport = self._transport
        if transport is None or transport.is_closing():
            self._fail("closed before the request was sent")
            return
        self._sending = True
        if sum(map(len, pieces)) <= _JOIN:
            transport.write(b"".join(pieces))
        else:
            last = memoryview(pieces[-1])
            self._unsent = last[_SLICE:]
            transport.writelines([*pieces[:-1], last[:_SLICE]])
        self._send_on()

    def _send_on(self) -> None:
        while self._unsent and not self._blocked and self._transport is not None:
            piece, self._unsent = self._unsent[:_SLICE], self._unsent[_SLICE:]
            self._transport.write(piece)
        if self._sending and not self._unsent and not self._blocked and self._sink is not None:
            self._sending = False
            self._unsent = None
            self._sink.request_sent()

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
        # No high water: `pause_writing` then says that the kernel did not take all, `resume_writing` that it
        # has (TLS pauses at, not above, its mark).
        self._transport.set_write_buffer_limits(high=1 if self.origin.tls else 0, low=0)
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN | select.POLLRDHUP)

    def pause_writing(self) -> None:
        self._blocked = True

    def resume_writing(self) -> None:
        self._blocked = False
        self._send_on()

    def data_received(self, data: bytes) -> None:
        body = self._body
        if body is None:
            self._before_body(data)
            return
        try:
            wire = body.take(data)
        except BadAnswer as error:
            self._fail(str(error))
            return
        if self._forward is not None:
            self._forward(wire)
        else:
            self._deliver(body)
        if body.ended and self._body is body:
            self._end(stray=len(wire) < len(data))

    def _before_body(self, data: bytes) -> None:
        if self._sink is None:
            # nobody asked: what an engine says unasked is never an answer to what is asked later
            self.close()
            return
        self._answered = True
        searched = len(self._head_data)
        try:
            found = self._find_head(self._head_data + data if searched else data, searched)
            if found is None:
                return
            head, rest = found
            body = body_of(head)
            wire = body.take(rest) if rest and not body.ended else b""
        except BadAnswer as error:
            self._fail(str(error))
            return
        self._head = head
        self._head_data = b""
        self._body = self._newest = body
        self._forward = self._sink.head_received(head, wire)
        if self._forward is None:
            self._deliver(body)
        if body.ended and self._body is body:
            self._end(stray=len(wire) < len(rest))

    def _find_head(self, data: bytes, searched: int) -> tuple[ResponseHead, bytes] | None:
        """The final head and what follows it, or None while it has not come; skips interim answers."""
        while end := head_end(data, searched):
            head = read_head(data[:end], head_request=self._head_request)
            data = data[end:]
            searched = 0
            if head.status >= 200:
                return head, data
        self._head_data = data
        return None

    def _deliver(self, body: Body) -> None:
        for piece in body.pieces:
            if self._sink is None or self._body is not body:  # abandoned by the sink
                return
            self._sink.body_received(piece)

    def eof_received(self) -> None:
        if self._sink is not None:
            self._closed_by_engine()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._sink is not None:
            if exc is None:
                self._closed_by_engine()
            else:
                self._fail(f"{describe(exc)} {self._where()}")
        self._owner.lost(self)

    def _closed_by_engine(self) -> None:
        if isinstance(self._body, OpenBody):
            self._end(stray=False)
        else:
            self._fail(f"closed {self._where()}")

    def _where(self) -> str:
        if self._body is not None:
            return f"in the middle of the answer, after {self._body.payload_bytes} bytes of it"
        return "in the head of its answer" if self._head_data else "before an answer"

    def _end(self, *, stray: bool) -> None:
        sink, head, transport = self._sink, self._head, self._transport
        assert sink is not None
        assert head is not None
        keep = (
            head.keep_alive and not stray and not self._sending and transport and not transport.is_closing()
        )
        self._clear()
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
            sink.exchange_failed(UpstreamBroken(f"{self.origin}: {reason}", reused=self.reused))
