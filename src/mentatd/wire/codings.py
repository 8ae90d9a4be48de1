"""Content codings of request bodies (RFC 9110 section 8.4): engines do not decode, so the router does.

Pure, and piece by piece, so that nobody has to hold more of a bomb than the piece that passes a limit. The decoders
give the interpreter's lock back while they work, so a thread helps.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

KNOWN = ("gzip", "deflate", "zstd", "br")
"""The codings that `decoded` undoes, by their registered names."""
PIECE = 64 * 1024
"""Bytes that a decoder takes or gives at one time, about; brotli may give half as much again."""

_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_ZSTD_WINDOW = 23
"""The largest window, as a power of two, that a sender may ask for (RFC 9659 section 3)."""
_ZSTD_FRAMES = 4096
"""Frames of one body: an empty one costs its sender 9 bytes, and us some microseconds of Python."""

_Source = Iterator[bytes | memoryview]


def parse_codings(values: Iterable[bytes]) -> tuple[str, ...]:
    """The codings that Content-Encoding fields list, in the order they were applied, without `identity`."""
    names = (name.strip().lower() for value in values for name in value.decode("latin-1").split(","))
    return tuple(name.removeprefix("x-") for name in names if name not in ("", "identity"))


def unknown_coding(codings: Iterable[str]) -> str | None:
    """The first coding that is not known here."""
    return next((coding for coding in codings if coding not in KNOWN), None)


def decoded(body: bytes | memoryview, codings: tuple[str, ...]) -> Iterator[bytes | memoryview]:
    """The body without `codings`, the last one undone first, in pieces. All of them must be known.

    The iterator raises ValueError, with the reason, where the bytes are not what a coding says.
    """
    source: _Source = (body[at : at + PIECE] for at in range(0, len(body), PIECE))
    for coding in reversed(codings):
        source = _DECODERS[coding](source)
    return source


def _gzip(source: _Source) -> _Source:
    return _inflated(source, "gzip", _GZIP_WINDOW)


def _deflate(source: _Source) -> _Source:
    """`deflate` is the zlib format; some senders leave its header away (RFC 9110 section 8.4.1.2)."""
    first = b""
    for data in source:
        first += data
        if len(first) > 1:
            break
    has_header = len(first) > 1 and first[0] & 15 == zlib.DEFLATED and (first[0] << 8 | first[1]) % 31 == 0
    window = zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS
    yield from _inflated(chain((first,), source), "deflate", window)


def _inflated(source: _Source, coding: str, window: int) -> _Source:
    inflater = zlib.decompressobj(window)
    for data in source:
        more = bool(data)
        while more:
            if inflater.eof:
                raise ValueError(f"bytes follow the end of the body's {coding}")
            try:
                piece = inflater.decompress(data, PIECE)
            except zlib.error as error:
                raise ValueError(f"the body is not {coding}: {error}") from None
            yield piece
            data = inflater.unconsumed_tail or inflater.unused_data
            # a full piece may have left something behind without any input
            more = bool(data) or (len(piece) == PIECE and not inflater.eof)
    if not inflater.eof:
        raise ValueError(_cut_short(coding))


def _zstd(source: _Source) -> _Source:
    """One frame or several (RFC 8878 section 3)."""
    # imported when the first such body comes: the library is large, and most clients send none
    from backports.zstd import DecompressionParameter, ZstdDecompressor, ZstdError

    options: dict[int, int] = {DecompressionParameter.window_log_max: _ZSTD_WINDOW}
    frame, frames = ZstdDecompressor(options=options), 1
    for data in source:
        more = bool(data)
        while more:
            if frame.eof:
                frame, frames = ZstdDecompressor(options=options), frames + 1
                if frames > _ZSTD_FRAMES:
                    raise ValueError(f"the body's zstd has more than {_ZSTD_FRAMES} frames")
            try:
                piece = frame.decompress(data, PIECE)
            except ZstdError as error:
                raise ValueError(f"the body is not zstd: {error}") from None
            yield piece
            data = frame.unused_data if frame.eof else b""
            more = bool(data) if frame.eof else not frame.needs_input
    if not frame.eof:
        raise ValueError(_cut_short("zstd"))


def _brotli(source: _Source) -> _Source:
    # imported when the first such body comes, like zstd
    import brotli

    decoder = brotli.Decompressor()
    for data in source:
        more = bool(data)
        while more:
            try:
                piece = decoder.process(data, output_buffer_limit=PIECE)
            except brotli.error as error:
                raise ValueError(f"the body is not brotli: {error}") from None
            yield piece
            data = b""
            # it takes all of its input at once, and gives what is left without any
            more = bool(piece) and not decoder.is_finished()
    if not decoder.is_finished():
        raise ValueError(_cut_short("brotli"))


def _cut_short(coding: str) -> str:
    return f"the body's {coding} ends before it is whole"


_DECODERS: dict[str, Callable[[_Source], _Source]] = {
    "gzip": _gzip,
    "deflate": _deflate,
    "zstd": _zstd,
    "br": _brotli,
}
