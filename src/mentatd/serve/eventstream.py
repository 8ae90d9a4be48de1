"""Answers that are streams of events (WHATWG HTML section 9.2): what the router may add to one, and where. Pure."""

from __future__ import annotations

import json
from typing import Any

from mentatd.http.response import ResponseHead

KEEPALIVE = b": keepalive\n\n"
"""A comment: every reader of events skips it."""

_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
_MESSAGES = "/v1/messages"
_OTHER_STREAMS = ("/api/", "/v1/audio/speech")
"""Paths whose streams are no events: Ollama's own (lines of JSON), and speech (sound)."""
_OPENING = (
    b"HTTP/1.1 200 OK\r\n%bContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    b"X-Accel-Buffering: no\r\n%b\r\n"
)


def awaits_events(path: str) -> bool:
    """Whether a request of this path that asks for a stream is answered by one of events."""
    return not path.startswith(_OTHER_STREAMS)


def opening_head(date: bytes, add: bytes) -> bytes:
    """The head of a stream that the router begins in the engine's place.

    `date`: the Date line; `add`: the lines that say how it is framed. Each line ends in CRLF.
    """
    return _OPENING % (date, add)


def is_event_stream(head: ResponseHead) -> bool:
    """Whether this answer is a stream of events that can be read as it stands: it has no content coding."""
    media_type = (head.get(b"content-type") or b"").lower()
    return media_type.startswith(b"text/event-stream") and head.get(b"content-encoding") is None


def stands_between_events(tail: bytes) -> bool:
    """Whether a stream that so far ends in `tail` (four bytes; empty: nothing came) may take another event."""
    return not tail or tail.endswith(_EVENT_ENDS)


def error_event(path: str, document: bytes) -> bytes:
    """One event with an error document, as clients of the API at `path` look for it.

    OpenAI's find `error` in the data of any event; Anthropic's want the event named and the document typed.
    """
    if path != _MESSAGES:
        return b"data: %b\n\n" % document
    return b'event: error\ndata: %b,"type":"error"}\n\n' % document[:-1]


def error_document(error: dict[str, Any]) -> bytes:
    """An engine's error object in the envelope, on one line."""
    return json.dumps({"error": error}, separators=(",", ":")).encode()


def chunk(payload: bytes) -> bytes:
    """One chunk of a chunked body (RFC 9112 section 7.1)."""
    return b"%x\r\n%b\r\n" % (len(payload), payload)
