"""The proxy between real sockets: what an engine gets, and what its client gets, byte by byte."""

from __future__ import annotations

import asyncio
import gzip
import json
import math
import socket
import threading
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, Self, cast

import brotli
import pytest
from backports import zstd
from tests.support.deadlines import until, within
from tests.support.leaks import leaked_sockets, open_sockets, settle
from tests.support.ports import free_port, full_backlog
from tests.support.scripted import Line, Script, Scripted, answering, scripted
from tests.support.views import group

from mentatd.cluster.routes import EMPTY, Route, RouteTable, build
from mentatd.cluster.targets import parse_target
from mentatd.errors import Refusal
from mentatd.http.pool import Pool
from mentatd.http.request import Head
from mentatd.http.server import Connection, Request, Server
from mentatd.serve import proxy as proxy_module
from mentatd.serve.inflight import Inflight, Row
from mentatd.serve.proxy import Proxy
from mentatd.wire.forms import find_route
from mentatd.wire.openai import find_model, render_refusal

BODY = b'{"model":"m","stream":false}'
ANSWER = (
    b'HTTP/1.1 200 OK\r\nServer: e\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n{"ok":1}'
)
STREAM = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n"
)


def post(
    body: bytes = BODY,
    path: str = "/v1/chat/completions",
    fields: bytes = b"Content-Type: application/json\r\n",
) -> bytes:
    """A request as a client writes it."""
    start = f"POST {path} HTTP/1.1\r\nHost: router:6381\r\n".encode()
    return start + fields + b"Content-Length: %d\r\n\r\n" % len(body) + body


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def route(name: str, *urls: str) -> Route:
    return Route(name, tuple(parse_target(url) for url in urls), math.inf, provider="", trusted=frozenset())


@dataclass
class Cluster:
    """The table as the test says."""

    table: RouteTable = EMPTY
    suspects: list[tuple[str, str]] = field(default_factory=list)

    def suspect(self, group: str, url: str) -> None:
        self.suspects.append((group, url))


class Handler:
    """The proxy alone behind a server."""

    def __init__(self, proxy: Proxy) -> None:
        self.admit = proxy.admit
        self._proxy = proxy

    def handle(self, request: Request, connection: Connection) -> None:
        head = request.head
        head.note = head.note or self._proxy.forwarder(head)
        head.note(request, connection)

    def refuse(self, refusal: Refusal, request: Request | None) -> tuple[bytes, bytes]:
        return b"application/json", render_refusal(refusal)


class Client:
    """One connection to the router."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, request: bytes) -> bytes:
        """Send a request and read its answer of a known length."""
        self.writer.write(request)
        return await self.answer()

    async def answer(self) -> bytes:
        async with within():
            head = await self.reader.readuntil(b"\r\n\r\n")
            fields = head.lower()
            length = 0
            if b"content-length: " in fields:
                length = int(fields.partition(b"content-length: ")[2].partition(b"\r\n")[0])
            return head + await self.reader.readexactly(length)

    async def refused(self, request: bytes) -> tuple[int, dict[str, Any]]:
        """Send a request and read the status and the document of its refusal."""
        head, _, body = (await self.ask(request)).partition(b"\r\n\r\n")
        return int(head[9:12]), json.loads(body)

    async def read_to(self, end: bytes) -> bytes:
        async with within():
            return await self.reader.readuntil(end)

    async def rest(self) -> bytes:
        async with within():
            return await self.reader.read()

    async def close(self) -> None:
        self.writer.transport.abort()


class Router:
    """A proxy that serves, with what it routes to."""

    def __init__(self, timeout_s: float) -> None:
        self.cluster = Cluster()
        self.inflight = Inflight(timeout_s)
        self.ends: list[tuple[Row, int, str | None]] = []
        self.inflight.on_finished(lambda row: self.ends.append((row, row.status, row.failure)))
        self.pool = Pool(proof_s=0)
        self.proxy = Proxy(self.cluster, self.pool, self.inflight)
        self.server = Server(Handler(self.proxy))
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self.server.start(0, ("127.0.0.1",))
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()
        await self.server.close()
        await self.proxy.close()
        self.inflight.close()
        await self.pool.close()
        assert len(self.inflight) == 0

    async def engine(
        self, script: Script, *, name: str = "glm", models: tuple[str, ...] = ("m",)
    ) -> Scripted:
        """Start an engine and route these models to it."""
        engine = await self._stack.enter_async_context(scripted(script))
        self.serve(route(name, f"{engine.url}/v1"), *models)
        return engine

    def serve(self, to: Route, *models: str) -> None:
        table = self.cluster.table
        routes = dict(table.models)
        for model in models or ("m",):
            routes[model] = (*routes.get(model, ()), to)
        self.cluster.table = replace(table, models=routes)

    async def client(self) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.server.port, limit=1 << 26))
        self._stack.push_async_callback(client.close)
        return client

    async def ended(self) -> tuple[int, str | None]:
        """The only request's end."""
        await until(lambda: self.ends)
        ((_, status, failure),) = self.ends
        return status, failure


@asynccontextmanager
async def routing(timeout_s: float = 100.0) -> AsyncIterator[Router]:
    async with Router(timeout_s) as router:
        yield router


@pytest.fixture
async def router() -> AsyncIterator[Router]:
    async with routing() as router:
        yield router


class Recorder:
    """An engine that keeps the requests it got, whole."""

    def __init__(self, *answers: bytes) -> None:
        self.requests: list[bytes] = []
        self._answers = answers or (ANSWER,)

    async def __call__(self, line: Line) -> None:
        while True:
            self.requests.append(await line.request())
            line.send(self._answers[min(len(self.requests), len(self._answers)) - 1])

    @property
    def head(self) -> list[bytes]:
        """The lines of the newest request's head."""
        return self.requests[-1].partition(b"\r\n\r\n")[0].split(b"\r\n")

    @property
    def body(self) -> bytes:
        return self.requests[-1].partition(b"\r\n\r\n")[2]


# -- forwarding a request


async def test_a_request_goes_on_and_its_answer_comes_back_untouched(router: Router) -> None:
    recorder = Recorder()
    engine = await router.engine(recorder)
    client = await router.client()
    fields = b"Authorization: Bearer k\r\nContent-Type: application/json\r\nX-Odd: \xe4\r\nX-Odd: 2\r\n"
    for _ in range(3):
        assert await client.ask(post(fields=fields)) == ANSWER
    expected = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 28\r\n" % engine.port
    )
    assert recorder.requests == [expected + fields + b"\r\n" + BODY] * 3
    assert len(engine.lines) == 1
    assert [(status, failure, row.out_bytes) for row, status, failure in router.ends] == [(200, None, 8)] * 3


@pytest.mark.parametrize(
    ("stream", "coding"), [(b"", b"gzip"), (b',"stream":false', b"gzip"), (b',"stream":true', b"identity")]
)
async def test_only_what_is_no_stream_may_come_compressed(
    router: Router, stream: bytes, coding: bytes
) -> None:
    recorder = Recorder()
    await router.engine(recorder)
    client = await router.client()
    body = BODY[:-1] + stream + b"}"
    assert await client.ask(post(body, fields=b"Accept-Encoding: gzip\r\n")) == ANSWER
    assert [line for line in recorder.head if b"coding" in line.lower()] == [b"Accept-Encoding: " + coding]


async def test_hop_by_hop_fields_stop_here_in_both_directions(router: Router) -> None:
    hops = b"X-Hop: 1\r\nConnection: x-hop\r\nKeep-Alive: timeout=5\r\n"
    recorder = Recorder(b"HTTP/1.1 200 OK\r\n" + hops + b"A: 1\r\nContent-Length: 0\r\n\r\n")
    await router.engine(recorder)
    fields = (
        b"Connection: keep-alive, X-Mine\r\nx-mine: 1\r\nTE: trailers\r\nProxy-Authorization: x\r\nB: 2\r\n"
    )
    client = await router.client()
    assert await client.ask(post(fields=fields)) == b"HTTP/1.1 200 OK\r\nA: 1\r\nContent-Length: 0\r\n\r\n"
    assert recorder.head[2:] == [b"Content-Length: 28", b"B: 2", b"Content-Type: application/json"]


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"", [b"Content-Type: application/json"]),
        (b"Content-Type:\r\n", [b"Content-Type: application/json"]),
        (b"Content-Type: application/x-www-form-urlencoded\r\n", [b"Content-Type: application/json"]),
        (
            b"content-type: multipart/form-data; boundary=x\r\n",
            [b"content-type: multipart/form-data; boundary=x"],
        ),
        (
            b"content-type: Application/JSON; charset=utf-8\r\n",
            [b"content-type: Application/JSON; charset=utf-8"],
        ),
        (b"Content-Type: text/plain\r\n", [b"Content-Type: text/plain"]),
    ],
)
async def test_a_json_body_goes_with_a_type_that_engines_take(
    router: Router, sent: bytes, expected: list[bytes]
) -> None:
    recorder = Recorder()
    await router.engine(recorder)
    client = await router.client()
    assert await client.ask(post(fields=sent)) == ANSWER
    assert [line for line in recorder.head if line.lower().startswith(b"content-type")] == expected
    assert recorder.body == BODY


async def test_one_head_may_carry_json_and_a_form(router: Router) -> None:
    recorder = Recorder()
    await router.engine(recorder)
    client = await router.client()
    form = b"Content-Type: application/x-www-form-urlencoded"
    for body, expected in (
        (BODY, b"Content-Type: application/json"),
        (b"model=m", form),
        (b"model=m&x", form),
    ) * 2:
        assert await client.ask(post(body, fields=form + b"\r\n")) == ANSWER
        assert recorder.head[2:] == [b"Content-Length: %d" % len(body), expected]
        assert recorder.body == body


async def test_a_form_goes_by_its_field_and_byte_for_byte(router: Router) -> None:
    recorder = Recorder()
    await router.engine(recorder)
    file = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nname="model"\r\n\r\nno'
    form = (
        file
        + b"x" * 300_000
        + b'\r\n--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--b--\r\n'
    )
    client = await router.client()
    fields = b"Content-Type: multipart/form-data; boundary=b\r\n"
    assert await client.ask(post(form, "/v1/audio/transcriptions", fields)) == ANSWER
    assert recorder.body == form
    assert fields.rstrip() in recorder.head


async def test_a_chunked_request_gets_a_length(router: Router) -> None:
    recorder = Recorder()
    await router.engine(recorder)
    start = b"POST /v1/x HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n"
    client = await router.client()
    assert await client.ask(start + chunk(BODY[:9]) + chunk(BODY[9:]) + b"0\r\n\r\n") == ANSWER
    assert recorder.head[2:] == [b"Content-Length: 28", b"Content-Type: application/json"]
    assert recorder.body == BODY


async def test_a_client_that_expects_100_continue(router: Router) -> None:
    recorder = Recorder()
    await router.engine(recorder)
    client = await router.client()
    request = post(fields=b"Expect: 100-continue\r\n")
    client.writer.write(request[: -len(BODY)])
    assert await client.read_to(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert await client.ask(BODY) == ANSWER
    assert not any(line.lower().startswith(b"expect") for line in recorder.head)


@pytest.mark.parametrize(
    ("base", "path", "expected"),
    [
        ("/v1", "/v1/embeddings?a=b%2F", b"/v1/embeddings?a=b%2F"),
        ("/v1", "/tokenize", b"/tokenize"),
        ("/api/v1", "/v1/x/", b"/api/v1/x/"),
        ("/api/v1", "/tokenize", b"/api/tokenize"),
        ("/other", "/v1/x", b"/other/x"),
    ],
)
async def test_the_path_is_joined_to_the_announced_base(
    router: Router, base: str, path: str, expected: bytes
) -> None:
    recorder = Recorder()
    engine = await router.engine(recorder, models=("other",))
    router.serve(route("glm", engine.url + base))
    client = await router.client()
    assert await client.ask(post(path=path)) == ANSWER
    assert recorder.head[0] == b"POST " + expected + b" HTTP/1.1"


async def test_a_large_body_goes_through_whole(router: Router) -> None:
    recorder = Recorder()
    await router.engine(recorder)
    body = b'{"x":"' + b"y" * 3_000_000 + b'","model":"m"}'
    client = await router.client()
    assert await client.ask(post(body)) == ANSWER
    assert recorder.body == body


@pytest.mark.interpreted
@pytest.mark.parametrize("coding", [b"", b"gzip"])
@pytest.mark.parametrize(
    ("content_type", "large"),
    [
        (b"", proxy_module.INLINE),
        (b"Content-Type: application/x-www-form-urlencoded\r\n", proxy_module.FORM_INLINE),
    ],
)
async def test_a_large_body_is_looked_through_beside_the_loop(
    router: Router, monkeypatch: pytest.MonkeyPatch, content_type: bytes, large: int, coding: bytes
) -> None:
    looked_in: list[bool] = []

    def look(find: Callable[..., Any], *given: Any) -> Any:
        looked_in.append(threading.current_thread() is threading.main_thread())
        return find(*given)

    for name, find in ("find_route", find_route), ("find_model", find_model):
        monkeypatch.setattr(proxy_module, name, partial(look, find))
    await router.engine(Recorder())
    client = await router.client()
    for size in (10, large):
        body = b'{"x":"' + b"y" * size + b'","model":"m"}'
        fields = content_type + (b"Content-Encoding: gzip\r\n" if coding else b"")
        assert await client.ask(post(gzip.compress(body) if coding else body, fields=fields)) == ANSWER
    assert looked_in == [True, False]
    assert router.ends[-1][0].prompt_bytes == len(body)


async def test_pipelined_requests_are_answered_in_order(router: Router) -> None:
    answers = [b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % number for number in range(5)]
    await router.engine(Recorder(*answers))
    client = await router.client()
    client.writer.write(post() * 5)
    assert [await client.answer() for _ in range(5)] == answers


@pytest.mark.parametrize(
    ("coding", "encode"),
    [
        (b"gzip", gzip.compress),
        (b"X-GZIP", gzip.compress),
        (b"deflate", zlib.compress),
        (b"zstd", zstd.compress),
        (b"br", brotli.compress),
        (b"deflate, gzip", lambda body: gzip.compress(zlib.compress(body))),
        (b"identity", bytes),
    ],
)
async def test_a_compressed_body_goes_decoded(
    router: Router, coding: bytes, encode: Callable[[bytes], bytes]
) -> None:
    recorder = Recorder()
    await router.engine(recorder)
    client = await router.client()
    fields = b"Content-Type: application/json\r\nContent-Encoding: " + coding + b"\r\n"
    assert await client.ask(post(encode(BODY), fields=fields)) == ANSWER
    assert recorder.body == BODY
    kept = [line for line in recorder.head if line.startswith(b"Content-Encoding")]
    assert kept == ([b"Content-Encoding: identity"] if coding == b"identity" else [])
    assert router.ends[0][0].prompt_bytes == len(BODY)


@pytest.mark.interpreted
async def test_a_client_that_leaves_while_its_body_is_decoded(router: Router) -> None:
    recorder = Recorder()
    await router.engine(recorder)
    connection = cast(Connection, SimpleNamespace(flow=None, reserve=None))
    request = Request(Head("POST", b"/v1/x", b"Content-Encoding: gzip\r\n", odd=True), gzip.compress(BODY))
    router.proxy.forwarder(request.head)(request, connection)
    assert connection.flow is not None
    connection.flow.client_paused()
    connection.flow.client_resumed()
    connection.flow.client_lost()
    await router.proxy.close()
    assert recorder.requests == []


async def test_a_decoder_that_crashes_is_a_500(router: Router, monkeypatch: pytest.MonkeyPatch) -> None:
    async def crash(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(proxy_module, "decode", crash)
    client = await router.client()
    status, document = await client.refused(post(fields=b"Content-Encoding: gzip\r\n"))
    assert (status, document["error"]["code"]) == (500, "internal_error")


async def test_an_offer_to_upgrade_stops_here(router: Router) -> None:
    recorder = Recorder()
    await router.engine(recorder)
    client = await router.client()
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
    assert await client.ask(post(fields=offer + b"Content-Type: application/json\r\n")) == ANSWER
    assert recorder.head[2:] == [b"Content-Length: 28", b"Content-Type: application/json"]
    assert recorder.body == BODY


# -- refusals


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{}", "missing_model"),
        (b"{", "invalid_body"),
        (b'{"model":7}', "invalid_model"),
        (b"", "invalid_body"),
    ],
)
async def test_a_body_that_cannot_be_routed_is_a_400(router: Router, body: bytes, code: str) -> None:
    await router.engine(answering(ANSWER))
    client = await router.client()
    status, document = await client.refused(post(body))
    assert (status, document["error"]["code"]) == (400, code)
    assert document["error"]["type"] == "invalid_request_error"
    # the connection goes on
    assert await client.ask(post()) == ANSWER


async def test_a_name_that_nothing_serves_is_a_404(router: Router) -> None:
    router.cluster.table = build(
        {"down": group("down", running=0)}, {}, previous=EMPTY, now=0.0, fresh_s=10.0
    )
    await router.engine(answering(ANSWER))
    client = await router.client()
    status, document = await client.refused(post(b'{"model":"nope"}'))
    assert status == 404
    assert document["available"] == ["m"]
    assert document["not_ready"] == {"down": "no running actors"}
    assert document["error"]["param"] == "model"
    assert "'nope'" in document["error"]["message"]


async def test_a_group_that_is_not_admitted_is_a_503_with_the_reason(router: Router) -> None:
    router.cluster.table = build(
        {"down": group("down", running=0)}, {}, previous=EMPTY, now=0.0, fresh_s=10.0
    )
    client = await router.client()
    status, document = await client.refused(post(b'{"model":"down"}'))
    assert (status, document["error"]["code"]) == (503, "model_not_ready")
    assert "no running actors" in document["error"]["message"]


async def test_a_body_over_the_limit_is_refused_before_it_comes(router: Router) -> None:
    client = await router.client()
    head = b"POST /v1/x HTTP/1.1\r\nHost: r\r\nExpect: 100-continue\r\nContent-Length: 134217729\r\n\r\n"
    status, document = await client.refused(head)
    assert (status, document["error"]["code"]) == (413, "body_too_large")
    assert await client.rest() == b""


async def test_a_body_is_bounded_decoded_too(router: Router, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_module, "MAX_BODY", 1000)
    client = await router.client()
    bomb = gzip.compress(b" " * 1001)
    status, document = await client.refused(post(bomb, fields=b"Content-Encoding: gzip\r\n"))
    assert (status, document["error"]["code"]) == (413, "body_too_large")


async def test_a_body_that_is_not_what_its_coding_says_is_a_400(router: Router) -> None:
    client = await router.client()
    status, document = await client.refused(post(fields=b"Content-Encoding: gzip\r\n"))
    assert (status, document["error"]["code"]) == (400, "invalid_encoding")


@pytest.mark.parametrize("expect", [b"", b"Expect: 100-continue\r\n"])
async def test_an_unknown_coding_is_a_415_that_names_the_known_ones(router: Router, expect: bytes) -> None:
    client = await router.client()
    status, document = await client.refused(post(fields=expect + b"Content-Encoding: lzma\r\n"))
    assert status == 415
    assert "gzip, deflate, zstd, br" in document["error"]["message"]


# -- which engine


async def test_of_two_groups_the_one_with_fewer_requests_ties_to_the_first(router: Router) -> None:
    release = asyncio.Event()
    seen: list[str] = []

    def engine(name: str) -> Script:
        async def script(line: Line) -> None:
            await line.request()
            seen.append(name)
            await release.wait()
            line.send(ANSWER)
            await line.closed()

        return script

    await router.engine(engine("a"), name="a")
    await router.engine(engine("b"), name="b")
    clients = [await router.client() for _ in range(4)]
    for number, client in enumerate(clients):
        client.writer.write(post())
        await until(lambda: sum(map(router.inflight.count, "ab")) == len(seen) > number)  # noqa: B023
    assert seen == ["a", "b", "a", "b"]
    assert (router.inflight.count("a"), router.inflight.count("b")) == (2, 2)
    release.set()
    for client in clients:
        assert await client.answer() == ANSWER


async def test_a_refused_connect_is_answered_by_the_next_address(router: Router) -> None:
    recorder = Recorder()
    engine = await router.engine(recorder, models=("other",))
    dead = f"http://127.0.0.1:{free_port()}/v1"
    router.serve(route("glm", dead, f"{engine.url}/v1"))
    client = await router.client()
    assert await client.ask(post()) == ANSWER
    assert len(recorder.requests) == 1
    assert router.cluster.suspects == [("glm", dead)]
    assert router.ends[0][0].address == f"{engine.url}/v1"


async def test_502_names_the_group_and_the_addresses(router: Router) -> None:
    ports = free_port(), free_port()
    router.serve(route("glm", *(f"http://127.0.0.1:{port}/v1" for port in ports)))
    client = await router.client()
    status, document = await client.refused(post())
    assert (status, document["error"]["code"]) == (502, "engine_unreachable")
    assert document["error"]["message"].startswith("group glm: http://127.0.0.1:")
    assert all(str(port) in document["error"]["message"] for port in ports)
    assert await router.ended() == (502, document["error"]["message"])


# -- answers


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n",
        b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-1/9\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 422 \r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 500 Oops\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n<p>x",
        b"HTTP/1.1 200 OK\r\nDate: d\r\nServer: s\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: \xff\xfe\r\nContent-Length: 0\r\n\r\n",
    ],
)
async def test_an_engines_answer_goes_on_untouched(router: Router, answer: bytes) -> None:
    await router.engine(answering(answer))
    client = await router.client()
    assert await client.ask(post()) == answer
    assert await client.ask(post()) == answer


async def test_a_stream_goes_on_piece_by_piece_as_it_came(router: Router) -> None:
    pieces = [
        chunk(b"data: 1\n\n"),
        b"a\r\ndata: ",
        "ö\n\n".encode() + b"\r\n",
        chunk(b": comment\r\n\r\n"),
        chunk(b"data:[DONE]\n\n"),
        b"0\r\n\r\n",
    ]
    steps = [asyncio.Event() for _ in pieces]

    async def script(line: Line) -> None:
        await line.request()
        line.send(STREAM + b"\r\n")
        for step, piece in zip(steps, pieces, strict=True):
            await step.wait()
            line.send(piece)
        await line.closed()

    await router.engine(script)
    client = await router.client()
    client.writer.write(post(b'{"model":"m","stream":true}'))
    assert await client.read_to(b"\r\n\r\n") == STREAM + b"\r\n"
    (row,) = router.inflight.rows()
    assert (row.stream, row.first_byte, row.out_bytes) == (True, None, 0)
    for step, piece in zip(steps, pieces, strict=True):
        step.set()
        async with within():
            assert await client.reader.readexactly(len(piece)) == piece
    assert row.first_byte is not None
    await until(lambda: router.ends)
    assert row.out_bytes == len(b"data: 1\n\ndata: \xc3\xb6\n\n: comment\r\n\r\ndata:[DONE]\n\n")
    # both connections go on
    assert router.server.connections == 1


async def test_an_answer_that_ends_with_its_connection_is_chunked(router: Router) -> None:
    async def script(line: Line) -> None:
        await line.request()
        line.send(b"HTTP/1.0 200 OK\r\nA: 1\r\n\r\nab")
        await line.flushed()

    await router.engine(script)
    client = await router.client()
    client.writer.write(post())
    got = await client.read_to(b"0\r\n\r\n")
    head, _, body = got.partition(b"\r\n\r\n")
    assert head == b"HTTP/1.1 200 OK\r\nA: 1\r\nTransfer-Encoding: chunked"
    assert body == b"2\r\nab\r\n0\r\n\r\n"
    client.writer.write(post())
    assert await client.read_to(b"0\r\n\r\n") == got


@pytest.mark.parametrize("asked", [b"", b"Connection: keep-alive\r\n"])
async def test_a_client_of_1_0_gets_no_chunks(router: Router, asked: bytes) -> None:
    await router.engine(answering(STREAM + b"\r\n" + chunk(b"ab") + chunk(b"cd") + b"0\r\n\r\n"))
    client = await router.client()
    request = b"POST /v1/x HTTP/1.0\r\n" + asked + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
    client.writer.write(request)
    head, _, body = (await client.rest()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"transfer-encoding" not in head.lower()
    assert head.endswith(b"Connection: close")
    assert body == b"abcd"


async def test_a_client_of_1_0_may_keep_its_connection(router: Router) -> None:
    await router.engine(answering(ANSWER))
    client = await router.client()
    request = (
        b"POST /v1/x HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
    )
    for _ in range(2):
        assert await client.ask(request) == ANSWER.replace(b"\r\n\r\n", b"\r\nConnection: keep-alive\r\n\r\n")


async def test_a_client_that_asks_to_close_is_closed(router: Router) -> None:
    await router.engine(answering(ANSWER))
    client = await router.client()
    client.writer.write(post(fields=b"Connection: close\r\n"))
    assert await client.rest() == ANSWER.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


async def test_an_answer_before_the_request_was_read_goes_on(router: Router) -> None:
    early = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n{}"

    async def hurry(line: Line) -> None:
        await line.reader.readuntil(b"\r\n\r\n")
        await line.flushed(early)
        await line.closed()

    engine = await router.engine(hurry)
    client = await router.client()
    for _ in range(2):
        assert await client.ask(post(b'{"model":"m","x":"' + b"y" * 30_000_000 + b'"}')) == early
    assert len(engine.lines) == 2


async def test_what_comes_behind_an_answer_is_no_part_of_any(router: Router) -> None:
    engine = await router.engine(answering(ANSWER + ANSWER))
    client = await router.client()
    for _ in range(3):
        assert await client.ask(post()) == ANSWER
    assert len(engine.lines) == 3


# -- engines that fail


async def engine_that(router: Router, answer: Callable[[Line], Awaitable[object]]) -> list[bytes]:
    """An engine that reads each request and then does as `answer` says, once a connection."""
    requests: list[bytes] = []

    async def script(line: Line) -> None:
        requests.append(await line.request())
        await answer(line)

    await router.engine(script)
    return requests


async def test_an_engine_that_closes_before_its_answer_is_a_502_and_asked_once(router: Router) -> None:
    async def close(line: Line) -> None:
        line.close()

    requests = await engine_that(router, close)
    client = await router.client()
    status, document = await client.refused(post())
    assert (status, document["error"]["code"]) == (502, "engine_failed")
    assert "group glm at http://127.0.0.1:" in document["error"]["message"]
    assert len(requests) == 1
    # the client's connection goes on
    assert (await client.refused(post()))[0] == 502


async def test_an_engine_that_does_not_speak_http_is_a_502(router: Router) -> None:
    async def babble(line: Line) -> None:
        await line.flushed(b"220 smtp ready\r\n")

    await engine_that(router, babble)
    client = await router.client()
    status, document = await client.refused(post())
    assert status == 502
    assert "220 smtp" in document["error"]["message"]


async def cut_stream(router: Router, sent: bytes, request: bytes | None = None) -> bytes:
    """What a client gets of an answer that breaks off behind `sent`."""

    async def script(line: Line) -> None:
        await line.request()
        await line.flushed(sent)
        line.reset() if sent.endswith(b"!") else line.close()

    await router.engine(script)
    client = await router.client()
    client.writer.write(request or post())
    return await client.rest()


async def test_a_stream_that_breaks_between_events_ends_with_an_error_event(router: Router) -> None:
    sent = STREAM + b"\r\n" + chunk(b"data: 1\n\n")
    got = await cut_stream(router, sent)
    assert got.startswith(sent)
    size, _, event = got.removeprefix(sent).partition(b"\r\n")
    assert len(event) == int(size, 16) + 2
    assert event.startswith(b"data: {")
    assert event.endswith(b"}\n\n\r\n")
    error = json.loads(event[6:])["error"]
    assert error["code"] == "engine_failed"
    assert "group glm at" in error["message"]
    status, failure = await router.ended()
    assert (status, failure) == (200, error["message"])


@pytest.mark.parametrize(
    "sent",
    [
        STREAM + b"\r\n" + chunk(b"data: 1\n\ndata: "),
        STREAM + b"\r\n" + b"9\r\ndata: 1\n\n",
        STREAM + b"\r\n" + b"20\r\ndata: 1\n\n",
        STREAM + b"\r\n" + chunk(b"data: 1\n\n") + b"5",
        STREAM.replace(b"event-stream", b"plain") + b"\r\n" + chunk(b"data: 1\n\n"),
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 20\r\n\r\ndata: 1\n\n",
    ],
)
async def test_any_other_answer_that_breaks_is_cut_where_it_stands(router: Router, sent: bytes) -> None:
    assert await cut_stream(router, sent) == sent


async def test_what_a_client_of_1_0_gets_in_part_ends_in_a_reset(router: Router) -> None:
    request = b"POST /v1/x HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY

    async def script(line: Line) -> None:
        await line.request()
        await line.flushed(STREAM + b"\r\n" + chunk(b"data: 1\n\n"))
        line.close()

    await router.engine(script)
    client = await router.client()
    client.writer.write(request)
    assert (await client.read_to(b"data: 1\n\n")).endswith(b"\r\n\r\ndata: 1\n\n")
    with pytest.raises(ConnectionResetError):
        await client.rest()


async def test_the_deadline_before_an_answer_is_a_504() -> None:
    async with routing(timeout_s=0.05) as router:
        closed = asyncio.Event()

        async def stall(line: Line) -> None:
            await line.closed()
            closed.set()

        await engine_that(router, stall)
        client = await router.client()
        status, document = await client.refused(post())
        assert (status, document["error"]["code"]) == (504, "engine_timeout")
        async with within():
            await closed.wait()


async def test_the_deadline_in_a_stream_cuts_it_visibly() -> None:
    async with routing(timeout_s=0.2) as router:

        async def stall(line: Line) -> None:
            line.send(STREAM + b"\r\n" + chunk(b"data: 1\n\n"))
            await line.closed()

        await engine_that(router, stall)
        client = await router.client()
        client.writer.write(post())
        got = await client.rest()
        assert b"data: 1\n\n" in got
        assert b'"code":"engine_timeout"' in got
        assert not got.endswith(b"0\r\n\r\n")


# -- clients that leave or do not read


@pytest.mark.parametrize("begun", [b"", STREAM + b"\r\n", STREAM + b"\r\n" + chunk(b"data: 1\n\n")])
@pytest.mark.parametrize("half", [False, True])
async def test_a_client_that_leaves_closes_the_engines_connection(
    router: Router, begun: bytes, half: bool
) -> None:
    closed = asyncio.Event()
    waiting = asyncio.Event()

    async def script(line: Line) -> None:
        await line.request()
        line.send(begun)
        waiting.set()
        await line.closed()
        closed.set()

    await router.engine(script)
    client = await router.client()
    client.writer.write(post())
    async with within():
        await waiting.wait()
        if begun:
            await client.reader.readexactly(len(begun))
        if half:
            client.writer.write_eof()
        else:
            client.writer.transport.abort()
        async with within(1.0):
            await closed.wait()
    assert await router.ended() == (499, "the client left")
    assert len(router.pool) == 0


@pytest.mark.parametrize("half", [False, True])
async def test_a_client_that_leaves_ends_the_connect_that_its_request_waits_for(
    router: Router, half: bool
) -> None:
    with full_backlog() as port:
        router.serve(route("glm", f"http://127.0.0.1:{port}/v1"))
        sockets = open_sockets()
        client = await router.client()
        client.writer.write(post())
        await until(lambda: len(router.proxy._tasks))
        if half:
            client.writer.write_eof()
            assert await client.rest() == b""
        else:
            client.writer.transport.abort()
        async with within(1.0):
            assert await router.ended() == (499, "the client left")
            await until(lambda: not len(router.proxy._tasks))
        await client.close()
        assert await settle(lambda: leaked_sockets(sockets)) == []
    assert len(router.inflight) == len(router.pool) == 0
    assert router.cluster.suspects == []


async def test_a_client_that_does_not_read_stops_the_engine_and_nobody_else(router: Router) -> None:
    piece = chunk(b"x" * 65536)

    async def flood(line: Line) -> None:
        await line.request()
        line.send(STREAM + b"\r\n")
        for _ in range(1000):
            await line.flushed(piece)
        await line.flushed(b"0\r\n\r\n")
        await line.closed()

    await router.engine(flood)
    await router.engine(answering(ANSWER), name="quick", models=("quick",))
    slow = await router.client()
    slow.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
    slow.writer.write(post())
    await until(lambda: router.inflight.count("glm"))
    (row,) = router.inflight.rows()
    quick = await router.client()
    passed = -1
    async with within():
        while row.out_bytes != passed or not passed:
            passed = row.out_bytes
            for _ in range(20):
                assert await quick.ask(post(b'{"model":"quick"}')) == ANSWER
    assert passed < 30_000_000
    slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
    got = 0
    async with within(30.0):
        while data := await slow.reader.read(1 << 20):
            got += len(data)
            if data.endswith(b"\r\n0\r\n\r\n"):
                break
    assert got == len(STREAM) + 2 + 1000 * len(piece) + 5
    await until(lambda: not router.inflight.count("glm"))
    assert row.out_bytes == 65_536_000
