"""Reading the body of an answer: which bytes belong to it, and where it ends.

Pure: bytes in, values out. `body_of` gives the reader of the body that belongs to a head. It is fed each read of the
connection and says how much of it is still this message, so that what an engine sends behind its answer never passes
on as part of it (RFC 9112 section 6, request smuggling in reverse).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mentatd.http.chunking import BadChunks, Chunking
from mentatd.http.response import BadAnswer, ResponseHead, quote

_TAIL: Final = 4  # the longest end of an SSE event: CR LF CR LF
_EVENT_END: Final = b"\n\n"
# bytes, framing included, of a chunk that is seen to be one event without a search
_LONGEST_EVENT: Final = 2048


class Body:
    """The reader of one body. `take` raises BadAnswer when the framing breaks."""

    __slots__ = ("ended", "payload_bytes", "pieces", "tail")

    ended: bool
    """The message is complete."""
    payload_bytes: int
    """Bytes of the body that came so far, without framing."""
    pieces: Sequence[bytes]
    """What the last `take` held of the body, without framing."""
    tail: bytes
    """The end of the body that came so far: its last four bytes, or the blank line that they end with."""

    def __init__(self) -> None:
        self.ended = False
        self.payload_bytes = 0
        self.pieces = ()
        self.tail = b""

    @property
    def at_boundary(self) -> bool:
        """What was taken ends between two chunks: another one could be put in here."""
        return False

    def take(self, data: bytes) -> bytes:
        """Go on with what came; returns the part of it that is this message's, as on the wire."""
        raise NotImplementedError

    def pass_on(self, data: bytes) -> bytes:
        """Like `take`, for who has no use for `pieces`."""
        wire = self.take(data)
        self.pieces = ()
        return wire

    def _count(self, payload: bytes) -> None:
        """Note the one piece that came."""
        self.pieces = (payload,)
        self.payload_bytes += len(payload)
        self.tail = payload[-_TAIL:] if len(payload) >= _TAIL else (self.tail + payload)[-_TAIL:]


class CountedBody(Body):
    """A body of a length known before (RFC 9112 section 6.2); 0 is a body that has ended."""

    __slots__ = ("_length",)

    def __init__(self, length: int) -> None:
        # each for itself: a call of the base's would cost as much again
        self._length = length
        self.ended = length == 0
        self.payload_bytes = 0
        self.pieces = ()
        self.tail = b""

    def take(self, data: bytes) -> bytes:
        excess = self.payload_bytes + len(data) - self._length
        if excess >= 0:
            self.ended = True
            if excess:
                data = data[:-excess]
        self._count(data)
        return data


class OpenBody(Body):
    """A body that ends with the connection (RFC 9112 section 6.3, rule 8); whoever sees that says so in
    `ended`."""

    __slots__ = ()

    def take(self, data: bytes) -> bytes:
        self._count(data)
        return data


class ChunkedBody(Body):
    """A chunked body."""

    __slots__ = ("_chunking",)

    def __init__(self) -> None:
        super().__init__()
        self._chunking: Chunking | None = None  # None between two chunks

    def take(self, data: bytes) -> bytes:
        chunking = self._chunking or Chunking()
        pieces: list[bytes] = []
        try:
            size = chunking.take(data, pieces)
        except BadChunks as error:
            # this read does not pass on, so nothing of it is noted
            raise BadAnswer(f"broken chunks ({error}): {quote(data)}") from None
        self._chunking = None if chunking.between else chunking
        self.pieces = pieces
        if pieces:
            last = pieces[-1]
            self.payload_bytes += len(last) if len(pieces) == 1 else sum(map(len, pieces))
            self.tail = last[-_TAIL:] if len(last) >= _TAIL else (self.tail + b"".join(pieces))[-_TAIL:]
        self.ended = chunking.ended
        return data[:size] if chunking.ended else data

    def pass_on(self, data: bytes) -> bytes:
        # Engines write an event as one chunk, and most reads bring one: its length says how it has to begin.
        size = len(data)
        if size <= _LONGEST_EVENT and self._chunking is None and data.endswith(b"\n\n\r\n"):
            line = _FIRST_LINES[size]
            if data.startswith(line):
                self.payload_bytes += size - len(line) - 2
                self.tail = _EVENT_END
                return data
        return super().pass_on(data)

    @property
    def at_boundary(self) -> bool:
        return self._chunking is None


def _first_lines() -> list[bytes]:
    """For each length of a whole chunk its first line; or, if no chunk is that long, what is in none."""
    lines = [b"?" * (_LONGEST_EVENT + 1)] * (_LONGEST_EVENT + 1)
    for size in range(len(_EVENT_END), _LONGEST_EVENT):
        line = b"%x\r\n" % size
        if (length := len(line) + size + 2) <= _LONGEST_EVENT:
            lines[length] = line
    return lines


_FIRST_LINES: Final = _first_lines()


def body_of(head: ResponseHead) -> Body:
    """The reader of the body that belongs to this head."""
    if head.chunked:
        return ChunkedBody()
    return OpenBody() if head.length is None else CountedBody(head.length)
