"""A small HTTP client for the router's own questions: probes, polls, metrics, tokenize, MCP."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from mentatd import __version__
from mentatd.errors import AnswerTooLarge, ConnectFailed, UpstreamBroken
from mentatd.http.pool import Pool
from mentatd.http.streaming import Deadline, Exchange, Fields, Streaming, first
from mentatd.http.url import Location, parse_url

__all__ = ["Answer", "Client", "Streaming"]

_SHOWN = 200
"""A URL is quoted to this many characters."""
_FIELD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*")


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
        return first(self.fields, name)


@dataclass(frozen=True, slots=True)
class _Question:
    method: str
    location: Location
    head: bytes
    """As on the wire."""
    body: bytes
    keep: bool
    """Whether it goes over a connection that others use too."""
    connect_within: float
    """Seconds for a new connection, besides the deadline."""


class Client:
    """Asks one question at a time over pooled connections. Never repeats a question by itself, with one
    exception: `retry_reused` (probe and status poll) asks once more on a fresh connection when a reused one fails.
    """

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
        connect_within: float = math.inf,
    ) -> Answer:
        """One request and its whole answer within `deadline` seconds and `limit` bytes of body.

        `keep` false asks on a connection of its own. `connect_within` seconds are enough for a new connection: who
        has another address to ask need not spend the whole deadline on a dead one. A redirect is an answer like
        any. Raises ConnectFailed (also for a URL that cannot be asked), UpstreamTimeout, UpstreamBroken and
        AnswerTooLarge, and ValueError for fields that cannot stand in a head.
        """
        question = _question(method, url, fields or {}, body, keep=keep, connect_within=connect_within)
        until = Deadline.after(deadline)
        try:
            return await self._ask(question, until, limit, fresh=not keep)
        except UpstreamBroken as error:
            if not (retry_reused and error.reused):
                raise
        return await self._ask(question, until, limit, fresh=True)

    async def _ask(self, question: _Question, deadline: Deadline, limit: int, *, fresh: bool) -> Answer:
        async with self._asked(question, deadline, fresh=fresh) as answer:
            body = bytearray()
            too_large = answer.length is not None and answer.length > limit
            while not too_large and (piece := await anext(answer.pieces(), b"")):
                body += piece
                too_large = len(body) > limit
            if too_large:
                raise AnswerTooLarge(question.location.origin, f"an answer of more than {limit} bytes")
        return Answer(answer.status, answer.fields, bytes(body), answer.reused)

    def stream(
        self,
        method: str,
        url: str,
        *,
        deadline: float,
        fields: Mapping[str, str] | None = None,
        body: bytes | None = None,
        connect_within: float = math.inf,
    ) -> AbstractAsyncContextManager[Streaming]:
        """The same with the body read piece by piece; leaving the context before its end closes the connection.

        `deadline` counts from this call to the end of the body.
        """
        question = _question(method, url, fields or {}, body, keep=True, connect_within=connect_within)
        return self._asked(question, Deadline.after(deadline), fresh=False)

    @asynccontextmanager
    async def _asked(
        self, question: _Question, deadline: Deadline, *, fresh: bool
    ) -> AsyncIterator[Streaming]:
        origin = question.location.origin
        upstream = None if fresh else self._pool.take(origin)
        if upstream is None:
            upstream = await self._pool.connect(origin, timeout=min(deadline.left(), question.connect_within))
        exchange = Exchange(upstream, deadline)
        try:
            bare = question.method == "HEAD"
            upstream.send(exchange, question.head, question.body, head_request=bare, last=not question.keep)
            yield Streaming(exchange, await exchange.head())
        finally:
            exchange.leave()


def _question(
    method: str,
    url: str,
    fields: Mapping[str, str],
    body: bytes | None,
    *,
    keep: bool,
    connect_within: float,
) -> _Question:
    try:
        location = parse_url(url)
    except ValueError as error:
        raise ConnectFailed(url[:_SHOWN], str(error)) from None
    lines = [
        f"{method} {location.target} HTTP/1.1",
        f"Host: {location.authority}",
        f"User-Agent: mentatd-serve/{__version__}",
        "Accept-Encoding: identity",
    ]
    if not keep:
        lines.append("Connection: close")
    if body is not None or method not in ("GET", "HEAD"):
        lines.append(f"Content-Length: {len(body or b'')}")
    for name, value in fields.items():
        if not _FIELD.fullmatch(f"{name}:{value}"):
            raise ValueError(f"the value of {name!r} cannot stand in a head")
        lines.append(f"{name}: {value}")
    head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
    return _Question(method, location, head, body or b"", keep, connect_within)
