"""A demonstration engine, asked over real sockets."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.deadlines import within

from mentatd.demo import speech
from mentatd.demo.engine import Engine
from mentatd.demo.words import reply, tokenize
from mentatd.http.server import Server

HI = {"messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
async def poet(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    """The port of an engine that hardly pauses between two words."""
    monkeypatch.setattr(speech, "PREFILL_S", 0.001)
    server = Server(Engine("poet", pace_s=0.0001))
    await server.start(0, ["127.0.0.1"])
    yield server.port
    await server.close()


async def ask(port: int, line: str, body: object = None, version: str = "1.1") -> tuple[int, str, bytes]:
    """Status, head and body of one exchange."""
    raw = b"" if body is None else json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"{line} HTTP/{version}\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(raw)}\r\n\r\n"
    writer.write(head.encode() + raw)
    async with within():
        answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    found, _, rest = answer.partition(b"\r\n\r\n")
    return int(found.split()[1]), found.decode(), rest


def dechunk(raw: bytes) -> bytes:
    """The body of a chunked answer, which must be whole."""
    body = b""
    while True:
        size, _, raw = raw.partition(b"\r\n")
        length = int(size, 16)
        body, raw = body + raw[:length], raw[length:]
        assert raw.startswith(b"\r\n")
        raw = raw[2:]
        if not length:
            assert raw == b""
            return body


def events(body: bytes) -> list[Any]:
    """The events of a stream, the last as text."""
    found = re.findall(rb"data: (.*)\n\n", body)
    assert found[-1] == b"[DONE]"
    return [json.loads(event) for event in found[:-1]]


async def metric(port: int, name: str) -> float:
    _, _, body = await ask(port, "GET /metrics")
    found = re.search(rb"^vllm:%b\{[^}]*\} (\S+)$" % name.encode(), body, re.MULTILINE)
    assert found is not None
    return float(found[1])


async def test_the_documents(poet: int) -> None:
    assert (await ask(poet, "GET /health"))[0] == 200
    status, head, body = await ask(poet, "GET /v1/models")
    assert (status, [entry["id"] for entry in json.loads(body)["data"]]) == (200, ["poet"])
    assert "Content-Type: application/json" in head
    status, head, _ = await ask(poet, "GET /metrics")
    assert status == 200
    assert "Content-Type: text/plain; version=0.0.4" in head


async def test_a_chat_at_once(poet: int) -> None:
    status, _, body = await ask(poet, "POST /v1/chat/completions", HI)
    document = json.loads(body)
    assert status == 200
    assert document["choices"][0]["message"]["content"] == "".join(reply("poet", "hi"))
    assert document["choices"][0]["finish_reason"] == "stop"
    assert document["usage"]["prompt_tokens"] == len(tokenize("user: hi\nassistant:"))


async def test_a_completion_at_once(poet: int) -> None:
    _, _, body = await ask(poet, "POST /v1/completions", {"prompt": "x", "max_tokens": 2})
    choice = json.loads(body)["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == ("Three engines", "length")


async def test_a_chat_streamed(poet: int) -> None:
    body = {**HI, "stream": True, "stream_options": {"include_usage": True}}
    status, head, raw = await ask(poet, "POST /v1/chat/completions", body)
    assert status == 200
    assert "Content-Type: text/event-stream" in head
    assert "Transfer-Encoding: chunked" in head
    assert "Connection: close" in head
    first, *words, counted = events(dechunk(raw))
    assert first["choices"][0]["delta"]["role"] == "assistant"
    assert "".join(word["choices"][0]["delta"]["content"] for word in words) == "".join(reply("poet", "hi"))
    assert words[-1]["choices"][0]["finish_reason"] == "stop"
    assert counted["usage"]["completion_tokens"] == len(words)


async def test_a_completion_streamed_to_an_old_client(poet: int) -> None:
    body = {"prompt": "x", "stream": True, "max_tokens": 3}
    _, head, raw = await ask(poet, "POST /v1/completions", body, version="1.0")
    assert "Transfer-Encoding" not in head
    assert "Connection: close" in head
    assert [event["choices"][0]["text"] for event in events(raw)] == ["Three", " engines", " hum"]


async def test_two_streams_over_one_connection(poet: int) -> None:
    raw = json.dumps({"prompt": "x", "stream": True, "max_tokens": 1}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", poet)
    for _ in range(2):
        writer.write(
            b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(raw) + raw
        )
        async with within():
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readuntil(b"\r\n0\r\n\r\n")
        assert b"Connection: close" not in head
        assert b"[DONE]" in body
    writer.close()
    await writer.wait_closed()


async def test_a_word_comes_when_it_is_said() -> None:
    """The first word does not wait for the last."""
    slow = Server(Engine("poet", pace_s=3600))
    await slow.start(0, ["127.0.0.1"])
    raw = json.dumps({"prompt": "x", "stream": True}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", slow.port)
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(raw) + raw)
    async with within():
        await reader.readuntil(b'"Three"')
        assert await metric(slow.port, "num_requests_running") == 1
        assert await metric(slow.port, "kv_cache_usage_perc") > 0
    writer.transport.abort()
    deadline = asyncio.get_running_loop().time() + 10
    while await metric(slow.port, "num_requests_running"):
        assert asyncio.get_running_loop().time() < deadline, "a client that left is still answered"
    assert await metric(slow.port, "kv_cache_usage_perc") == 0
    _, _, page = await ask(slow.port, "GET /metrics")
    assert b'request_success_total{finished_reason="abort",engine="0",model_name="poet"} 1\n' in page
    await slow.close()


async def test_a_client_that_does_not_read_is_waited_for() -> None:
    class Paused:
        """A connection whose client has stopped reading."""

        http10 = must_close = began = False
        flow: Any = None

        def __init__(self) -> None:
            self.written: list[bytes] = []
            self.ended = asyncio.Event()

        def write(self, data: bytes) -> None:
            self.written.append(data)

        def end(self, *, keep: bool) -> None:
            assert keep
            self.ended.set()

    connection = Paused()
    engine = Engine("poet", pace_s=0.0001)
    raw = json.dumps({"prompt": "x", "stream": True, "max_tokens": 3}).encode()
    engine._speak("completion", type("R", (), {"body": raw})(), connection)  # type: ignore[arg-type]
    connection.flow.client_paused()
    await asyncio.sleep(0.01)
    assert len(connection.written) == 1, "only the head"
    connection.flow.client_resumed()
    async with within():
        await connection.ended.wait()
    assert b"[DONE]" in connection.written[-2]


async def test_the_counters_follow(poet: int) -> None:
    await ask(poet, "POST /v1/completions", {"prompt": "one two", "max_tokens": 3})
    assert await metric(poet, "prompt_tokens_total") == 2
    assert await metric(poet, "generation_tokens_total") == 3
    assert await metric(poet, "time_to_first_token_seconds_count") == 1
    assert await metric(poet, "inter_token_latency_seconds_count") == 2
    assert await metric(poet, "num_requests_running") == 0
    assert await metric(poet, "kv_cache_usage_perc") == 0


async def test_tokens_are_counted(poet: int) -> None:
    status, _, body = await ask(poet, "POST /tokenize", {"prompt": "one two three"})
    assert (status, json.loads(body)["count"]) == (200, 3)
    status, _, body = await ask(poet, "POST /tokenize", HI)
    assert json.loads(body)["count"] == 3


@pytest.mark.parametrize(
    ("line", "body", "status"),
    [
        ("POST /v1/chat/completions", {"model": "other", **HI}, 404),
        ("POST /v1/chat/completions", {}, 400),
        ("POST /tokenize", {}, 400),
        ("POST /v1/embeddings", {}, 404),
        ("GET /nothing", None, 404),
        ("GET /v1/chat/completions", None, 404),
        ("DELETE /v1/models", None, 404),
    ],
)
async def test_what_is_refused(poet: int, line: str, body: object, status: int) -> None:
    found, _, raw = await ask(poet, line, body)
    error = json.loads(raw)["error"]
    assert (found, error["code"]) == (status, status)


async def test_what_the_server_refuses_has_the_same_envelope(poet: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", poet)
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999999\r\n\r\n")
    async with within():
        answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == 413
