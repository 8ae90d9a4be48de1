"""Content codings of request bodies (RFC 9110 section 8.4): engines do not decode, so the router does.

Pure, but slow for large bodies; the decoder gives the interpreter's lock back, so a thread helps.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

KNOWN = ("gzip", "deflate")
"""The codings that `decode_body` undoes, by their registered names."""

_GZIP_WINDOW = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True)
class BadCoding:
    """The bytes are not what their coding says."""

    reason: str
    """What came instead."""


@dataclass(frozen=True, slots=True)
class TooLarge:
    """The decoded body passes the limit."""


def parse_codings(values: Iterable[bytes]) -> tuple[str, ...]:
    """The codings that Content-Encoding fields list, in the order they were applied, without `identity`."""
    names = (name.strip().lower() for value in values for name in value.decode("latin-1").split(","))
    return tuple(name.removeprefix("x-") for name in names if name not in ("", "identity"))


def unknown_coding(codings: Iterable[str]) -> str | None:
    """The first coding that is not known here."""
    return next((coding for coding in codings if coding not in KNOWN), None)


def decode_body(
    body: bytes | memoryview, codings: tuple[str, ...], limit: int
) -> bytes | memoryview | BadCoding | TooLarge:
    """Undo `codings`, the last one first, each to at most `limit` bytes. All of them must be known."""
    for coding in reversed(codings):
        decoded = _inflate(body, coding, limit)
        if not isinstance(decoded, bytes):
            return decoded
        body = decoded
    return body


def _inflate(body: bytes | memoryview, coding: str, limit: int) -> bytes | BadCoding | TooLarge:
    inflater = zlib.decompressobj(_GZIP_WINDOW if coding == "gzip" else _deflate_window(body))
    try:
        decoded = inflater.decompress(body, limit + 1)
    except zlib.error as error:
        return BadCoding(f"the body is not {coding}: {error}")
    if len(decoded) > limit:
        return TooLarge()
    if not inflater.eof:
        return BadCoding(f"the body's {coding} ends before it is whole")
    if inflater.unused_data:
        return BadCoding(f"bytes follow the end of the body's {coding}")
    return decoded


def _deflate_window(body: bytes | memoryview) -> int:
    """`deflate` is the zlib format; some senders leave its header away (RFC 9110 section 8.4.1.2)."""
    has_header = len(body) > 1 and body[0] & 15 == zlib.DEFLATED and (body[0] << 8 | body[1]) % 31 == 0
    return zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS
