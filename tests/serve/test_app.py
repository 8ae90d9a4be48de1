"""The whole router in one loop: a daemon and an engine on one side, clients on the other."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest
from tests.support.daemons import ScriptedDaemon
from tests.support.deadlines import within
from tests.support.ports import free_port
from tests.support.scripted import Line, Script, Scripted, scripted
from tests.support.views import agent, group_view, view

from mentatd import __version__
from mentatd.errors import SettingsError
from mentatd.serve.app import Router
from mentatd.settings import Settings, read_settings
from mentatd.tasks import Tasks
from mentatd.wire.announcement import Announcement, write_announcement
from mentatd.wire.service import PortService

MODELS = b'{"object":"list","data":[{"id":"glm-5"}]}'
POST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: r\r\nContent-Type: application/json\r\n"
    b'Content-Length: 17\r\n\r\n{"model":"glm-5"}'
)


class Engine:
    """Lists `glm-5`, and streams two chunks, the second one when the test says so."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.streams = 0

    async def __call__(self, line: Line) -> None:
        while True:
            request = await line.request()
            if request.startswith(b"GET"):
                line.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(MODELS), MODELS))
                continue
            line.send(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                b"b\r\ndata: one\n\n\r\n"
            )
            self.streams += 1
            await self.go_on.wait()
            line.send(b"b\r\ndata: two\n\n\r\n0\r\n\r\n")


class World:
    """A router, its cluster of one daemon and one engine, and the clients' end."""

    def __init__(self, router: Router, daemon: ScriptedDaemon, engine: Engine, server: Scripted) -> None:
        self.router = router
        self.daemon = daemon
        self.engine = engine
        self.server = server

    async def connect(self, host: str = "127.0.0.1") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(host, self.router.port)

    async def get(self, path: str, host: str = "127.0.0.1") -> bytes:
        reader, writer = await self.connect(host)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: r\r\nConnection: close\r\n\r\n".encode())
        async with within():
            answer = await reader.read()
        writer.close()
        return answer

    async def serving(self) -> None:
        """Wait until the model routes."""
        async with within():
            while b"glm-5" not in await self.get("/v1/models"):
                await asyncio.sleep(0.01)

    async def stream(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A request that has its first chunk."""
        reader, writer = await self.connect()
        writer.write(POST)
        async with within():
            await reader.readuntil(b"data: one\n\n\r\n")
        return reader, writer


def settings(**more: str) -> Settings:
    environ = {"SERVE_PORT": "0", "MENTAT_ANNOUNCE_PORT": "0", "MENTAT_DAEMONS": "", "POLL_INTERVAL_S": "0.5"}
    return replace(read_settings(environ | more), serve_port=0)


@asynccontextmanager
async def world(
    script: Script | None = None,
    *,
    seeded: bool = True,
    started: bool = True,
    drain_s: float = 10.0,
    **more: str,
) -> AsyncIterator[World]:
    """The pieces, started; the router is closed at the end if the test has not done it. `script` is the engine's."""
    async with AsyncExitStack() as stack:
        engine = Engine()
        server = await stack.enter_async_context(scripted(script or engine))
        announced = agent("glm@c0@127.0.0.1", openai=PortService(server.port, "/v1"))
        daemon = ScriptedDaemon(view("127.0.0.1", groups={"glm": group_view(announced)}))
        await stack.enter_async_context(daemon)
        seeds = {"MENTAT_DAEMONS": daemon.address} if seeded else {}
        router = Router(replace(settings(**seeds, **more), drain_s=drain_s))
        stack.push_async_callback(router.close)
        if started:
            await router.start(asyncio.Event())
        yield World(router, daemon, engine, server)


async def test_from_a_seed_to_a_streamed_answer(capsys: pytest.CaptureFixture[str]) -> None:
    async with world() as w:
        await w.serving()
        reader, writer = await w.stream()
        w.engine.go_on.set()
        async with within():
            assert (await reader.readuntil(b"0\r\n\r\n")).startswith(b"b\r\ndata: two\n\n")
        writer.close()
        status = json.loads((await w.get("/status.json")).partition(b"\r\n\r\n")[2])
        assert status["daemons"][w.daemon.address]["connected"] is True
        assert status["groups"]["glm"]["healthy"] is True
        port = w.router.port
    said = capsys.readouterr().err
    assert f"event=serve_up version={__version__} port={port}" in said
    assert said.count("event=serve_down cut=0") == 1


async def test_the_first_request_after_the_start_is_routed() -> None:
    async with world() as w:
        assert b"glm-5" in await w.get("/v1/models")


async def test_who_connects_before_the_first_look_is_over_waits_for_it() -> None:
    probed, answer = asyncio.Event(), asyncio.Event()

    async def slow(line: Line) -> None:
        await line.request()
        probed.set()
        await answer.wait()
        line.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(MODELS), MODELS))

    tasks = Tasks("test")
    async with world(slow, started=False) as w, within():
        starting = tasks.start(w.router.start(asyncio.Event()), "start")
        await probed.wait()
        reader, writer = await w.connect()
        writer.write(b"GET /v1/models HTTP/1.1\r\nHost: r\r\nConnection: close\r\n\r\n")
        assert not starting.done()
        answer.set()
        await starting
        assert b"glm-5" in await reader.read()
        writer.close()
    await tasks.close()


async def test_a_start_that_is_cut_short_leaves_nothing_open() -> None:
    probed = asyncio.Event()

    async def silent(line: Line) -> None:
        await line.request()
        probed.set()
        await line.closed()

    tasks = Tasks("test")
    async with world(silent, started=False) as w, within():
        starting = tasks.start(w.router.start(asyncio.Event()), "start")
        await probed.wait()
        starting.cancel()
        await asyncio.wait((starting,))
        await w.router.close()
        with pytest.raises(ConnectionRefusedError):
            await w.connect()
    await tasks.close()


async def test_an_engine_that_does_not_answer_holds_the_start_up_for_a_moment_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mentatd.serve.discovery.FIRST_LOOK_S", 0.1)
    async with world(Line.closed) as w, within():
        status = json.loads((await w.get("/status.json")).partition(b"\r\n\r\n")[2])
        assert status["groups"]["glm"]["why_not"] == "not probed yet"


async def test_from_a_signed_announcement_to_a_model() -> None:
    port = free_port()
    async with world(
        seeded=False, MENTAT_ANNOUNCE_PORT=str(port), MENTAT_SECRET="k", MENTAT_UNIVERSE="blue"
    ) as w:
        announced = Announcement(
            "A", "id-1", "127.0.0.1", w.daemon.port, universe="blue", boot_id="b", seq=1, t=int(time.time())
        )
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(write_announcement(announced, b"k"), ("127.0.0.1", port))
        await w.serving()


async def test_it_listens_on_ipv6_too() -> None:
    async with world() as w:
        assert (await w.get("/healthz", "::1")).startswith(b"HTTP/1.1 200 ")


async def test_a_client_outside_the_allowed_sources_gets_403_on_every_path() -> None:
    async with world(ALLOWED_SOURCES="10.") as w:
        for path in ("/", "/v1/models", "/nothing"):
            answer = await w.get(path)
            assert answer.startswith(b"HTTP/1.1 403 ")
            assert b"source_not_allowed" in answer


async def test_this_boxs_own_networks_are_allowed_where_the_word_local_stands() -> None:
    async with world(ALLOWED_SOURCES="local") as w:
        await w.serving()


async def test_warnings_of_the_settings_are_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    async with world(PROBE_INTERVAL_S="soon"):
        pass
    assert capsys.readouterr().err.count("event=setting_ignored") == 1


async def test_a_port_in_use_is_an_error_and_leaves_nothing_open() -> None:
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        port = other.getsockname()[1]
        router = Router(replace(settings(), serve_port=port))
        with pytest.raises(SettingsError, match=f"port {port}: .*in use"):
            await router.start(asyncio.Event())
        await router.close()


async def test_an_orderly_end_lets_a_stream_finish_and_takes_nothing_new() -> None:
    async with world() as w:
        await w.serving()
        idle_reader, idle_writer = await w.connect()
        idle_writer.write(b"GET /healthz HTTP/1.1\r\nHost: r\r\n\r\n")
        async with within():
            await idle_reader.readuntil(b"\r\n\r\n")
        reader, writer = await w.stream()
        tasks = Tasks("test")
        stopping = tasks.start(w.router.stop(asyncio.Event()), "stop")
        async with within():
            await idle_reader.read()  # an idle kept connection closes at once
        idle_writer.close()
        with pytest.raises(ConnectionRefusedError):
            await w.connect()
        assert not stopping.done()
        w.engine.go_on.set()
        async with within():
            assert (await reader.read()).endswith(b"data: two\n\n\r\n0\r\n\r\n")
            writer.close()
            await stopping


async def test_a_second_wish_to_stop_cuts_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    async with world(drain_s=60.0) as w:
        await w.serving()
        reader, writer = await w.stream()
        cut = asyncio.Event()
        tasks = Tasks("test")
        stopping = tasks.start(w.router.stop(cut), "stop")
        await asyncio.sleep(0.05)
        assert not stopping.done()
        cut.set()
        async with within():
            await stopping
            await w.router.close()
            assert not (await reader.read()).endswith(b"0\r\n\r\n")
        writer.close()
    assert "event=serve_down cut=1" in capsys.readouterr().err


async def test_the_drain_ends_at_its_limit() -> None:
    async with world(drain_s=0.05) as w:
        await w.serving()
        reader, writer = await w.stream()
        async with within():
            await w.router.stop(asyncio.Event())
            await w.router.close()
            await reader.read()
        writer.close()
