"""Request bodies: counted, chunked, or large and received straight into their final place."""

from __future__ import annotations

import asyncio
import enum
import mmap
from collections.abc import Callable
from typing import Final

from mentatd.http.chunking import BadChunks, Chunking
from mentatd.http.limits import PLAIN_BODY_BYTES
from mentatd.http.request import Body

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
    """Takes the chunked coding off a body. Extensions and trailers are dropped.

    A body over `limit` bytes is refused as soon as a chunk announces it.
    """

    __slots__ = ("_body", "_chunking", "limit", "received")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.received = 0
        """Bytes that came so far, framing included."""
        self._body = bytearray()
        self._chunking = Chunking()

    def feed(self, data: bytes) -> tuple[Progress, bytes]:
        """Take what belongs to the body; the bytes behind its end come back (empty unless DONE)."""
        self.received += len(data)
        chunking, pieces = self._chunking, list[bytes]()
        try:
            size = chunking.take(data, pieces)
        except BadChunks:
            # which of two faults of one read is told does not depend on how it was cut
            return Progress.TOO_LARGE if chunking.announced > self.limit else Progress.MALFORMED, b""
        if chunking.announced > self.limit:
            return Progress.TOO_LARGE, b""
        for piece in pieces:
            self._body += piece
        return (Progress.DONE, data[size:]) if chunking.ended else (Progress.MORE, b"")

    @property
    def size(self) -> int:
        """Bytes of the body itself that came so far."""
        return len(self._body)

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
