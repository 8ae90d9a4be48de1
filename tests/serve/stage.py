"""One exchange between two connections that a test plays: events in, what both are told out. No sockets."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

from tests.support.deadlines import until

from mentatd.cluster.targets import parse_target
from mentatd.errors import Refusal, UpstreamBroken
from mentatd.http.connection import Connection
from mentatd.http.pool import Pool
from mentatd.http.request import Body, Head, Request
from mentatd.http.response import ResponseHead, read_head
from mentatd.http.upstream import Origin
from mentatd.serve.connecting import CONNECT_TIMEOUT_S, Means
from mentatd.serve.exchange import Exchange
from mentatd.serve.inflight import Inflight, Row
from mentatd.tasks import Tasks

FIRST, SECOND = "http://10.0.0.2:8000/v1", "http://10.0.0.3:8000/v1"
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
COUNTED = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"
OPEN = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


class Client:
    """The client's connection: what the exchange did to it."""

    def __init__(self) -> None:
        self.flow: Any = None
        self.http10 = False
        self.must_close = False
        self.fields = b""
        self.began = False
        self.written = b""
        self.did: list[str] = []
        self.refusal: Refusal | None = None
        self.bodies_sent = 0

    def write(self, data: bytes) -> None:
        self.written += data

    def refuse(self, refusal: Refusal) -> None:
        self.did.append("refuse")
        self.refusal = refusal

    def end(self, *, keep: bool) -> None:
        self.did.append("keep" if keep else "close")

    def cut(self, *, reset: bool = False) -> None:
        self.did.append("reset" if reset else "cut")

    def body_sent(self) -> None:
        self.bodies_sent += 1


class Engine:
    """The engine's connection."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.sent = b""
        self.sink: Any = None
        self.answer = SimpleNamespace(payload_bytes=0, tail=b"", at_boundary=True)
        self.forward: Callable[[bytes], object] | None = None
        self.fails = False

    def send(self, sink: Any, head: bytes, body: Body) -> None:
        self.sink = sink
        self.sent += head + body
        if self.fails:
            sink.exchange_failed(UpstreamBroken("http://10.0.0.2:8000", "closed before the request was sent"))

    def pass_to(self, forward: Callable[[bytes], object]) -> None:
        self.forward = forward

    def pause(self) -> None:
        self.did.append("pause")

    def resume(self) -> None:
        self.did.append("resume")

    def abandon(self) -> None:
        self.did.append("abandon")

    # what the engine does

    def head(self, raw: bytes, rest: bytes = b"", payload: bytes = b"") -> None:
        head: ResponseHead = read_head(raw + b"\r\n")
        self.count(payload)
        self.forward = self.sink.head_received(head, rest)
        if self.forward is None and payload:
            self.sink.body_received(payload)

    def body(self, data: bytes, payload: bytes | None = None) -> None:
        self.count(data if payload is None else payload)
        if self.forward is not None:
            self.forward(data)
        else:
            self.sink.body_received(data)

    def count(self, payload: bytes) -> None:
        self.answer.payload_bytes += len(payload)
        self.answer.tail = (self.answer.tail + payload)[-4:]


class Connects:
    """A pool whose connects are decided by the test."""

    def __init__(self) -> None:
        self.idle: dict[str, Engine] = {}
        self.asked: list[str] = []
        self.pending: dict[str, asyncio.Future[Engine]] = {}

    def take(self, origin: Origin) -> Engine | None:
        return self.idle.pop(origin.host, None)

    async def connect(self, origin: Origin, *, timeout: float) -> Engine:
        assert timeout == CONNECT_TIMEOUT_S
        self.asked.append(origin.host)
        future: asyncio.Future[Engine] = asyncio.get_running_loop().create_future()
        self.pending[origin.host] = future
        return await future

    async def settle(self, host: str, result: Engine | Exception) -> None:
        await until(lambda: host in self.pending)
        if isinstance(result, Engine):
            self.pending[host].set_result(result)
        else:
            self.pending[host].set_exception(result)


class Stage:
    """One exchange and everything around it."""

    def __init__(self) -> None:
        self.client = Client()
        self.engine = Engine()
        self.pool = Connects()
        self.inflight = Inflight(100.0)
        self.tasks = Tasks("test")
        self.suspects: list[tuple[str, str]] = []
        self.ends: list[tuple[int, str | None]] = []
        self.rows: list[Row] = []
        self.inflight.on_finished(self._finished)
        self.exchange: Exchange
        self.row: Row
        self.request: Request

    def _finished(self, row: Row) -> None:
        self.ends.append((row.status, row.failure))
        self.rows.append(row)

    def start(self, *, connected: bool = True, body: Body = b'{"model":"m"}', path: str = "/v1/x") -> None:
        if connected:
            self.pool.idle["10.0.0.2"] = self.engine
        now = asyncio.get_running_loop().time
        suspect = lambda group, url: self.suspects.append((group, url))  # noqa: E731
        means = Means(cast(Pool, self.pool), self.inflight, self.tasks, suspect, now)
        targets = tuple(parse_target(base) for base in (FIRST, SECOND))
        self.row = Row("m", "glm", FIRST, "10.0.0.9", path, prompt_bytes=13, stream=True, started=now())
        self.request = Request(Head("POST", b"/v1/x"), body)
        client = cast(Connection, self.client)
        self.exchange = Exchange(means, client, self.row, self.request, b"\r\nA: 1", targets)
        self.inflight.enter(self.row, self.exchange)
        self.exchange.start()

    def failure(self) -> None:
        self.engine.sink.exchange_failed(UpstreamBroken("http://10.0.0.2:8000", "closed"))

    @property
    def refused(self) -> tuple[int, str]:
        assert self.client.did == ["refuse"]
        assert self.client.refusal is not None
        return self.client.refusal.status, self.client.refusal.message


@asynccontextmanager
async def staged() -> AsyncIterator[Stage]:
    """A stage; at its end nothing may be held any more, and the end of the request was told once."""
    stage = Stage()
    yield stage
    assert len(stage.inflight) == 0
    assert stage.inflight.count("glm") == 0
    assert len(stage.ends) == 1
    did = list(stage.client.did), list(stage.engine.did), stage.client.written
    for event in (stage.exchange.client_lost, stage.exchange.deadline_passed, stage.exchange.message_ended):
        event()
    stage.exchange.exchange_failed(UpstreamBroken("http://10.0.0.2:8000", "late"))
    stage.exchange.keep_waiting(math.inf, 1.0)
    assert did == (stage.client.did, stage.engine.did, stage.client.written)
    assert len(stage.ends) == 1
    stage.inflight.close()
    await stage.tasks.close()
