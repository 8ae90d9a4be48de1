"""Playbooks of one exchange: events in, what both connections are told out. No sockets."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator

import pytest
from tests.serve.stage import CHUNKED, COUNTED, FIRST, OPEN, SECOND, Stage, staged
from tests.support.deadlines import until

from mentatd.errors import ConnectFailed

pytestmark = pytest.mark.interpreted


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with staged() as stage:
        yield stage


# -- the usual way


async def test_sends_over_an_idle_connection_at_once(stage: Stage) -> None:
    stage.start()
    assert stage.engine.sent == (
        b"POST /v1/x HTTP/1.1\r\nHost: 10.0.0.2:8000\r\nContent-Length: 13\r\nA: 1\r\n\r\n" + b'{"model":"m"}'
    )
    assert stage.client.flow is stage.exchange
    assert len(stage.tasks) == 0
    stage.engine.head(COUNTED, b"hello", b"hello")
    stage.engine.sink.message_ended()
    assert stage.client.written == COUNTED + b"\r\nhello"
    assert stage.client.began
    assert stage.client.did == ["keep"]
    assert stage.ends == [(200, None)]
    assert stage.row.out_bytes == 5


async def test_the_bodys_memory_is_given_back_once_the_engine_has_it(stage: Stage) -> None:
    stage.start()
    assert stage.client.bodies_sent == 0
    stage.exchange.request_sent()
    assert stage.client.bodies_sent == 1
    stage.exchange.client_lost()


async def test_passes_chunks_on_as_they_came(stage: Stage) -> None:
    stage.start()
    stage.engine.head(CHUNKED, b"4\r\na\n\n\n\r\n", b"a\n\n\n")
    assert stage.engine.forward == stage.client.write
    stage.engine.body(b"1\r\nb\r\n", b"b")
    stage.engine.body(b"0\r\n\r\n", b"")
    stage.engine.sink.message_ended()
    assert stage.client.written == CHUNKED + b"\r\n4\r\na\n\n\n\r\n1\r\nb\r\n0\r\n\r\n"
    assert stage.client.did == ["keep"]
    assert stage.row.out_bytes == 5


async def test_once_a_body_has_begun_it_goes_straight_to_the_client(stage: Stage) -> None:
    stage.start()
    stage.engine.head(CHUNKED)
    stage.engine.body(b"1\r\n", b"")
    assert stage.engine.forward != stage.client.write
    stage.engine.body(b"b\r\n", b"b")
    assert stage.engine.forward == stage.client.write
    assert stage.client.written == CHUNKED + b"\r\n1\r\nb\r\n"
    stage.exchange.client_lost()


async def test_the_first_byte_is_that_of_the_body(stage: Stage) -> None:
    stage.start()
    stage.engine.head(CHUNKED, b"4\r\n")
    seen = [stage.row.first_byte]
    stage.engine.body(b"", b"")
    seen.append(stage.row.first_byte)
    stage.engine.body(b"abcd\r\n", b"abcd")
    first = stage.row.first_byte
    stage.engine.body(b"0\r\n\r\n", b"")
    stage.engine.sink.message_ended()
    seen.append(stage.row.first_byte)
    assert first is not None
    assert seen == [None, None, first]
    assert stage.client.written.endswith(b"\r\n\r\n4\r\nabcd\r\n0\r\n\r\n")


async def test_the_client_that_will_close_is_told(stage: Stage) -> None:
    stage.client.must_close = True
    stage.start()
    stage.engine.head(COUNTED, b"hello", b"hello")
    stage.engine.sink.message_ended()
    assert stage.client.written == COUNTED + b"Connection: close\r\n\r\nhello"
    assert stage.client.did == ["close"]


async def test_a_status_without_a_body_names_no_coding(stage: Stage) -> None:
    stage.start()
    stage.engine.head(b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\nA: 1\r\n")
    stage.engine.sink.message_ended()
    assert stage.client.written == b"HTTP/1.1 204 No Content\r\nA: 1\r\n\r\n"
    assert stage.row.first_byte is None


# -- framing anew


async def test_an_open_answer_is_chunked_for_a_client_of_1_1(stage: Stage) -> None:
    stage.start()
    stage.engine.head(OPEN, b"ab", b"ab")
    stage.engine.body(b"")
    stage.engine.body(b"0123456789abcdef")
    stage.engine.sink.message_ended()
    head = OPEN + b"Transfer-Encoding: chunked\r\n\r\n"
    assert stage.client.written == head + b"2\r\nab\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n"
    assert stage.client.did == ["keep"]
    assert stage.row.first_byte is not None


@pytest.mark.parametrize("head", [OPEN, CHUNKED])
async def test_a_client_of_1_0_reads_to_the_end_of_the_connection(stage: Stage, head: bytes) -> None:
    stage.client.http10 = True
    stage.start()
    stage.engine.head(head, b"ab", b"ab")
    stage.engine.body(b"cd")
    stage.engine.sink.message_ended()
    assert stage.client.written == OPEN + b"Connection: close\r\n\r\nabcd"
    assert stage.client.did == ["close"]


async def test_a_client_of_1_0_keeps_its_connection_where_a_length_is_known(stage: Stage) -> None:
    stage.client.http10 = True
    stage.start()
    stage.engine.head(COUNTED, b"hello", b"hello")
    stage.engine.sink.message_ended()
    assert stage.client.written == COUNTED + b"Connection: keep-alive\r\n\r\nhello"
    assert stage.client.did == ["keep"]


async def test_an_engine_of_1_0_is_passed_on_as_1_1(stage: Stage) -> None:
    stage.start()
    stage.engine.head(b"HTTP/1.0 200 OK\r\nServer: old\r\n")
    stage.engine.body(b"x")
    stage.engine.sink.message_ended()
    assert stage.client.written.startswith(
        b"HTTP/1.1 200 OK\r\nServer: old\r\nTransfer-Encoding: chunked\r\n\r\n"
    )


# -- connecting


async def test_connects_where_nothing_is_idle(stage: Stage) -> None:
    stage.start(connected=False)
    await stage.pool.settle("10.0.0.2", stage.engine)
    await until(lambda: stage.engine.sent)
    stage.engine.head(COUNTED, b"hello", b"hello")
    stage.engine.sink.message_ended()
    assert stage.client.did == ["keep"]
    assert stage.suspects == []


async def test_a_failed_connect_is_answered_by_the_next_address(stage: Stage) -> None:
    stage.start(connected=False)
    await stage.pool.settle("10.0.0.2", ConnectFailed("http://10.0.0.2:8000", "connection refused"))
    await stage.pool.settle("10.0.0.3", stage.engine)
    await until(lambda: stage.engine.sent)
    assert b"Host: 10.0.0.3:8000\r\n" in stage.engine.sent
    assert stage.suspects == [("glm", FIRST)]
    assert (stage.row.address, stage.row.sent) == (SECOND, True)
    stage.engine.head(COUNTED, b"hello", b"hello")
    stage.engine.sink.message_ended()
    assert stage.ends == [(200, None)]


async def test_an_idle_connection_of_the_next_address_is_used(stage: Stage) -> None:
    stage.pool.idle["10.0.0.3"] = stage.engine
    stage.start(connected=False)
    await stage.pool.settle("10.0.0.2", ConnectFailed("http://10.0.0.2:8000", "refused"))
    await until(lambda: stage.engine.sent)
    assert stage.pool.asked == ["10.0.0.2"]
    stage.exchange.client_lost()


async def test_the_body_is_held_until_it_is_sent_and_no_longer(stage: Stage) -> None:
    stage.start(connected=False)
    await stage.pool.settle("10.0.0.2", ConnectFailed("http://10.0.0.2:8000", "refused"))
    await until(lambda: "10.0.0.3" in stage.pool.pending)
    assert stage.request.body == b'{"model":"m"}'
    await stage.pool.settle("10.0.0.3", stage.engine)
    await until(lambda: stage.engine.sent)
    assert stage.engine.sent.endswith(b'\r\n\r\n{"model":"m"}')
    assert stage.request.body == b""
    stage.exchange.client_lost()


async def test_502_names_the_group_and_every_address(stage: Stage) -> None:
    stage.start(connected=False)
    await stage.pool.settle("10.0.0.2", ConnectFailed("http://10.0.0.2:8000", "connection refused"))
    await stage.pool.settle("10.0.0.3", ConnectFailed("http://10.0.0.3:8000", "no route"))
    await until(lambda: stage.ends)
    assert not stage.row.sent
    failures = "http://10.0.0.2:8000: connection refused; http://10.0.0.3:8000: no route"
    assert stage.refused == (502, f"group glm: {failures}")
    assert stage.suspects == [("glm", FIRST), ("glm", SECOND)]


async def test_a_client_that_leaves_ends_the_connect(stage: Stage) -> None:
    stage.start(connected=False)
    await until(lambda: "10.0.0.2" in stage.pool.pending)
    stage.exchange.client_lost()
    await until(lambda: not len(stage.tasks))
    assert stage.pool.pending["10.0.0.2"].cancelled()
    assert stage.ends == [(499, "the client left")]
    assert stage.client.did == []
    assert stage.suspects == []


async def test_the_deadline_ends_the_connect(stage: Stage) -> None:
    stage.start(connected=False)
    await until(lambda: "10.0.0.2" in stage.pool.pending)
    stage.exchange.deadline_passed()
    await until(lambda: not len(stage.tasks))
    assert stage.pool.pending["10.0.0.2"].cancelled()
    assert stage.refused[0] == 504


@pytest.mark.parametrize(("resumed", "told"), [(False, ["pause"]), (True, [])])
async def test_a_client_paused_before_the_engine_is_there(
    stage: Stage, resumed: bool, told: list[str]
) -> None:
    stage.start(connected=False)
    stage.exchange.client_paused()
    if resumed:
        stage.exchange.client_resumed()
    await stage.pool.settle("10.0.0.2", stage.engine)
    await until(lambda: stage.engine.sent)
    assert stage.engine.did == told
    stage.exchange.client_lost()


async def test_a_router_that_stops_refuses_what_connects(stage: Stage) -> None:
    stage.start(connected=False)
    await until(lambda: "10.0.0.2" in stage.pool.pending)
    await stage.tasks.close()
    assert stage.refused[0] == 502


async def test_a_router_that_stopped_connects_no_more(stage: Stage) -> None:
    await stage.tasks.close()
    stage.start(connected=False)
    assert stage.refused == (502, "group glm: the router is stopping")


async def test_a_connection_that_is_gone_when_it_is_used(stage: Stage) -> None:
    stage.engine.fails = True
    stage.start()
    assert stage.refused[0] == 502
    assert stage.pool.asked == []


# -- failures


async def test_an_engine_that_fails_before_its_head_is_a_502(stage: Stage) -> None:
    stage.start()
    stage.failure()
    assert stage.refused == (502, f"group glm at {FIRST}: closed")
    assert stage.client.written == b""
    assert stage.ends == [(502, stage.refused[1])]
    assert stage.suspects == []
    # there is another address, but a byte went out
    assert stage.pool.asked == []


async def test_an_event_stream_that_breaks_between_events_says_why(stage: Stage) -> None:
    stage.start()
    stage.engine.head(CHUNKED, b"9\r\ndata: a\n\n\r\n", b"data: a\n\n")
    stage.failure()
    event = (
        b'data: {"error":{"message":"group glm at http://10.0.0.2:8000/v1: closed",'
        b'"type":"server_error","param":null,"code":"engine_failed"}}\n\n'
    )
    assert stage.client.written.endswith(b"data: a\n\n\r\n%x\r\n%b\r\n" % (len(event), event))
    assert stage.client.did == ["cut"]
    assert stage.ends[0][0] == 200


@pytest.mark.parametrize("payload", [b"", b"data: a\n\n", b"data: a\r\n\r\n", b"data: a\r\r", b": ping\n\n"])
async def test_every_end_of_an_event_counts(stage: Stage, payload: bytes) -> None:
    stage.start()
    stage.engine.head(CHUNKED, b"", payload)
    stage.failure()
    assert b'data: {"error"' in stage.client.written


@pytest.mark.parametrize("payload", [b"d", b"data: a\n", b"data: a\r\n", b"data: a\n\nd"])
async def test_within_an_event_nothing_is_added(stage: Stage, payload: bytes) -> None:
    stage.start()
    stage.engine.head(CHUNKED, b"", payload)
    stage.failure()
    assert stage.client.written == CHUNKED + b"\r\n"
    assert stage.client.did == ["cut"]


async def test_within_a_chunk_nothing_is_added(stage: Stage) -> None:
    stage.start()
    stage.engine.answer.at_boundary = False
    stage.engine.head(CHUNKED, b"", b"data: a\n\n")
    stage.failure()
    assert stage.client.written == CHUNKED + b"\r\n"
    assert stage.client.did == ["cut"]


@pytest.mark.parametrize(
    "head",
    [
        COUNTED,
        CHUNKED.replace(b"text/event-stream", b"application/json"),
        CHUNKED.replace(b"Content-Type", b"X-Type"),
        CHUNKED + b"Content-Encoding: gzip\r\n",
    ],
)
async def test_what_is_no_plain_chunked_event_stream_gets_nothing_added(stage: Stage, head: bytes) -> None:
    stage.start()
    stage.engine.head(head, b"", b"a\n\n")
    stage.failure()
    assert stage.client.written == head + b"\r\n"
    assert stage.client.did == ["cut"]
    assert stage.ends[0][0] == 200


async def test_an_open_event_stream_that_breaks_says_why_to_a_client_of_1_1(stage: Stage) -> None:
    stage.start()
    stage.engine.answer.at_boundary = False  # only the framing that goes out counts
    stage.engine.head(OPEN, b"data: a\n\n", b"data: a\n\n")
    stage.failure()
    assert b'data: {"error"' in stage.client.written
    assert stage.client.did == ["cut"]


@pytest.mark.parametrize("head", [OPEN, CHUNKED])
async def test_what_only_the_end_delimits_is_reset(stage: Stage, head: bytes) -> None:
    stage.client.http10 = True
    stage.start()
    stage.engine.head(head, b"data: a\n\n", b"data: a\n\n")
    stage.failure()
    assert stage.client.written.endswith(b"\r\n\r\ndata: a\n\n")
    assert stage.client.did == ["reset"]


async def test_the_deadline_before_the_head_is_a_504(stage: Stage) -> None:
    stage.start()
    stage.exchange.deadline_passed()
    assert stage.engine.did == ["abandon"]
    assert stage.refused == (504, f"group glm at {FIRST}: no complete answer within 100 s")


async def test_the_deadline_in_the_answer_cuts_it(stage: Stage) -> None:
    stage.start()
    stage.engine.head(CHUNKED, b"", b"data: a\n\n")
    stage.exchange.deadline_passed()
    assert stage.engine.did == ["abandon"]
    assert b'"code":"engine_timeout"' in stage.client.written
    assert stage.client.did == ["cut"]


async def test_a_failure_is_logged_once(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.start()
    stage.failure()
    (line,) = capsys.readouterr().err.splitlines()
    assert "event=request_failed" in line
    assert "group=glm" in line
    assert "code=engine_failed" in line


# -- the client


async def test_a_client_that_leaves_before_the_answer(stage: Stage) -> None:
    stage.start()
    stage.exchange.client_lost()
    assert stage.engine.did == ["abandon"]
    assert stage.client.did == []
    assert stage.ends == [(499, "the client left")]


async def test_a_client_that_leaves_in_mid_answer(stage: Stage) -> None:
    stage.start()
    stage.engine.head(CHUNKED, b"", b"data: a\n\n")
    stage.exchange.client_lost()
    assert stage.engine.did == ["abandon"]
    assert stage.client.did == []
    assert stage.ends == [(499, "the client left")]
    assert stage.rows[0].out_bytes == 9


async def test_a_client_that_does_not_read_pauses_the_engine(stage: Stage) -> None:
    stage.start()
    stage.engine.head(CHUNKED)
    stage.exchange.client_paused()
    stage.exchange.client_resumed()
    assert stage.engine.did == ["pause", "resume"]
    stage.engine.sink.message_ended()
    stage.exchange.client_paused()
    stage.exchange.client_resumed()
    assert stage.engine.did == ["pause", "resume"]


async def test_the_body_is_let_go_once_it_is_sent(stage: Stage) -> None:
    body = memoryview(bytearray(b'{"model":"m"}'))
    held = weakref.ref(body)
    stage.start(body=body)
    del body
    stage.exchange.request_sent()
    assert held() is None
    stage.exchange.client_lost()
