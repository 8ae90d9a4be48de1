"""Content codings of request bodies (RFC 9110 section 8.4): engines do not decode, so the router does.

Pure, and piece by piece, so that nobody has to hold more of a bomb than the piece that passes a limit. All that the
decoders take and give is counted, also between two codings: a body may stand for a thousand times itself there, and
be empty in the end. The decoders give the interpreter's lock back while they work, so a thread helps.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Protocol

KNOWN = ("gzip", "deflate", "zstd", "br")
"""The codings that `Decoding` undoes, by their registered names."""
MOST = 2
"""Codings of one body: clients apply one, and with each more a byte may stand for a thousand times as many."""
PIECE = 64 * 1024
"""Bytes that a decoder takes or gives at one time, about; brotli may give half as much again."""

_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_GZIP_START = 0x1F
"""The first byte of a member (RFC 1952 section 2.3.1)."""
_ZSTD_WINDOW = 23
"""The largest window, as a power of two, that a sender may ask for (RFC 9659 section 3)."""
_PARTS = 4096
"""Members of gzip, or frames of zstd, of one body: an empty one costs its sender 9 bytes, and us some microseconds
of Python."""
_CALL = 4096
"""Bytes that a call of a decoder counts for beside those that it takes and gives: a frame of zstd is some 20 µs."""

_Bytes = bytes | memoryview
_Step = tuple[bytes, bytes, bool]
"""What came out, what is to be given next, and whether that can be done at once, without new input."""


def parse_codings(values: Iterable[bytes]) -> tuple[str, ...]:
    """The codings that Content-Encoding fields list, in the order they were applied, without `identity`."""
    names = (name.strip().lower() for value in values for name in value.decode("latin-1").split(","))
    return tuple(name.removeprefix("x-") for name in names if name not in ("", "identity"))


def unknown_coding(codings: Iterable[str]) -> str | None:
    """The first coding that is not known here."""
    return next((coding for coding in codings if coding not in KNOWN), None)


class Decoding:
    """The body without its codings, the last one undone first, in pieces. All of them must be known.

    Iterating goes on where it was left. Each call of a decoder gives a piece, though it be empty, so that whoever
    iterates can stop. It raises ValueError, with the reason, where the bytes are not what a coding says.
    """

    __slots__ = ("_pieces", "largest", "work")

    def __init__(self, body: _Bytes, codings: tuple[str, ...]) -> None:
        self.work = 0
        """Bytes that all decoders have taken and given so far, and something for each call."""
        self.largest = 0
        """Bytes that the coding that gave the most has given so far."""
        pieces: Iterator[_Bytes] = (body[at : at + PIECE] for at in range(0, len(body), PIECE))
        for coding in reversed(codings):
            pieces = self._undo(coding, pieces)
        self._pieces = pieces

    def __iter__(self) -> Iterator[_Bytes]:
        return self._pieces

    def _undo(self, coding: str, source: Iterator[_Bytes]) -> Iterator[_Bytes]:
        decoder = _DECODERS[coding]()
        given = 0
        for data in source:
            more = bool(data)
            if not more:
                yield data
            while more:
                piece, rest, more = decoder.step(data)
                given += len(piece)
                self.work += _CALL + len(data) + len(piece)
                self.largest = max(self.largest, given)
                yield piece
                data = rest
        if not decoder.whole:
            raise ValueError(f"the body's {coding} ends before it is whole")


class _Decoder(Protocol):
    @property
    def whole(self) -> bool:
        """Whether the input may end here."""

    def step(self, data: _Bytes) -> _Step:
        """Take about a piece, give at most about a piece. Raises ValueError."""


class _Gzip:
    """One member or several (RFC 1952 section 2.2)."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP_WINDOW)
        self._members = 1

    @property
    def whole(self) -> bool:
        return self._member.eof

    def step(self, data: _Bytes) -> _Step:
        if self._member.eof:
            if data[0] != _GZIP_START:
                raise ValueError(_more_follows("gzip"))
            self._member, self._members = zlib.decompressobj(_GZIP_WINDOW), self._members + 1
            if self._members > _PARTS:
                raise ValueError(f"the body's gzip has more than {_PARTS} members")
        return _inflate(self._member, data, "gzip")


class _Deflate:
    """`deflate` is the zlib format; some senders leave its header away (RFC 9110 section 8.4.1.2)."""

    def __init__(self) -> None:
        self._first = b""
        self._inflater: zlib._Decompress | None = None

    @property
    def whole(self) -> bool:
        return self._inflater is not None and self._inflater.eof

    def step(self, data: _Bytes) -> _Step:
        if self._inflater is None:
            data = self._first + data
            if len(data) == 1:
                self._first = data
                return b"", b"", False
            has_header = data[0] & 15 == zlib.DEFLATED and (data[0] << 8 | data[1]) % 31 == 0
            self._inflater = zlib.decompressobj(zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)
        elif self._inflater.eof:
            raise ValueError(_more_follows("deflate"))
        return _inflate(self._inflater, data, "deflate")


def _inflate(inflater: zlib._Decompress, data: _Bytes, coding: str) -> _Step:
    try:
        piece = inflater.decompress(data, PIECE)
    except zlib.error as error:
        raise ValueError(f"the body is not {coding}: {error}") from None
    rest = inflater.unconsumed_tail or inflater.unused_data
    # a full piece may have left something behind without any input
    return piece, rest, bool(rest) or (len(piece) == PIECE and not inflater.eof)


class _Zstd:
    """One frame or several (RFC 8878 section 3)."""

    def __init__(self) -> None:
        # imported when the first such body comes: the library is large, and most clients send none
        from backports.zstd import DecompressionParameter, ZstdDecompressor, ZstdError

        options: dict[int, int] = {DecompressionParameter.window_log_max: _ZSTD_WINDOW}
        self._new = partial(ZstdDecompressor, options=options)
        self._error = ZstdError
        self._frame, self._frames = self._new(), 1

    @property
    def whole(self) -> bool:
        return self._frame.eof

    def step(self, data: _Bytes) -> _Step:
        if self._frame.eof:
            self._frame, self._frames = self._new(), self._frames + 1
            if self._frames > _PARTS:
                raise ValueError(f"the body's zstd has more than {_PARTS} frames")
        try:
            piece = self._frame.decompress(data, PIECE)
        except self._error as error:
            raise ValueError(f"the body is not zstd: {error}") from None
        if self._frame.eof:
            rest = self._frame.unused_data
            return piece, rest, bool(rest)
        return piece, b"", not self._frame.needs_input


class _Brotli:
    def __init__(self) -> None:
        # imported when the first such body comes, like zstd
        import brotli

        self._decoder = brotli.Decompressor()
        self._error = brotli.error

    @property
    def whole(self) -> bool:
        return bool(self._decoder.is_finished())

    def step(self, data: _Bytes) -> _Step:
        try:
            piece = self._decoder.process(data, output_buffer_limit=PIECE)
        except self._error as error:
            raise ValueError(f"the body is not brotli: {error}") from None
        # it takes all of its input at once, and gives what is left without any
        return piece, b"", bool(piece) and not self._decoder.is_finished()


def _more_follows(coding: str) -> str:
    return f"bytes follow the end of the body's {coding}"


_DECODERS: dict[str, Callable[[], _Decoder]] = {
    "gzip": _Gzip,
    "deflate": _Deflate,
    "zstd": _Zstd,
    "br": _Brotli,
}
