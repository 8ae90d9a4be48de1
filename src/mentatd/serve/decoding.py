"""Compressed request bodies, taken by every path alike: engines and the router's own answers see them plain."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mentatd.errors import Refusal
from mentatd.http.request import Body, Request
from mentatd.serve import refusals
from mentatd.wire.codings import KNOWN, MOST, Decoding, parse_codings, unknown_coding

INLINE = 128 * 1024
"""Bytes that the decoders of one body take and give, all codings together, on the event loop: a fraction of a
millisecond, about what handing them to a thread would cost."""
STEP = 4 * 1024 * 1024
"""Bytes that a thread takes and gives before it is asked again: what a client that left can still cost."""

Reserve = Callable[[int], Awaitable[None]]
"""Waits until this many bytes of body may be held in all (`Connection.reserve`)."""


def codings_of(request: Request) -> tuple[str, ...]:
    """The codings of the request's body, in the order they were applied."""
    return parse_codings(request.get_all(b"content-encoding")) if request.head.odd else ()


def refuse_codings(codings: tuple[str, ...]) -> Refusal | None:
    """415 where one of them is not known here, or where there are too many."""
    if unknown := unknown_coding(codings):
        return refusals.unknown_encoding(unknown, KNOWN)
    return refusals.too_many_encodings(MOST) if len(codings) > MOST else None


async def decode(body: Body, codings: tuple[str, ...], limit: int, reserve: Reserve) -> Body | Refusal:
    """Undo `codings`, one at least and all of them known, or refuse the body. A thread does large ones.

    No coding may give more than `limit` bytes, not only the last. Both bodies are held meanwhile, and only the plain
    one is when this returns.
    """
    decoding = Decoding(body, codings)
    plain = bytearray()
    try:
        # a body is seldom smaller when it is plain
        ended = len(body) <= INLINE // 2 and _fill(plain, decoding, INLINE, limit)
        while not ended and decoding.largest <= limit:
            await reserve(len(body) + min(len(plain) + STEP, limit))
            ended = await asyncio.to_thread(_fill, plain, decoding, decoding.work + STEP, limit)
    except ValueError as error:
        return refusals.invalid_encoding(str(error))
    if decoding.largest > limit:
        return refusals.body_too_large(limit, decoded=True)
    await reserve(len(plain))
    return bytes(plain) if len(plain) <= INLINE else memoryview(plain)


def _fill(plain: bytearray, decoding: Decoding, work: int, limit: int) -> bool:
    """Go on until the decoders have done `work`, or one has given over `limit`; whether that was all of it.

    Raises ValueError.
    """
    for piece in decoding:
        plain += piece
        if decoding.work > work or decoding.largest > limit:
            return False
    return True


async def plain_body(request: Request, limit: int, reserve: Reserve) -> Body | Refusal:
    """The body without its codings, at most `limit` bytes, or its refusal."""
    codings = codings_of(request)
    if not codings:
        return request.body
    return refuse_codings(codings) or await decode(request.body, codings, limit, reserve)
