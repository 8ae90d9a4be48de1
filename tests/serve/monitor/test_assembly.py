"""The monitor in a whole router: a daemon and an engine on one side, clients on the other."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from tests.serve.test_app import settings
from tests.support.daemons import ScriptedDaemon
from tests.support.deadlines import within
from tests.support.recorded import FIXTURES
from tests.support.scripted import Line, scripted
from tests.support.views import agent, group_view, view

from mentatd.serve.app import Router
from mentatd.wire.service import PortService

LISTING = b'{"object":"list","data":[{"id":"tiny","root":"/m"},{"id":"org/tiny:latest","root":"/m"}]}'
PAGE = (FIXTURES / "vllm-0.32" / "metrics.txt").read_bytes()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


class Engine:
    """Streams one event when it is told to, and ends the answer when it is told to."""

    def __init__(self) -> None:
        self.began, self.go_on, self.finish = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.scrapes = 0

    async def __call__(self, line: Line) -> None:
        while True:
            request = await line.request()
            if request.startswith(b"GET"):
                metrics = request.startswith(b"GET /metrics ")
                self.scrapes += metrics
                body = PAGE if metrics else LISTING
                await line.flushed(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
                continue
            self.began.set()
            await self.go_on.wait()
            line.send(HEAD + b"b\r\ndata: one\n\n\r\n")
            await self.finish.wait()
            line.send(b"0\r\n\r\n")


class World:
    def __init__(self, router: Router, engine: Engine) -> None:
        self.router = router
        self.engine = engine

    async def send(self, request: str, body: str = "") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.router.port)
        head = f"{request} HTTP/1.1\r\nHost: r\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write((head + body).encode())
        return reader, writer

    async def get(self, path: str) -> bytes:
        reader, writer = await self.send(f"GET {path}")
        async with within():
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        return body

    async def json(self, path: str) -> Any:
        return json.loads(await self.get(path))


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        engine = Engine()
        server = await stack.enter_async_context(scripted(engine))
        announced = agent("g@c0@127.0.0.1", provider="vllm", openai=PortService(server.port, "/v1"))
        daemon = ScriptedDaemon(view("127.0.0.1", groups={"g": group_view(announced)}))
        await stack.enter_async_context(daemon)
        router = Router(settings(MENTAT_DAEMONS=daemon.address))
        stack.push_async_callback(router.close)
        await router.start(asyncio.Event())
        w = World(router, engine)
        async with within():
            while b"tiny" not in await w.get("/v1/models"):
                await asyncio.sleep(0.01)
        yield w


async def test_a_request_from_its_start_to_its_end() -> None:
    async with world() as w:
        body = '{"model":"org/tiny:latest","stream":true}'
        reader, writer = await w.send("POST /v1/chat/completions", body)
        async with within():
            await w.engine.began.wait()
        stats = await w.json("/stats.json")
        (request,) = stats["requests"]
        assert request["state"] == "waiting"
        assert request["ttfb_s"] is None
        assert (request["model"], request["group"]) == ("org/tiny:latest", "g")
        assert (request["prompt_bytes"], request["stream"], request["out_bytes"]) == (len(body), True, 0)
        assert (request["client"], request["path"]) == ("127.0.0.1", "/v1/chat/completions")
        tiny, alias = stats["models"]
        assert (tiny["inflight"], alias["inflight"]) == (0, 1)
        assert tiny["prompt_tokens"] == alias["prompt_tokens"] == 72
        assert tiny["finished"]["length"] == 8

        w.engine.go_on.set()
        async with within():
            await reader.readuntil(b"data: one\n\n")
        (request,) = (await w.json("/stats.json"))["requests"]
        assert request["state"] == "streaming"
        assert request["ttfb_s"] > 0
        assert request["out_bytes"] == len(b"data: one\n\n")

        w.engine.finish.set()
        async with within():
            await reader.read()
        writer.close()
        stats = await w.json("/stats.json")
        assert (stats["requests"], stats["in_flight"]) == ([], 0)
        (finished,) = (await w.json("/history.json"))["finished"]
        assert (finished["id"], finished["outcome"], finished["status"]) == (request["id"], "ok", 200)
        assert w.engine.scrapes <= 3


async def test_what_is_refused_and_what_is_seen_is_told_everywhere() -> None:
    async with world() as w:
        reader, writer = await w.send("POST /v1/chat/completions", '{"model":"gpt-4"}')
        async with within():
            assert (await reader.read()).startswith(b"HTTP/1.1 404 ")
        writer.close()
        history = await w.json("/history.json")
        (refused,) = history["refused"]
        assert (refused["model"], refused["status"], refused["outcome"]) == (
            "(unknown)",
            404,
            "model_not_found",
        )
        kinds = {change["kind"] for change in history["changes"]}
        assert kinds == {"daemon_seen", "group_admitted"}
        counted = (await w.get("/metrics")).decode()
        assert (
            'mentat_serve_requests_total{model="(unknown)",group="",outcome="model_not_found"} 1\n' in counted
        )
        assert 'mentat_serve_group_admitted{group="g"} 1\n' in counted
        assert 'mentat_serve_daemon_up{daemon="' in counted


async def test_an_open_stream_does_not_hold_up_the_end() -> None:
    async with world() as w:
        reader, writer = await w.send("GET /events.json")
        async with within():
            await reader.readuntil(b"event: state\ndata: ")
            state = json.loads(await reader.readuntil(b"\n\n"))
        assert [m["model"] for m in state["stats"]["models"]] == ["tiny", "org/tiny:latest"]
        assert state["status"]["groups"]["g"]["healthy"]
        async with within():
            stopping = asyncio.create_task(w.router.stop(asyncio.Event()))
            await reader.read()
            writer.close()
            await stopping


async def test_the_guard_of_the_loop_goes_with_the_router() -> None:
    def watched() -> bool:
        return "guard" in [thread.name for thread in threading.enumerate()]

    async with world():
        assert watched()
    assert not watched()
