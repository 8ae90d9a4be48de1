"""One answer being read by a coroutine: what has come and is not yet read, within a bound and a deadline."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from mentatd.errors import UpstreamError, UpstreamTimeout
from mentatd.http.response import ResponseHead
from mentatd.http.upstream import Upstream

Fields = tuple[tuple[bytes, bytes], ...]

_HIGH = 262144
"""The engine is paused while more than this waits for the reader (one read of the connection comes on top)."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a question must have its whole answer."""

    seconds: float
    """As the caller named it, for the error text."""
    until: float
    """Loop time."""

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Counting from now."""
        return cls(seconds, asyncio.get_running_loop().time() + seconds)

    def left(self) -> float:
        """Seconds from now."""
        return self.until - asyncio.get_running_loop().time()


class Exchange:
    """The sink of one question, and the one waiter that is woken when something comes."""

    def __init__(self, upstream: Upstream, deadline: Deadline) -> None:
        self.reused = upstream.reused
        self.pieces: deque[bytes] = deque()
        """Come and not yet read."""
        self.ended = False
        self.error: UpstreamError | None = None
        """Why the answer ended before its end."""
        self._upstream = upstream
        self._deadline = deadline
        self._head: ResponseHead | None = None
        self._unread = 0
        self._paused = False
        self._waiter: asyncio.Future[None] | None = None

    def head_received(self, head: ResponseHead, rest: bytes) -> Callable[[bytes], object] | None:
        self._head = head
        self._wake()
        return None

    def body_received(self, payload: bytes) -> None:
        self.pieces.append(payload)
        self._unread += len(payload)
        if self._unread > _HIGH and not self._paused:
            self._paused = True
            self._upstream.pause()
        self._wake()

    def message_ended(self) -> None:
        self.ended = True
        self._wake()

    def exchange_failed(self, error: UpstreamError) -> None:
        self.ended = True
        self.error = error
        self._wake()

    def request_sent(self) -> None:
        pass

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def head(self) -> ResponseHead:
        """The head, as soon as it is there. Raises UpstreamBroken and UpstreamTimeout."""
        while self._head is None:
            if self.error is not None:
                raise self.error
            await self.changed()
        return self._head

    async def changed(self) -> None:
        """Wait until something comes. Raises UpstreamTimeout at the deadline; not for use once it has ended."""
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout_at(self._deadline.until):
                await self._waiter
        except TimeoutError:
            where = "before an answer" if self._head is None else "in the middle of the answer"
            raise UpstreamTimeout(
                self._upstream.origin, f"timed out after {self._deadline.seconds:g} s, {where}"
            ) from None

    def next_piece(self) -> bytes:
        """The oldest piece that has come; the engine goes on when none is left."""
        piece = self.pieces.popleft()
        self._unread -= len(piece)
        if self._paused and not self.pieces:
            self._paused = False
            if not self.ended:
                self._upstream.resume()
        return piece

    def leave(self) -> None:
        """Close the connection unless the answer came to its end."""
        if not self.ended:
            self.ended = True
            self._upstream.abandon()


class Streaming:
    """An answer whose body is read piece by piece."""

    def __init__(self, exchange: Exchange, head: ResponseHead) -> None:
        self.status = head.status
        self.fields: Fields = tuple(head.fields())
        """Names in lower case, in order."""
        self.length = head.length
        """Bytes of the body; None when not said."""
        self.reused = exchange.reused
        self._exchange = exchange

    def get(self, name: bytes) -> bytes | None:
        """The first field called `name` (lower case)."""
        return first(self.fields, name)

    def pieces(self) -> AsyncIterator[bytes]:
        """The body without framing; bounded buffering, the engine is paused when the reader is slow.

        Raises UpstreamBroken after the last piece that came, and UpstreamTimeout.
        """
        return self

    def __aiter__(self) -> Streaming:
        return self

    async def __anext__(self) -> bytes:
        exchange = self._exchange
        while not exchange.pieces:
            if exchange.error is not None:
                raise exchange.error
            if exchange.ended:
                raise StopAsyncIteration
            await exchange.changed()
        return exchange.next_piece()


def first(fields: Fields, name: bytes) -> bytes | None:
    """The value of the first field called `name` (lower case)."""
    return next((value for key, value in fields if key == name), None)
