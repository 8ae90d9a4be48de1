"""What may be added to a stream of events, and where."""

from __future__ import annotations

import json

import pytest

from mentatd.http.response import read_head
from mentatd.serve.eventstream import (
    KEEPALIVE,
    awaits_events,
    chunk,
    error_document,
    error_event,
    is_event_stream,
    opening_head,
    stands_between_events,
)
from mentatd.wire.sse import SseDecoder


@pytest.mark.parametrize(
    ("path", "events"),
    [
        ("/v1/chat/completions", True),
        ("/v1/completions", True),
        ("/v1/responses", True),
        ("/v1/messages", True),
        ("/v1/audio/transcriptions", True),
        ("/completion", True),
        ("/v1/audio/speech", False),
        ("/api/chat", False),
        ("/api/generate", False),
    ],
)
def test_which_paths_stream_events(path: str, events: bool) -> None:
    assert awaits_events(path) is events


@pytest.mark.parametrize(
    ("fields", "events"),
    [
        (b"Content-Type: text/event-stream\r\n", True),
        (b"content-type:  Text/Event-Stream; charset=utf-8\r\n", True),
        (b"Content-Type: application/json\r\n", False),
        (b"Content-Type: text/event-stream\r\nContent-Encoding: gzip\r\n", False),
        (b"", False),
    ],
)
def test_which_answers_are_streams_of_events(fields: bytes, events: bool) -> None:
    assert is_event_stream(read_head(b"HTTP/1.1 200 OK\r\n" + fields + b"\r\n")) is events


@pytest.mark.parametrize(
    ("tail", "between"),
    [
        (b"", True),
        (b"1}\n\n", True),
        (b"\r\n\r\n", True),
        (b"1}\r\r", True),
        (b"\n\n", True),
        (b"\r\n1\n", False),
        (b"\n\r\n", False),
        (b"data", False),
    ],
)
def test_between_two_events(tail: bytes, between: bool) -> None:
    assert stands_between_events(tail) is between


def test_readers_skip_a_comment_and_find_the_error() -> None:
    document = error_document({"message": "line\nbreak \udc80 ö", "code": 1})
    plain, named = error_event("/v1/chat/completions", document), error_event("/v1/messages", document)
    assert plain.startswith(b'data: {"error":{')
    assert named.startswith(b'event: error\ndata: {"error":{')
    (first, second) = SseDecoder(10_000).feed(KEEPALIVE + plain + KEEPALIVE + named)
    assert json.loads(first) == {"error": {"message": "line\nbreak \udc80 ö", "code": 1}}
    assert json.loads(second) == json.loads(first) | {"type": "error"}


def test_the_opening_is_a_head() -> None:
    raw = opening_head(b"Date: d\r\n", b"Transfer-Encoding: chunked\r\n")
    head = read_head(raw)
    assert (head.status, head.chunked, head.keep_alive) == (200, True, True)
    assert is_event_stream(head)
    assert head.get(b"date") == b"d"
    assert head.get(b"cache-control") == b"no-cache"


def test_a_chunk() -> None:
    assert chunk(b"0123456789abcdef") == b"10\r\n0123456789abcdef\r\n"
