"""A stream of events that the router begins because its engine says nothing for long.

The client has then a status and a media type, whatever the engine says later: its stream of events goes on behind the
comments; of any other answer the error is read, up to a bound, and told as an event.
"""

from __future__ import annotations

import time

from mentatd.http.answers import date_line
from mentatd.http.connection import Connection
from mentatd.http.response import ResponseHead
from mentatd.serve.eventstream import KEEPALIVE, chunk, error_document, is_event_stream, opening_head
from mentatd.wire.engineerror import read_error, shown_text

_ERROR_BYTES = 64 * 1024
"""What is read of an engine's answer for its error message."""


class Opening:
    """What the client of one exchange has been given in the engine's place."""

    __slots__ = ("_connection", "_due", "_refused", "_told", "keep", "until_close")

    keep: bool
    """The head left the connection open for another request."""
    until_close: bool
    """The stream ends with the connection, and is not chunked."""

    def __init__(self, connection: Connection) -> None:
        """Write the head."""
        self.until_close = connection.http10
        self.keep = not self.until_close and not connection.must_close
        self._connection = connection
        self._due = 0.0
        self._refused: ResponseHead | None = None
        self._told = bytearray()
        framing = b"" if self.until_close else b"Transfer-Encoding: chunked\r\n"
        closing = b"" if self.keep else b"Connection: close\r\n"
        connection.began = True
        connection.write(opening_head(date_line(int(time.time())), framing + closing + connection.fields))

    def comment(self, now: float, interval_s: float) -> None:
        """Write a comment, at most one in `interval_s` seconds."""
        if now >= self._due:
            self._due = now + interval_s
            self.write(KEEPALIVE)

    def write(self, events: bytes) -> None:
        """Write whole events, framed."""
        self._connection.write(events if self.until_close else chunk(events))

    def takes(self, head: ResponseHead) -> bool:
        """Whether the engine's answer can go on behind the comments; if not, `read` its body."""
        if head.status == 200 and is_event_stream(head):
            return True
        self._refused = head
        return False

    @property
    def reading(self) -> bool:
        """The engine's answer is one that cannot go on."""
        return self._refused is not None

    def read(self, payload: bytes) -> bool:
        """Take a piece of such an answer's body; false: that is enough of it."""
        self._told += payload
        return len(self._told) <= _ERROR_BYTES

    def engine_error(self) -> tuple[bytes | None, str]:
        """What such an answer says: the document of its error, None when it has none, and the message."""
        head, told = self._refused, bytes(self._told)
        assert head is not None
        error = read_error(head.status, told)
        if error is not None:
            return error_document(error), str(error["message"])
        media_type = (head.get(b"content-type") or b"no media type").decode("latin-1")
        return None, f"answered {head.status} with {media_type}, and no stream of events: {shown_text(told)}"
