"""Compressed request bodies, taken by every path alike: engines and the router's own answers see them plain."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

from mentatd.errors import Refusal
from mentatd.http.request import Body, Request
from mentatd.serve import refusals
from mentatd.wire.codings import KNOWN, decoded, parse_codings, unknown_coding

INLINE = 64 * 1024
"""Bytes of a compressed body, and of what it decodes to, that are decoded on the event loop: a fraction of a
millisecond, about what handing them to a thread would cost."""
STEP = 4 * 1024 * 1024
"""Bytes that a thread decodes before it is asked again: what a client that left can still cost."""

Reserve = Callable[[int], Awaitable[None]]
"""Waits until this many bytes of body may be held in all (`Connection.reserve`)."""


def codings_of(request: Request) -> tuple[str, ...]:
    """The codings of the request's body, in the order they were applied."""
    return parse_codings(request.get_all(b"content-encoding")) if request.head.odd else ()


def refuse_codings(codings: tuple[str, ...]) -> Refusal | None:
    """415 where one of them is not known here."""
    unknown = unknown_coding(codings)
    return None if unknown is None else refusals.unknown_encoding(unknown, KNOWN)


async def decode(body: Body, codings: tuple[str, ...], limit: int, reserve: Reserve) -> Body | Refusal:
    """Undo `codings`, all of them known, to at most `limit` bytes, or refuse the body. A thread does large ones.

    Both bodies are held meanwhile, and only the plain one is when this returns.
    """
    pieces = decoded(body, codings)
    plain = bytearray()
    try:
        ended = len(body) <= INLINE and _fill(plain, pieces, INLINE)
        while not ended and len(plain) <= limit:
            size = min(len(plain) + STEP, limit)
            await reserve(len(body) + size)
            ended = await asyncio.to_thread(_fill, plain, pieces, size)
    except ValueError as error:
        return refusals.invalid_encoding(str(error))
    if len(plain) > limit:
        return refusals.body_too_large(limit, decoded=True)
    await reserve(len(plain))
    return bytes(plain) if len(plain) <= INLINE else memoryview(plain)


def _fill(plain: bytearray, pieces: Iterator[bytes | memoryview], size: int) -> bool:
    """Go on until there is more than `size` bytes; whether that was all of it. Raises ValueError."""
    for piece in pieces:
        plain += piece
        if len(plain) > size:
            return False
    return True


async def plain_body(request: Request, limit: int, reserve: Reserve) -> Body | Refusal:
    """The body without its codings, at most `limit` bytes, or its refusal."""
    codings = codings_of(request)
    if not codings:
        return request.body
    return refuse_codings(codings) or await decode(request.body, codings, limit, reserve)
