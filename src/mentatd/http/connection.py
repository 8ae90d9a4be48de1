"""The answering side of a client connection: what handlers and flows call, and how a connection ends.

    IDLE ──a head is whole──▶ BODY ──the body is whole──▶ ANSWERING ──the answer is written──▶ IDLE or CLOSING
      └──────a head and its small body in one read────────────▲

The reading side, which makes the moves up to ANSWERING, is `mentatd.http.reading`.
"""

from __future__ import annotations

import asyncio
import enum
import math
import time
from collections.abc import Callable
from typing import Final

from mentatd.errors import Refusal
from mentatd.http.answers import Fields, render_head
from mentatd.http.handler import Flow
from mentatd.http.limits import UNRESERVED_BODY_BYTES
from mentatd.http.lingering import Lingering
from mentatd.http.memory import Share
from mentatd.http.request import Request
from mentatd.http.shared import Shared
from mentatd.log import log


class State(enum.Enum):
    """Where a connection stands."""

    IDLE = enum.auto()
    """Between two requests; a head may be half here."""
    BODY = enum.auto()
    """A body is being read."""
    ANSWERING = enum.auto()
    """The request is with the handler or its flow."""
    CLOSING = enum.auto()
    """What was written drains, what arrives is read away."""
    CLOSED = enum.auto()


_ANSWERING: Final = State.ANSWERING


class Connection:
    """One client connection: an `asyncio.Protocol` by its methods, and by no base class, so that mypyc can make it a
    native one. Requests are answered one at a time, in order.

    A handler or a flow calls `answer` or `refuse` for a whole answer, or `write` for bytes that it framed itself and
    then `end` or `cut`. Once the answer has ended or `Flow.client_lost` has come, these do nothing, and `write` must
    not be called any more.
    """

    __slots__ = (
        "_close",
        "_lingering",
        "_loop",
        "_request",
        "_room",
        "_share",
        "_shared",
        "_state",
        "_transport",
        "began",
        "deadline",
        "flow",
        "head_only",
        "http10",
        "write",
    )

    write: Callable[[bytes | memoryview], None]
    """The transport's own `write`: for bytes of an answer whose head the flow wrote itself."""

    def __init__(self, shared: Shared) -> None:
        self.flow: Flow | None = None
        """Set by the handler when it does not answer at once; cleared by the end of the answer."""
        self.http10 = False
        """The request in progress came as HTTP/1.0."""
        self.head_only = False
        """The request in progress is HEAD: only the head of the answer goes out."""
        self.began = False
        """Bytes of the answer in progress went out. A flow that writes its own head sets it."""
        self.deadline = math.inf
        """Loop time at which the sweep calls `expired`."""
        self._shared = shared
        self._state = State.IDLE
        self._request: Request | None = None
        self._close = False
        self._lingering: Lingering | None = None
        self._share: Share | None = None
        self._room: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport

    @property
    def must_close(self) -> bool:
        """The answer in progress has to say `Connection: close` (the client asked for it, the server drains, or the
        connection's framing is in doubt); a flow that writes its own head asks this first."""
        return self._close or self._shared.draining

    @property
    def fields(self) -> bytes:
        """The field lines that every answer carries (see `Server`); a flow that writes its own head puts them in."""
        every_answer = self._shared.every_answer
        return b"" if every_answer is None else every_answer(self._request)

    def answer(
        self, status: int, body: bytes, content_type: bytes = b"application/json", fields: Fields = ()
    ) -> None:
        """Write a whole answer and end it: framing, Date, HEAD, keep-alive and close are seen to."""
        if self._state is not _ANSWERING:
            return
        close = self.must_close
        head = render_head(
            status,
            len(body),
            content_type,
            fields,
            self.fields,
            second=int(time.time()),
            connection=b"close" if close else b"keep-alive" if self.http10 else None,
        )
        self.began = True
        self.write(head if self.head_only or status in (204, 304) else head + body)
        self.end(keep=not close)

    def refuse(self, refusal: Refusal) -> None:
        """Answer with a refusal, rendered by the handler. One that says `close` ends the connection."""
        if self._state is not _ANSWERING:
            return
        self._close = self._close or refusal.close
        try:
            content_type, body = self._shared.handler.refuse(refusal, self._request)
        except Exception as error:
            log("refusal_crashed", code=refusal.code, error=f"{type(error).__name__}: {error}")
            content_type, body = b"text/plain", refusal.message.encode()
        self.answer(refusal.status, body, content_type, refusal.headers)

    def end(self, *, keep: bool) -> None:
        """The answer is complete: go on with the next request, or (`keep` false) close once it has drained."""
        if self._state is not _ANSWERING:
            return
        self.flow = self._request = None
        if self._share is not None:
            self.body_sent()
        if not keep or self._close or self._shared.draining:
            self._linger()
            return
        self._state = State.IDLE
        self.deadline = self._loop.time() + self._shared.limits.keep_alive_s
        self._go_on()

    def cut(self, *, reset: bool = False) -> None:
        """Let what was written drain, then end the connection, so that the client sees a truncated answer.

        `reset`: by a reset, for an answer that only the end of the connection delimits and that would look whole.
        """
        if self._state is _ANSWERING:
            self.flow = self._request = None
            self._linger(reset=reset)

    def abort(self) -> None:
        """Close at once; what was not sent is lost."""
        self._transport.abort()

    def _go_on(self) -> None:
        """Take up what the client sent ahead."""
        raise NotImplementedError

    def body_sent(self) -> None:
        """The body of the request in progress is held no longer. Its end says so too, whichever way it comes."""
        share, self._share = self._share, None
        if share is not None:
            self._shared.memory.leave(share)

    async def reserve(self, size: int) -> None:
        """Wait until the request in progress may hold `size` bytes of body in all, for one that becomes larger than
        it came (a compressed one). To be cancelled when `Flow.client_lost` comes."""
        if self._state is _ANSWERING and not self._ask(size):
            self._room = self._loop.create_future()
            await self._room

    def _ask(self, size: int) -> bool:
        """Whether the request in progress may hold `size` bytes of body now; if not, `go_on` is called later."""
        memory = self._shared.memory
        if self._share is None:
            if size <= UNRESERVED_BODY_BYTES:
                return True
            self._share = memory.join(self)
        return memory.ask(self._share, size)

    def go_on(self) -> None:
        """There is memory for the body now."""
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def bytes_received(self) -> int | None:
        """What has come of the body that is being read; None when none is."""
        return None

    def cut_slow(self) -> None:
        """The body comes too slowly for those that wait."""

    def _linger(self, *, reset: bool = False) -> None:
        self.body_sent()
        self._state = State.CLOSING
        self._lingering = Lingering(self._transport, self._shared.limits, self._loop.time(), reset=reset)
        self.deadline = self._lingering.deadline
