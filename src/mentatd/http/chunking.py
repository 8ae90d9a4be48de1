"""The chunked coding (RFC 9112 section 7.1), read strictly and piece by piece, for requests and answers alike.

Two programs that read it differently can be made to see different messages. So a line ends in CR LF, a size is up to
16 hexadecimal digits, and every line has a bound. llhttp does not say where in a read a message ended; this does.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from mentatd.http.limits import CHUNK_LINE_BYTES, TRAILER_BYTES

_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]"
_QUOTED: Final = rb'"[\t !#-\[\]-~\x80-\xff]*+(?:\\[\t -~\x80-\xff][\t !#-\[\]-~\x80-\xff]*+)*+'
# An extension has no white space around its signs: section 7.1.1 would have it read over, and parsers differ in that.
# Nothing is tried twice: what holds a whole extension holds no other, so a long line of them costs little.
_EXTENSIONS: Final = rb"(?:;%b++(?:=(?:%b++|%b\"))?+(?=[;\r]|\Z))*+" % (_TOKEN, _TOKEN, _QUOTED)
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,16})" + _EXTENSIONS)
_SIZE_SO_FAR: Final = re.compile(
    rb"(?:[0-9A-Fa-f]{0,16}|[0-9A-Fa-f]{1,16}%b(?:\r?|;(?:%b*+|%b++=(?:%b*+|%b\\?))))\Z"
    % (_EXTENSIONS, _TOKEN, _TOKEN, _TOKEN, _QUOTED)
)
_TRAILER: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*)?\r\n")
_TRAILER_SO_FAR: Final = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+(?::[\t -~\x80-\xff]*\r?)?|\r?)\Z")
_LARGEST_SIZE: Final = 2**63 - 1  # more overflows in parsers behind or before this one
_BREAK: Final = b"\r\n"
_KEPT_SIZES: Final = 256


class BadChunks(ValueError):
    """The framing is broken: where the body ends cannot be known."""


class Chunking:
    """How far one body has been read. Holds at most one incomplete line."""

    __slots__ = ("_held", "_in_trailers", "_left", "_trailer_bytes", "announced", "ended")

    announced: int
    """Bytes of the payload of every chunk whose size is known, come or not."""
    ended: bool
    """The body is complete."""

    def __init__(self) -> None:
        self.announced = 0
        self.ended = False
        self._held = b""
        self._left = 0  # bytes that the present chunk still has to bring, with its line break
        self._in_trailers = False
        self._trailer_bytes = 0

    @property
    def between(self) -> bool:
        """What came ends between two chunks: another one could be put in here."""
        return not (self._left or self._held or self._in_trailers)

    def take(self, data: bytes, pieces: list[bytes]) -> int:
        """Append what `data` brings of the payload to `pieces`; returns how many of its bytes belong to the body.

        Raises BadChunks; then only `announced` may have changed, and `pieces` is of no use.
        """
        held, left, in_trailers = self._held, self._left, self._in_trailers
        if held:
            data = held + data
        at, size, line = 0, len(data), b""
        while at < size and not in_trailers:
            if not left:
                stop = data.find(_BREAK, at, at + CHUNK_LINE_BYTES)
                if stop < 0:
                    line, at = _incomplete(data[at:], _SIZE_SO_FAR), size
                    break
                left = read_size(data[at:stop])
                at = stop + len(_BREAK)
                if not left:
                    in_trailers = True
                    break
                self.announced += left
                left += len(_BREAK)
            end = at + left - len(_BREAK)
            if at < end:
                pieces.append(data[at:end])
            if at <= end and data.startswith(_BREAK, end):
                at, left = end + len(_BREAK), 0
            else:
                at, left = _cut(data, at, left)
        if in_trailers and at < size:
            at, line = self._take_trailers(data, at)
        self._held, self._left, self._in_trailers = line, left, in_trailers
        return at - len(held)

    def _take_trailers(self, data: bytes, at: int) -> tuple[int, bytes]:
        """Where the body ends, or the end of `data` and the incomplete line that it ends with."""
        while at < len(data):
            found = _TRAILER.match(data, at)
            if found is None:
                return len(data), _incomplete(data[at:], _TRAILER_SO_FAR)
            self._trailer_bytes += found.end() - at
            if self._trailer_bytes > TRAILER_BYTES:
                raise BadChunks("trailers that are too long")
            at = found.end()
            if found[1] is None:
                self.ended = True
                break
        return at, b""


@lru_cache(_KEPT_SIZES)
def read_size(line: bytes) -> int:
    """The size that a chunk's first line says, without its line break; events of a stream repeat few of them.

    Raises BadChunks.
    """
    found = _SIZE.fullmatch(line)
    if found is None or (size := int(found[1], 16)) > _LARGEST_SIZE:
        raise BadChunks("a line that says no size, or one that is too large")
    return size


def _incomplete(line: bytes, so_far: re.Pattern[bytes]) -> bytes:
    """A line whose rest has not come."""
    if len(line) > CHUNK_LINE_BYTES or not so_far.match(line):
        raise BadChunks("a line that is none of this coding")
    return line


def _cut(data: bytes, at: int, left: int) -> tuple[int, int]:
    """Where a chunk goes on that `data` cuts, and what it still has to bring: some of its line break may be here."""
    stop, size = at + left, len(data)
    end = stop - len(_BREAK)
    begun = max(at - end, 0)  # bytes of the line break that came before
    came = data[end + begun : stop]
    if came != _BREAK[begun : begun + len(came)]:
        raise BadChunks("a chunk that is longer than its size")
    return min(stop, size), max(stop - size, 0)
