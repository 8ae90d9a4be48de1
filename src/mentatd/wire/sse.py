"""Server-sent events, read from bytes in any cuts (WHATWG HTML section 9.2).  Pure."""

from __future__ import annotations

import re

_END_OF_LINE = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class EventTooLarge(ValueError):
    """One event passed the decoder's limit."""


class SseDecoder:
    """Feed it the body of a `text/event-stream`; it gives the data of each event that is complete.

    Lines end in LF, CR or CRLF. Only `data` matters here; `event`, `id`, `retry` and comments are read away.
    """

    def __init__(self, limit: int) -> None:
        """`limit`: bytes that one event, and what has come of the next line, may hold."""
        self._limit = limit
        self._line = bytearray()  # what has come of the line that is not complete
        self._data: bytearray | None = None  # of the event that is not complete; None without any
        self._first = True
        self._after_cr = False

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of each event that ended in this piece. Raises EventTooLarge."""
        if self._after_cr and piece:
            # The CR has ended its line already: what comes may be the other half of a CRLF.
            piece = piece.removeprefix(b"\n")
            self._after_cr = False
        events: list[bytes] = []
        done = 0
        for end in _END_OF_LINE.finditer(piece):
            self._line += piece[done : end.start()]
            self._end_line(events)
            done = end.end()
            self._after_cr = end.group() == b"\r" and done == len(piece)
        self._line += piece[done:]
        self._bound()
        return events

    def _end_line(self, events: list[bytes]) -> None:
        self._bound()
        line = bytes(self._line)
        self._line.clear()
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if not line:
            if self._data is not None:
                events.append(bytes(self._data))
                self._data = None
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            if self._data is None:
                self._data = bytearray()
            else:
                self._data += b"\n"
            self._data += value.removeprefix(b" ")

    def _bound(self) -> None:
        if len(self._line) + len(self._data or b"") > self._limit:
            raise EventTooLarge(f"an event of over {self._limit} bytes")
