"""Streams go through frame by frame, and a stream that breaks looks broken."""

from __future__ import annotations

import json
import socket
from contextlib import closing

import pytest
from openai import APIError, OpenAI
from tests.support.cluster import Router
from tests.support.deadlines import DEADLINE_S, wait_until
from tests.support.engine import Engine, Exchange
from tests.support.recorded import LAST_CHUNK, chunk
from tests.support.streams import CHAT, Stepped

PATH = "/v1/chat/completions"
BODY = b'{"model":"tiny","messages":[],"stream":true}'
REQUEST = b"POST %b HTTP/1.1\r\nHost: router\r\nContent-Length: %d\r\n\r\n%b" % (
    PATH.encode(),
    len(BODY),
    BODY,
)


def read_until(sock: socket.socket, end: bytes) -> bytes:
    """What comes up to `end`; what comes at all when the other side closes first."""
    data = bytearray()
    while not data.endswith(end) and (more := sock.recv(65536)):
        data += more
    return bytes(data)


def test_each_event_arrives_when_the_engine_sends_it(client: OpenAI, engine: Engine) -> None:
    played = Stepped()
    engine.play(PATH, played)
    played.step()
    with client.chat.completions.create(model="tiny", messages=[], stream=True) as stream:
        for expected, event in zip(CHAT, stream, strict=False):
            # the next one leaves the engine only after this one has come through
            assert event.to_dict() == json.loads(expected.removeprefix(b"data: "))
            played.step()
        played.finish()


def test_the_bytes_of_a_stream_are_the_engines(router: Router, engine: Engine) -> None:
    with closing(router.connect()) as sock:
        sock.sendall(REQUEST)
        head, _, body = read_until(sock, LAST_CHUNK).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert body == b"".join(map(chunk, CHAT)) + LAST_CHUNK


def test_an_engine_that_dies_between_two_events_is_told_of_and_cut(router: Router, engine: Engine) -> None:
    engine.play(PATH, played := Stepped(dies_at=2))
    with closing(router.connect()) as sock:
        sock.sendall(REQUEST)
        played.finish()
        answer = read_until(sock, LAST_CHUNK)
    body = answer.partition(b"\r\n\r\n")[2]
    sent = b"".join(map(chunk, CHAT[:2]))
    assert body.startswith(sent)
    assert not body.endswith(LAST_CHUNK)
    event = body.removeprefix(sent).split(b"\r\n")[1]
    error = json.loads(event.removeprefix(b"data: "))["error"]
    assert error["code"] == "engine_failed"
    assert "group glm" in error["message"]


def test_the_sdk_raises_when_the_engine_dies(client: OpenAI, engine: Engine) -> None:
    engine.play(PATH, played := Stepped(dies_at=2))
    played.finish()
    with (
        pytest.raises(APIError, match="glm"),
        client.chat.completions.create(model="tiny", messages=[], stream=True) as stream,
    ):
        list(stream)


def test_an_engine_that_dies_within_an_answer_of_known_length_adds_nothing(
    router: Router, engine: Engine
) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf ")
        exchange.cut()

    engine.play(PATH, script)
    with closing(router.connect()) as sock:
        sock.sendall(REQUEST)
        answer = read_until(sock, LAST_CHUNK)
    # the engine's reset may overtake the piece that it had sent
    assert answer.endswith((b"\r\n\r\nhalf ", b'"code":"engine_failed"}}'))


def test_an_engine_that_dies_before_it_answers_is_a_502_and_asked_once(
    router: Router, engine: Engine
) -> None:
    async def script(exchange: Exchange) -> None:
        exchange.cut()

    engine.play(PATH, script)
    answer = router.ask("POST", PATH, BODY)
    error = answer.json["error"]
    assert (answer.status, error["code"]) == (502, "engine_failed")
    assert f"group glm at http://127.0.0.1:{engine.port}/v1: " in error["message"]
    assert len(engine.posts()) == 1


@pytest.mark.parametrize("events", [0, 2], ids=["before the first event", "in mid-stream"])
def test_a_client_that_leaves_stops_the_engine(router: Router, engine: Engine, events: int) -> None:
    engine.play(PATH, played := Stepped())
    with closing(router.connect()) as sock:
        sock.sendall(REQUEST)
        wait_until(engine.posts)
        played.step(events)
        if events:
            read_until(sock, chunk(CHAT[events - 1]))
    assert played.gone.wait(DEADLINE_S)
    played.finish()
    assert router.models() == ["tiny"]


def test_a_client_that_leaves_with_a_large_request_in_line_stops_the_engine(
    router: Router, engine: Engine
) -> None:
    engine.play(PATH, played := Stepped())
    with closing(router.connect()) as sock:
        sock.sendall(
            REQUEST + b"POST %b HTTP/1.1\r\nHost: router\r\nContent-Length: 100000\r\n\r\n" % PATH.encode()
        )
        sock.sendall(bytes(100_000))
        wait_until(engine.posts)
    # long before SERVING_TIMEOUT_S, by default ten minutes
    assert played.gone.wait(DEADLINE_S)
    played.finish()
    assert len(engine.posts()) == 1


def test_a_client_that_does_not_read_holds_only_its_own_engine(router: Router, engine: Engine) -> None:
    sent = 0

    async def flood(exchange: Exchange) -> None:
        nonlocal sent
        await exchange.begin()
        for _ in range(1000):
            await exchange.event(b"data: " + b"x" * 65536 + b"\n\n")
            sent += 1
        await exchange.end()

    engine.play(PATH, flood)
    with closing(router.connect()) as slow:
        slow.sendall(REQUEST)
        stalled = -1

        def stands_still() -> bool:
            nonlocal stalled
            before, stalled = stalled, sent
            return 0 < sent == before

        wait_until(stands_still)
        assert sent < 500
        assert router.post("/tokenize", model="tiny", prompt="hi").status == 200
        assert len(read_until(slow, LAST_CHUNK)) > 65536 * 1000
    assert sent == 1000


def test_pipelined_requests_are_answered_in_order(router: Router, engine: Engine) -> None:
    engine.play(PATH, played := Stepped())
    with closing(router.connect()) as sock:
        sock.sendall(REQUEST + b"GET /v1/models/tiny HTTP/1.1\r\nHost: router\r\nConnection: close\r\n\r\n")
        wait_until(engine.posts)
        played.finish()
        answers = read_until(sock, b"never")
    stream, rest = answers.split(LAST_CHUNK, 1)
    assert stream.startswith(b"HTTP/1.1 200 OK\r\n")
    assert rest.startswith(b"HTTP/1.1 200 OK\r\n")
    assert json.loads(rest.partition(b"\r\n\r\n")[2])["id"] == "tiny"
