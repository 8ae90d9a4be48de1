"""Server-sent events, read from bytes in any cuts (WHATWG HTML section 9.2)."""

from __future__ import annotations

import re

_END_OF_LINE = re.compile(rb"\r\n|\n|\r")


class EventTooLarge(ValueError):
    """One event passed the decoder's limit."""


class SseDecoder:
    """Feed it the body of a `text/event-stream`; it gives the data of each event that is complete.

    Lines end in LF, CR or CRLF. Only `data` matters here; `event`, `id`, `retry` and comments are read away.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._first = True

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of each event that ended in this piece. Raises EventTooLarge past the limit in bytes."""
        start = max(0, len(self._pending) - 1)
        self._pending += piece
        events: list[bytes] = []
        done = 0
        for end in _END_OF_LINE.finditer(self._pending, start):
            # A CR that stands last may be the first half of a CRLF: it waits for the next piece.
            if end.group() == b"\r" and end.end() == len(self._pending):
                break
            self._line(bytes(self._pending[done : end.start()]), events)
            done = end.end()
        del self._pending[:done]
        if self._size + len(self._pending) > self._limit:
            raise EventTooLarge(f"an event of over {self._limit} bytes")
        return events

    def _line(self, line: bytes, events: list[bytes]) -> None:
        if self._first:
            self._first = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            if self._data:
                events.append(b"\n".join(self._data))
            self._data, self._size = [], 0
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._size += len(value) + 1
