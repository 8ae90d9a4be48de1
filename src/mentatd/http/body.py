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

_SIZE = re.compile(rb"\r\n([0-9A-Fa-f]{1,16})(?:[ \t]*;[\t -~\x80-\xff]*)?\r\n")
_SIZE_SO_FAR = re.compile(
    rb"\r?\Z|\r\n(?:[0-9A-Fa-f]{0,16}|[0-9A-Fa-f]{1,16}[ \t]*(?:;[\t -~\x80-\xff]*)?\r?)\Z"
)
_TRAILER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*)?\r\n")
_TRAILER_SO_FAR = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+(?::[\t -~\x80-\xff]*\r?)?|\r?)\Z")
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


class Chunked:
    """Takes the chunked coding off a body (RFC 9112 section 7.1), strictly. Extensions and trailers are dropped.

    A body over `limit` bytes is refused as soon as a chunk announces it. Lines are bounded, so that at most 4 KiB of
    framing is held at one time.
    """

    __slots__ = ("_body", "_held", "_in_trailers", "_left", "_trailer_bytes", "limit", "received")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.received = 0
        """Bytes that came so far, framing included."""
        self._body = bytearray()
        # An incomplete piece of framing. What ends a chunk and the next size line are one piece, and the first size
        # line is made to look like the others.
        self._held = b"\r\n"
        self._left = 0  # bytes that the present chunk still has to bring
        self._in_trailers = False
        self._trailer_bytes = 0

    def feed(self, data: bytes) -> tuple[Progress, bytes]:
        """Take what belongs to the body; the bytes behind its end come back (empty unless DONE)."""
        self.received += len(data)
        data, self._held = self._held + data, b""
        body, left, at = self._body, self._left, 0
        while not self._in_trailers:
            if left:
                piece = data[at : at + left]
                body += piece
                at += len(piece)
                left -= len(piece)
                if left:
                    self._left = left
                    return Progress.MORE, b""
            line = _SIZE.match(data, at)
            if line is None:
                self._left = 0
                return self._hold(data[at:], _SIZE_SO_FAR), b""
            left = int(line[1], 16)
            if left > _LARGEST_SIZE or line.end() - at > CHUNK_LINE_BYTES:
                return Progress.MALFORMED, b""
            if left > self.limit - len(body):
                return Progress.TOO_LARGE, b""
            at = line.end()
            self._in_trailers = not left
        return self._skip_trailers(data, at)

    @property
    def size(self) -> int:
        """Bytes of the body itself that came so far."""
        return len(self._body)

    def _skip_trailers(self, data: bytes, at: int) -> tuple[Progress, bytes]:
        while line := _TRAILER.match(data, at):
            self._trailer_bytes += line.end() - at
            if self._trailer_bytes > TRAILER_BYTES:
                return Progress.MALFORMED, b""
            at = line.end()
            if line[1] is None:
                return Progress.DONE, data[at:]
        return self._hold(data[at:], _TRAILER_SO_FAR), b""

    def _hold(self, framing: bytes, so_far: re.Pattern[bytes]) -> Progress:
        if len(framing) > CHUNK_LINE_BYTES or not so_far.match(framing):
            return Progress.MALFORMED
        self._held = framing
        return Progress.MORE

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
