"""Streams that begin before their engine answers: comments, what may follow them, and how they fail."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator

import pytest
from tests.serve.stage import CHUNKED, FIRST, OPEN, SECOND, Stage, staged
from tests.support.deadlines import until

from mentatd.errors import ConnectFailed
from mentatd.serve.eventstream import chunk

pytestmark = pytest.mark.interpreted

COMMENT = b": keepalive\n\n"
ERROR = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 50\r\n",
    b'{"error":{"message":"too long","type":"E"}}',
)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with staged() as stage:
        yield stage


def opened(stage: Stage, comments: int = 1) -> None:
    for number in range(comments):
        stage.exchange.keep_waiting(100.0 + 10 * number, 10.0)


def body(stage: Stage) -> bytes:
    """What the client got behind the one head."""
    head, _, body = stage.client.written.partition(b"\r\n\r\n")
    assert re.fullmatch(
        rb"HTTP/1.1 200 OK\r\nDate: [^\r]*GMT\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
        rb"X-Accel-Buffering: no(\r\nTransfer-Encoding: chunked)?(\r\nConnection: close)?",
        head,
    )
    return body


def last_event(stage: Stage) -> bytes:
    """The event behind the only comment."""
    got = body(stage)
    assert got.startswith(chunk(COMMENT))
    event = got.removeprefix(chunk(COMMENT)).partition(b"\r\n")[2].removesuffix(b"\r\n")
    assert got == chunk(COMMENT) + chunk(event)
    return event


def error_in(event: bytes) -> dict[str, object]:
    found: dict[str, object] = json.loads(event.removeprefix(b"data: "))["error"]
    return found


# -- waiting


async def test_a_comment_each_interval_behind_one_head(stage: Stage) -> None:
    stage.start()
    for now in (100.0, 103.0, 109.0, 110.0, 119.9, 120.0):
        stage.exchange.keep_waiting(now, 10.0)
    assert body(stage) == 3 * chunk(COMMENT)
    assert b"Transfer-Encoding: chunked\r\n\r\n" in stage.client.written
    assert stage.client.began
    assert stage.row.first_byte is None
    stage.exchange.client_lost()


async def test_the_head_carries_what_every_answer_does(stage: Stage) -> None:
    stage.client.fields = b"Vary: Origin\r\n"
    stage.start()
    opened(stage)
    assert b"\r\nVary: Origin\r\n" in stage.client.written.partition(b"\r\n\r\n")[0] + b"\r\n"
    stage.exchange.client_lost()


async def test_streams_of_other_things_are_left_waiting(stage: Stage) -> None:
    stage.start(path="/api/chat")
    opened(stage)
    assert stage.client.written == b""
    stage.failure()
    assert stage.refused[0] == 502


async def test_no_comment_once_the_head_is_there(stage: Stage) -> None:
    stage.start()
    stage.engine.head(CHUNKED)
    opened(stage)
    assert stage.client.written == CHUNKED + b"\r\n"
    stage.exchange.client_lost()


async def test_a_client_that_does_not_read_gets_no_comments(stage: Stage) -> None:
    stage.start()
    opened(stage)
    stage.exchange.client_paused()
    stage.exchange.keep_waiting(110.0, 10.0)
    assert body(stage) == chunk(COMMENT)
    stage.exchange.client_resumed()
    stage.exchange.keep_waiting(111.0, 10.0)
    assert body(stage) == 2 * chunk(COMMENT)
    stage.exchange.client_lost()


async def test_a_client_that_leaves_meanwhile(stage: Stage) -> None:
    stage.start()
    opened(stage)
    stage.exchange.client_lost()
    assert stage.engine.did == ["abandon"]
    assert stage.ends == [(499, "the client left")]


# -- an engine that then streams


@pytest.mark.parametrize("must_close", [False, True])
async def test_a_chunked_stream_goes_on_as_it_came(stage: Stage, must_close: bool) -> None:
    stage.client.must_close = must_close
    stage.start()
    opened(stage, 2)
    stage.engine.head(CHUNKED, chunk(b"data: a\n\n"), b"data: a\n\n")
    assert stage.engine.forward == stage.client.write
    stage.engine.body(b"0\r\n\r\n", b"")
    stage.engine.sink.message_ended()
    assert body(stage) == 2 * chunk(COMMENT) + chunk(b"data: a\n\n") + b"0\r\n\r\n"
    assert (b"\r\nConnection: close\r\n" in stage.client.written) is must_close
    assert stage.client.did == ["close" if must_close else "keep"]
    assert stage.ends == [(200, None)]
    assert stage.row.first_byte is not None
    assert stage.row.out_bytes == 9


async def test_its_first_byte_is_noted_when_it_comes(stage: Stage) -> None:
    stage.start()
    opened(stage)
    stage.engine.head(CHUNKED)
    seen = [stage.row.first_byte]
    stage.engine.body(chunk(b"data: a\n\n"), b"data: a\n\n")
    seen.append(stage.row.first_byte)
    assert seen[0] is None
    assert seen[1] is not None
    stage.engine.sink.message_ended()
    assert body(stage) == chunk(COMMENT) + chunk(b"data: a\n\n")


@pytest.mark.parametrize("head", [OPEN, OPEN + b"Content-Length: 9\r\n"])
async def test_a_stream_of_another_framing_is_framed_anew(stage: Stage, head: bytes) -> None:
    stage.start()
    opened(stage)
    stage.engine.head(head, b"data: ", b"data: ")
    stage.engine.body(b"a\n\n")
    stage.engine.sink.message_ended()
    assert body(stage) == chunk(COMMENT) + chunk(b"data: ") + chunk(b"a\n\n") + b"0\r\n\r\n"
    assert stage.client.did == ["keep"]


async def test_a_counted_stream_that_breaks_within_an_event_gets_none(stage: Stage) -> None:
    stage.start()
    opened(stage)
    stage.engine.head(OPEN + b"Content-Length: 99\r\n", b'data: {"par', b'data: {"par')
    stage.failure()
    assert body(stage) == chunk(COMMENT) + chunk(b'data: {"par')
    assert stage.client.did == ["cut"]


async def test_a_client_of_1_0_gets_it_without_chunks(stage: Stage) -> None:
    stage.client.http10 = True
    stage.start()
    opened(stage)
    stage.engine.head(CHUNKED, chunk(b"data: a\n\n"), b"data: a\n\n")
    stage.engine.sink.message_ended()
    assert body(stage) == COMMENT + b"data: a\n\n"
    assert stage.client.written.partition(b"\r\n\r\n")[0].endswith(
        b"X-Accel-Buffering: no\r\nConnection: close"
    )
    assert stage.client.did == ["close"]


# -- an engine that fails


async def test_a_failure_is_one_event_and_no_end(stage: Stage) -> None:
    stage.start()
    opened(stage)
    stage.failure()
    error = error_in(last_event(stage))
    assert error["code"] == "engine_failed"
    assert error["message"] == f"group glm at {FIRST}: closed"
    assert stage.client.did == ["cut"]
    assert stage.ends == [(200, error["message"])]


async def test_connects_that_fail_are_one_event(stage: Stage) -> None:
    stage.start(connected=False)
    await stage.pool.settle("10.0.0.2", ConnectFailed("http://10.0.0.2:8000", "connection refused"))
    opened(stage)
    await stage.pool.settle("10.0.0.3", ConnectFailed("http://10.0.0.3:8000", "no route"))
    await until(lambda: stage.ends)
    error = error_in(last_event(stage))
    assert error["code"] == "engine_unreachable"
    assert "no route" in str(error["message"])
    assert stage.suspects == [("glm", FIRST), ("glm", SECOND)]


async def test_the_deadline_is_one_event(stage: Stage) -> None:
    stage.start()
    opened(stage)
    stage.exchange.deadline_passed()
    assert error_in(last_event(stage))["code"] == "engine_timeout"
    assert stage.client.did == ["cut"]
    assert stage.engine.did == ["abandon"]


async def test_a_client_of_1_0_gets_the_event_and_a_reset(stage: Stage) -> None:
    stage.client.http10 = True
    stage.start()
    opened(stage)
    stage.failure()
    assert body(stage).startswith(COMMENT + b'data: {"error"')
    assert stage.client.did == ["reset"]


@pytest.mark.parametrize("head", [CHUNKED, OPEN])
async def test_a_stream_that_breaks_between_events(stage: Stage, head: bytes) -> None:
    stage.start()
    opened(stage)
    stage.engine.head(head, chunk(b"data: a\n\n"), b"data: a\n\n")
    stage.failure()
    got = body(stage)
    assert got.startswith(chunk(COMMENT) + chunk(b"data: a\n\n"))
    assert b'"code":"engine_failed"' in got
    assert stage.client.did == ["cut"]


async def test_a_stream_that_breaks_within_an_event(stage: Stage) -> None:
    stage.start()
    opened(stage)
    stage.engine.head(CHUNKED, chunk(b"data: a"), b"data: a")
    stage.failure()
    assert body(stage) == chunk(COMMENT) + chunk(b"data: a")
    assert stage.client.did == ["cut"]


# -- an engine that answers something else


async def test_an_engines_error_is_told_in_its_words(stage: Stage) -> None:
    stage.start()
    opened(stage)
    stage.engine.head(ERROR[0], ERROR[1][:20], ERROR[1][:20])
    stage.engine.body(ERROR[1][20:])
    stage.engine.sink.message_ended()
    event = b'data: {"error":{"message":"too long","type":"E","param":null,"code":400}}\n\n'
    assert last_event(stage) == event
    assert stage.client.did == ["cut"]
    assert stage.ends == [(200, "too long")]


async def test_anthropics_clients_get_it_named(stage: Stage) -> None:
    stage.start(path="/v1/messages")
    opened(stage)
    stage.engine.head(*ERROR, ERROR[1])
    stage.engine.sink.message_ended()
    name, data, *_ = last_event(stage).split(b"\n")
    assert name == b"event: error"
    assert json.loads(data.removeprefix(b"data: ")) == {
        "error": {"message": "too long", "type": "E", "param": None, "code": 400},
        "type": "error",
    }


@pytest.mark.parametrize(
    ("head", "payload", "message"),
    [
        (
            b"HTTP/1.1 500 Oops\r\nContent-Type: text/html\r\n",
            b"<h1>Oops</h1>\n",
            "answered 500 with text/html, and no stream of events: <h1>Oops</h1>",
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n",
            b'{"choices":[]}',
            'answered 200 with application/json, and no stream of events: {"choices":[]}',
        ),
        (
            b"HTTP/1.1 204 No Content\r\n",
            b"",
            "answered 204 with no media type, and no stream of events: ",
        ),
        (
            b"HTTP/1.1 429 Slow\r\nContent-Type: text/event-stream\r\n",
            b"data: x\n\n",
            "answered 429 with text/event-stream, and no stream of events: data: x",
        ),
    ],
)
async def test_any_other_answer_is_told_of(stage: Stage, head: bytes, payload: bytes, message: str) -> None:
    stage.start()
    opened(stage)
    stage.engine.head(head, payload, payload)
    stage.engine.sink.message_ended()
    error = error_in(last_event(stage))
    assert error["message"] == f"group glm at {FIRST}: {message}"
    assert error["code"] == "engine_failed"
    assert stage.client.did == ["cut"]


async def test_no_more_of_it_is_read_than_a_message_needs(stage: Stage) -> None:
    stage.start()
    opened(stage)
    stage.engine.head(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n")
    for _ in range(65):
        stage.engine.body(b"x" * 1024)
    assert stage.engine.did == ["abandon"]
    assert "no stream of events: xxx" in str(error_in(last_event(stage))["message"])


async def test_an_engine_that_dies_in_its_error(stage: Stage) -> None:
    stage.start()
    opened(stage)
    stage.engine.head(ERROR[0], ERROR[1][:20], ERROR[1][:20])
    stage.failure()
    assert error_in(last_event(stage))["message"] == f"group glm at {FIRST}: closed"
