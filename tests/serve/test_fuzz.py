"""Any bytes of an engine and of a client, in any cuts: nothing escapes, nothing stays, nothing broken looks whole."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from httptools import HttpResponseParser
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.http.played import Played, PlayedTransport
from tests.http.serving import Answering
from tests.serve.stage import Client

from mentatd.cluster.routes import EMPTY, Route
from mentatd.cluster.targets import parse_target
from mentatd.errors import Refusal
from mentatd.http.connection import Connection
from mentatd.http.pool import Pool
from mentatd.http.request import Head, Request
from mentatd.http.response import ResponseHead
from mentatd.http.upstream import Origin, Upstream
from mentatd.serve.connecting import Means
from mentatd.serve.exchange import Exchange
from mentatd.serve.inflight import Inflight, Row
from mentatd.serve.proxy import Proxy, Routes
from mentatd.tasks import Tasks
from mentatd.wire.openai import render_refusal

pytestmark = pytest.mark.interpreted

TARGETS = (parse_target("http://10.0.0.2:8000/v1"),)


class EngineTransport(PlayedTransport):
    """Where the router writes to an engine."""

    def fileno(self) -> int:
        return 0


class Engines:
    """A pool in which a connection is always there: one for each request, kept as soon as it has served."""

    def __init__(self) -> None:
        self.made: list[Upstream] = []
        self.kept: list[Upstream] = []

    def take(self, origin: Origin) -> Upstream:
        upstream = Upstream(origin, self)
        upstream.connection_made(EngineTransport())
        self.made.append(upstream)
        return upstream

    def finished(self, upstream: Upstream, head: ResponseHead) -> None:
        self.kept.append(upstream)

    def lost(self, upstream: Upstream) -> None: ...

    def end(self, *, reset: bool) -> None:
        """Every engine closes what is open."""
        for upstream in self.made:
            if upstream.open:
                if not reset:
                    upstream.eof_received()
                upstream.connection_lost(ConnectionResetError() if reset else None)

    def say(self, data: bytes) -> None:
        """The newest engine writes."""
        if self.made and self.made[-1].open:
            self.made[-1].data_received(data)


class Reader:
    """What a strict client reads."""

    def __init__(self, data: bytes) -> None:
        self.complete = 0
        self.begun = 0
        HttpResponseParser(self).feed_data(data)

    def on_message_begin(self) -> None:
        self.begun += 1

    def on_message_complete(self) -> None:
        self.complete += 1


HEADS = [
    b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 204 No\r\n\r\n",
    b"HTTP/1.1 400 Bad\r\n", b"Content-Length: 9\r\n", b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n",
    b"Content-Type: text/event-stream\r\n", b"Content-Type: application/json\r\n", b"\r\n",
]  # fmt: skip
BODIES = [
    b"data: 1\n\n",
    b"9\r\ndata: 1\n\n\r\n",
    b"0\r\n\r\n",
    b'{"error":{"message":"m"}}',
    b"5\r\nda",
    b"\r\n",
]
HEAD = st.tuples(
    st.sampled_from(HEADS[:2]), st.lists(st.sampled_from(HEADS[5:10]), max_size=2, unique=True).map(b"".join)
).map(lambda parts: b"".join(parts) + b"\r\n")
ENGINE = st.one_of(
    HEAD,
    st.lists(st.sampled_from(HEADS + BODIES), min_size=1, max_size=5).map(b"".join),
    st.sampled_from(BODIES),
    st.binary(max_size=12),
)
BODY_PIECES = st.lists(st.sampled_from(BODIES) | st.binary(max_size=12), max_size=5)
PLAYED = st.one_of(
    st.lists(ENGINE | st.just("wait"), max_size=8),
    st.tuples(st.lists(st.just("wait"), max_size=1), HEAD, BODY_PIECES).map(
        lambda parts: [*parts[0], parts[1], *parts[2]]
    ),
)


@given(
    pieces=PLAYED,
    http10=st.booleans(),
    ending=st.sampled_from(["eof", "reset", "deadline", "left"]),
)
@settings(max_examples=300)
async def test_what_an_engine_breaks_never_looks_whole(
    pieces: Sequence[bytes | str], http10: bool, ending: str
) -> None:
    engines, client, inflight, tasks = Engines(), Client(), Inflight(100.0), Tasks("test")
    client.http10 = http10
    means = Means(cast(Pool, engines), inflight, tasks, lambda *_: None, lambda: 1.0)
    row = Row("m", "g", "a", "c", "/v1/x", prompt_bytes=2, stream=True, started=1.0)
    request = Request(Head("POST", b"/v1/x"), b"{}")
    exchange = Exchange(means, cast(Connection, client), row, request, b"", TARGETS)
    ends: list[tuple[int, str | None]] = []
    inflight.on_finished(lambda row: ends.append((row.status, row.failure)))
    inflight.enter(row, exchange)
    exchange.start()
    for number, piece in enumerate(pieces):
        if isinstance(piece, bytes):
            engines.say(piece)
        else:
            exchange.keep_waiting(number, 1.0)
    match ending:
        case "deadline":
            exchange.deadline_passed()
        case "left":
            exchange.client_lost()
    engines.end(reset=ending == "reset")
    inflight.close()

    ((status, failure),) = ends
    assert len(inflight) == 0
    (upstream,) = engines.made
    assert not upstream.open
    if status == 499:
        assert client.did == []
        return
    (did,) = client.did
    assert (did in ("keep", "close")) is (failure is None)
    if did == "refuse":
        assert client.written == b""
        return
    read = Reader(client.written)
    assert read.begun == 1
    if did == "cut":
        assert read.complete == 0
    elif did == "keep":
        assert read.complete == 1


BODY = b'{"model":"m","stream":true}'
REQUEST = b"POST /v1/x HTTP/1.1\r\nHost: r\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
CLIENT = st.one_of(
    st.sampled_from(
        [REQUEST, REQUEST[:40], REQUEST[40:], REQUEST.replace(b"1.1", b"1.0"), REQUEST.replace(b"m", b"\xff"),
         b"POST /v1/x HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n1b\r\n" + BODY + b"\r\n0\r\n\r\n",
         REQUEST.replace(b"Host", b"Connection: close\r\nHost"), b"GET / HTTP/1.1\r\nHost: r\r\n\r\n"]
    ),
    st.binary(max_size=20),
)  # fmt: skip
STEP = st.one_of(
    st.tuples(st.just("client"), CLIENT),
    st.tuples(st.just("engine"), ENGINE),
    st.tuples(st.sampled_from(["wait", "end", "reset", "deadline", "pause", "resume"]), st.just(b"")),
)


class Handler:
    """The proxy alone behind a connection."""

    def __init__(self, proxy: Proxy) -> None:
        self.admit = proxy.admit
        self._proxy = proxy

    def handle(self, request: Request, connection: Connection) -> None:
        head = request.head
        head.note = head.note or self._proxy.forwarder(head)
        head.note(request, connection)

    def refuse(self, refusal: Refusal, request: object) -> tuple[bytes, bytes]:
        return b"application/json", render_refusal(refusal)


@given(steps=st.lists(STEP, max_size=12))
@settings(max_examples=300)
async def test_nothing_is_left_of_any_conversation(steps: Sequence[tuple[str, bytes]]) -> None:
    engines, inflight = Engines(), Inflight(100.0)
    route = Route("g", TARGETS, math.inf, provider="", trusted=frozenset())
    cluster = SimpleNamespace(table=replace(EMPTY, models={"m": (route,)}), suspect=lambda *_: None)
    proxy = Proxy(cast(Routes, cluster), cast(Pool, engines), inflight)
    played = Played(cast(Answering, Handler(proxy)))
    now = asyncio.get_running_loop().time()
    for kind, data in steps:
        match kind:
            case "client":
                played.send(data)
            case "engine":
                engines.say(data)
            case "end" | "reset":
                engines.end(reset=kind == "reset")
            case "wait":
                for carrier in inflight.silent_streams(math.inf):
                    carrier.keep_waiting(now, 1.0)
            case "deadline":
                for carrier in list(inflight._rows.values()):
                    carrier.deadline_passed()
            case "pause":
                played.connection.pause_writing()
            case "resume":
                played.connection.resume_writing()
    Reader(played.transport.written)
    played.lose()
    assert len(inflight) == 0
    assert not played.shared.connections
    # what has not come back to the pool is closed
    assert all(upstream in engines.kept or not upstream.open for upstream in engines.made)
    inflight.close()
    await proxy.close()
