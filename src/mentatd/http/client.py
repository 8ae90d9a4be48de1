"""A small HTTP client for the router's own questions: probes, polls, metrics, tokenize, MCP."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from mentatd import __version__
from mentatd.errors import AnswerTooLarge, ConnectFailed, UpstreamBroken, UpstreamError, UpstreamTimeout
from mentatd.http.pool import Pool
from mentatd.http.response import ResponseHead
from mentatd.http.upstream import Upstream
from mentatd.http.url import Location, parse_url

Fields = tuple[tuple[bytes, bytes], ...]

_HIGH = 262144
"""A streamed answer is paused while this much of it waits for its reader (one read of the connection may come
on top)."""
_FIELD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*")


def _first(fields: Fields, name: bytes) -> bytes | None:
    return next((value for key, value in fields if key == name), None)


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    """Of the final head."""
    fields: Fields
    """Names in lower case, in order."""
    body: bytes
    """Without framing."""
    reused: bool
    """It came over a connection that had carried an exchange before."""

    def get(self, name: bytes) -> bytes | None:
        """The first field called `name` (lower case)."""
        return _first(self.fields, name)


class _Exchange:
    """The sink of one question: what has come, and one waiter that is woken when more has."""

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self.reused = upstream.reused
        self.head: ResponseHead | None = None
        self.pieces: deque[bytes] = deque()
        self.waiting = 0
        """Bytes in `pieces`."""
        self.ended = False
        self.error: UpstreamError | None = None
        self._paused = False
        self._waiter: asyncio.Future[None] | None = None

    def head_received(self, head: ResponseHead, rest: bytes) -> Callable[[bytes], object] | None:
        self.head = head
        self._wake()
        return None

    def body_received(self, payload: bytes) -> None:
        self.pieces.append(payload)
        self.waiting += len(payload)
        if self.waiting > _HIGH and not self._paused:
            self._paused = True
            self.upstream.pause()
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

    async def changed(self) -> None:
        """Wait until something comes; returns at once when nothing more will."""
        if not self.ended:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def next_piece(self) -> bytes:
        """The oldest piece that waits; reads on when all are taken."""
        piece = self.pieces.popleft()
        self.waiting -= len(piece)
        if self._paused and not self.pieces:
            self._paused = False
            if not self.ended:
                self.upstream.resume()
        return piece

    def leave(self) -> None:
        """Close the connection unless the answer came to its end."""
        if not self.ended:
            self.ended = True
            self.upstream.abandon()


class Streaming:
    """An answer whose body is read piece by piece."""

    def __init__(self, exchange: _Exchange, head: ResponseHead, wait: Callable[[], Awaitable[None]]) -> None:
        self.status = head.status
        self.fields: Fields = tuple(head.fields())
        self.reused = exchange.reused
        self._exchange = exchange
        self._wait = wait

    def get(self, name: bytes) -> bytes | None:
        """The first field called `name` (lower case)."""
        return _first(self.fields, name)

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body without framing; bounded buffering, the engine is paused when the reader is slow.

        Raises UpstreamBroken after the last piece that came, and UpstreamTimeout.
        """
        exchange = self._exchange
        while True:
            while exchange.pieces:
                yield exchange.next_piece()
            if exchange.ended:
                break
            await self._wait()
        if exchange.error is not None:
            raise exchange.error


class Client:
    """Asks one question at a time over pooled connections. Never repeats a question by itself, with one
    exception: `retry_reused` (probe and status poll) asks once more on a fresh connection when a reused one
    fails."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def ask(
        self,
        method: str,
        url: str,
        *,
        deadline: float,
        limit: int,
        fields: Mapping[str, str] | None = None,
        body: bytes | None = None,
        retry_reused: bool = False,
        keep: bool = True,
    ) -> Answer:
        """One request and its whole answer within `deadline` seconds and `limit` bytes of body.

        `keep` false asks on a connection of its own. Raises ConnectFailed (for a URL that cannot be asked
        too), UpstreamTimeout, UpstreamBroken, AnswerTooLarge. A redirect is an answer like any.
        """
        question = _Question(method, _locate(url), fields or {}, body, keep)
        until = asyncio.get_running_loop().time() + deadline
        try:
            return await self._ask(question, _Deadline(deadline, until), limit, fresh=not keep)
        except UpstreamBroken as error:
            if not (retry_reused and error.reused):
                raise
        return await self._ask(question, _Deadline(deadline, until), limit, fresh=True)

    async def _ask(self, question: _Question, deadline: _Deadline, limit: int, *, fresh: bool) -> Answer:
        async with self._exchange(question, deadline, fresh=fresh) as streaming:
            body = bytearray()
            async for piece in streaming.pieces():
                body += piece
                if len(body) > limit:
                    raise AnswerTooLarge(f"{question.location.origin}: an answer of more than {limit} bytes")
        return Answer(streaming.status, streaming.fields, bytes(body), streaming.reused)

    def stream(
        self,
        method: str,
        url: str,
        *,
        deadline: float,
        fields: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> AbstractAsyncContextManager[Streaming]:
        """The same with the body read piece by piece; leaving the context before its end closes the
        connection."""
        question = _Question(method, _locate(url), fields or {}, body, keep=True)
        until = asyncio.get_running_loop().time() + deadline
        return self._exchange(question, _Deadline(deadline, until), fresh=False)

    @asynccontextmanager
    async def _exchange(
        self, question: _Question, deadline: _Deadline, *, fresh: bool
    ) -> AsyncIterator[Streaming]:
        origin = question.location.origin
        upstream = None if fresh else self._pool.take(origin)
        if upstream is None:
            upstream = await self._pool.connect(origin, timeout=deadline.left())
        exchange = _Exchange(upstream)
        try:
            upstream.send(exchange, question.pieces(), head_request=question.method == "HEAD")

            async def wait() -> None:
                try:
                    async with asyncio.timeout_at(deadline.until):
                        await exchange.changed()
                except TimeoutError:
                    where = "before an answer" if exchange.head is None else "in the middle of the answer"
                    raise UpstreamTimeout(
                        f"{origin}: timed out after {deadline.seconds:g} s, {where}"
                    ) from None

            while exchange.head is None:
                if exchange.error is not None:
                    raise exchange.error
                await wait()
            yield Streaming(exchange, exchange.head, wait)
        finally:
            exchange.leave()


@dataclass(frozen=True, slots=True)
class _Deadline:
    seconds: float
    """As the caller named it, for the error text."""
    until: float
    """Loop time."""

    def left(self) -> float:
        return self.until - asyncio.get_running_loop().time()


@dataclass(frozen=True, slots=True)
class _Question:
    method: str
    location: Location
    fields: Mapping[str, str]
    body: bytes | None
    keep: bool

    def pieces(self) -> list[bytes]:
        """The request on the wire, head first. Raises ValueError for a field that cannot stand in a head."""
        lines = [
            f"{self.method} {self.location.target} HTTP/1.1",
            f"Host: {self.location.authority}",
            f"User-Agent: mentatd-serve/{__version__}",
            "Accept-Encoding: identity",
        ]
        if not self.keep:
            lines.append("Connection: close")
        if self.body is not None:
            lines.append(f"Content-Length: {len(self.body)}")
        for name, value in self.fields.items():
            if not _FIELD.fullmatch(f"{name}:{value}"):
                raise ValueError(f"the value of {name!r} cannot stand in a head")
            lines.append(f"{name}: {value}")
        head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
        return [head, self.body or b""]


def _locate(url: str) -> Location:
    try:
        return parse_url(url)
    except ValueError as error:
        raise ConnectFailed(str(error)) from None
