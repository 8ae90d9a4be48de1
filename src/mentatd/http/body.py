"""Request bodies: counted, chunked, or large and received straight into their final place."""

from __future__ import annotations

import asyncio
import enum
import mmap
import re
from collections.abc import Callable
from typing import Final

from mentatd.http.limits import CHUNK_LINE_BYTES, PLAIN_BODY_BYTES, TRAILER_BYTES
from mentatd.http.request import Body

_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[ \t]*;[\t -~\x80-\xff]*)?")
_TRAILER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*")
_CRLF: Final = b"\r\n"
_LARGEST_SIZE: Final = 2**63 - 1  # more overflows in parsers behind or before this one
_READ_BYTES: Final = 1024 * 1024


class Progress(enum.Enum):
    """How a body stands after some bytes."""

    MORE = enum.auto()
    DONE = enum.auto()
    MALFORMED = enum.auto()
    """Its framing is broken: where it ends cannot be known."""
    TOO_LARGE = enum.auto()


class Counted:
    """A body of `length` bytes (RFC 9112 section 6.2), small enough for plain bytes."""

    __slots__ = ("_body", "limit")

    def __init__(self, length: int) -> None:
        self.limit = length
        self._body = bytearray()

    def feed(self, data: bytes) -> tuple[Progress, bytes]:
        """Take what belongs to the body; the bytes behind its end come back."""
        missing = self.limit - len(self._body)
        self._body += data[:missing]
        return (Progress.DONE, data[missing:]) if len(data) >= missing else (Progress.MORE, b"")

    @property
    def received(self) -> int:
        """Bytes that came so far."""
        return len(self._body)

    def take(self) -> bytes:
        """The body, once it is done."""
        return bytes(self._body)


class _Part(enum.Enum):
    SIZE = enum.auto()
    DATA = enum.auto()
    DATA_END = enum.auto()
    TRAILER = enum.auto()


class Chunked:
    """Takes the chunked coding off a body (RFC 9112 section 7.1), strictly. Extensions and trailers are dropped.

    A body over `limit` bytes is refused as soon as a chunk announces it. Lines are bounded, so that at most 4 KiB of
    framing is held at one time.
    """

    __slots__ = ("_body", "_left", "_line", "_part", "_trailer_bytes", "limit", "received")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.received = 0
        """Bytes that came so far, framing included."""
        self._body = bytearray()
        self._part = _Part.SIZE
        self._line = b""  # the incomplete line
        self._left = 0  # bytes that the present chunk still has to bring
        self._trailer_bytes = 0

    def feed(self, data: bytes) -> tuple[Progress, bytes]:
        """Take what belongs to the body; the bytes behind its end come back (empty unless DONE)."""
        self.received += len(data)
        data, self._line = self._line + data, b""
        at = 0
        while True:
            if self._part is _Part.DATA:
                taken = min(self._left, len(data) - at)
                self._body += memoryview(data)[at : at + taken]
                at += taken
                self._left -= taken
                if self._left:
                    return Progress.MORE, b""
                self._part = _Part.DATA_END
            if self._part is _Part.DATA_END and not _CRLF.startswith(data[at : at + 2]):
                return Progress.MALFORMED, b""
            end = data.find(b"\n", at, at + CHUNK_LINE_BYTES)
            if end < 0:
                self._line = data[at:]
                fits = len(self._line) < CHUNK_LINE_BYTES
                return Progress.MORE if fits else Progress.MALFORMED, b""
            progress = self._take_line(data[at : end + 1])
            at = end + 1
            if progress is not Progress.MORE:
                return progress, data[at:] if progress is Progress.DONE else b""

    def _take_line(self, line: bytes) -> Progress:
        if not line.endswith(_CRLF):
            return Progress.MALFORMED
        line = line[:-2]
        match self._part:
            case _Part.SIZE:
                return self._take_size(line)
            case _Part.DATA_END:
                self._part = _Part.SIZE
                return Progress.MORE
            case _:
                return self._take_trailer(line)

    def _take_size(self, line: bytes) -> Progress:
        size = _SIZE_LINE.fullmatch(line)
        if size is None:
            return Progress.MALFORMED
        self._left = int(size[1], 16)
        if self._left > _LARGEST_SIZE:
            return Progress.MALFORMED
        if len(self._body) + self._left > self.limit:
            return Progress.TOO_LARGE
        self._part = _Part.DATA if self._left else _Part.TRAILER
        return Progress.MORE

    def _take_trailer(self, line: bytes) -> Progress:
        if not line:
            return Progress.DONE
        self._trailer_bytes += len(line)
        fits = self._trailer_bytes <= TRAILER_BYTES and _TRAILER.fullmatch(line)
        return Progress.MORE if fits else Progress.MALFORMED

    def take(self) -> Body:
        """The body, once it is done."""
        return bytes(self._body) if len(self._body) <= PLAIN_BODY_BYTES else memoryview(self._body)


class Mapped(asyncio.BufferedProtocol):
    """Stands in for the connection's protocol while a large body of known length is received: the kernel copies it
    straight into an anonymous memory map, which goes back to the system as soon as the last view of it is dropped.

    `beginning` is shorter than the whole; `done` is called with the body when the last byte has come."""

    def __init__(
        self, owner: asyncio.Protocol, length: int, beginning: bytes, done: Callable[[memoryview], None]
    ) -> None:
        # Private, so that pages are plain anonymous memory and not shared-memory files.
        self._view = memoryview(mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        self._view[: len(beginning)] = beginning
        self._owner = owner
        self._done = done
        self.received = len(beginning)
        """Bytes that came so far."""

    def get_buffer(self, sizehint: int) -> memoryview:
        # Never longer than the body, so that what follows it stays in the kernel.
        return self._view[self.received : self.received + _READ_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        self.received += nbytes
        if self.received == len(self._view):
            view, self._view = self._view, memoryview(b"")
            self._done(view)

    def eof_received(self) -> bool | None:
        return self._owner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._view = memoryview(b"")
        self._owner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._owner.pause_writing()

    def resume_writing(self) -> None:
        self._owner.resume_writing()
