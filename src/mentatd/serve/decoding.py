"""Compressed request bodies, taken by every path alike: engines and the router's own answers see them plain."""

from __future__ import annotations

import asyncio

from mentatd.errors import Refusal
from mentatd.http.request import Body, Request
from mentatd.serve import refusals
from mentatd.wire.codings import KNOWN, BadCoding, TooLarge, decode_body, parse_codings, unknown_coding


def codings_of(request: Request) -> tuple[str, ...]:
    """The codings of the request's body, in the order they were applied."""
    return parse_codings(request.get_all(b"content-encoding")) if request.odd else ()


def refuse_codings(codings: tuple[str, ...]) -> Refusal | None:
    """415 where one of them is not known here."""
    unknown = unknown_coding(codings)
    return None if unknown is None else refusals.unknown_encoding(unknown, KNOWN)


async def decode(body: Body, codings: tuple[str, ...], limit: int) -> Body | Refusal:
    """Undo `codings`, all of them known, to at most `limit` bytes, or refuse the body. A thread does the work."""
    decoded = await asyncio.to_thread(decode_body, body, codings, limit)
    if isinstance(decoded, BadCoding):
        return refusals.invalid_encoding(decoded.reason)
    if isinstance(decoded, TooLarge):
        return refusals.body_too_large(limit, decoded=True)
    return decoded


async def plain_body(request: Request, limit: int) -> Body | Refusal:
    """The body without its codings, at most `limit` bytes, or its refusal."""
    codings = codings_of(request)
    if not codings:
        return request.body
    return refuse_codings(codings) or await decode(request.body, codings, limit)
