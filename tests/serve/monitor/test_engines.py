"""Reading engines' metrics: by whom, how often, and what a bad engine does to others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest
from tests.support.clock import Clock
from tests.support.deadlines import until, within
from tests.support.scripted import Line, Script, Scripted, answering, scripted
from tests.support.views import agent, group, probe

from mentatd.cluster.admission import Probe
from mentatd.cluster.groups import Group
from mentatd.cluster.routes import EMPTY, RouteTable, build
from mentatd.http.client import Client
from mentatd.http.pool import Pool
from mentatd.serve.enginekey import EngineKey
from mentatd.serve.monitor import engines as module
from mentatd.serve.monitor.engines import FRESH_S, LOOKING_S, PAGE_LIMIT, UNREAD, Engines, metrics_url
from mentatd.wire.enginemetrics import Figures
from mentatd.wire.service import PortService

RUNNING = b'vllm:num_requests_running{model_name="glm-5"} 3\n'
SEVEN = Figures(running=3)


def page(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class World:
    """A table that the test sets, and engines behind it."""

    def __init__(self) -> None:
        self.table: RouteTable = EMPTY
        self.clock = Clock()
        self.engines: Engines

    def serve(self, *groups: tuple[Group, Probe | None]) -> None:
        """Publish a table of these groups."""
        now = self.clock()
        self.table = build(
            {g.name: g for g, _ in groups},
            {g.name: p for g, p in groups if p is not None},
            previous=EMPTY,
            now=now,
            fresh_s=60.0,
        )

    def behind(self, server: Scripted, name: str = "glm", path: str = "/v1") -> tuple[Group, Probe]:
        """A group that this server serves, as its model `glm-5`."""
        at = group(name, agent(f"{name}@c0@127.0.0.1", openai=PortService(server.port, path)))
        return at, probe(at, "glm-5", at=self.clock())


@asynccontextmanager
async def world(*scripts: Script, every_s: float = 0.01, timeout_s: float = 5.0) -> AsyncIterator[World]:
    """Each script is an engine of its own group `g0`, `g1`, …"""
    async with AsyncExitStack() as stack:
        w = World()
        pool = Pool()
        stack.push_async_callback(pool.close)
        servers = [await stack.enter_async_context(scripted(script)) for script in scripts]
        w.serve(*(w.behind(server, f"g{n}") for n, server in enumerate(servers)))
        w.engines = Engines(
            w, Client(pool), EngineKey(b"sk-1"), every_s=every_s, timeout_s=timeout_s, clock=w.clock
        )
        stack.push_async_callback(w.engines.close)
        yield w


class Counting:
    """An engine that remembers what it was asked."""

    def __init__(self, answers: Iterable[bytes] = (page(RUNNING),)) -> None:
        self.asked: list[bytes] = []
        self._answers = list(answers)

    async def __call__(self, line: Line) -> None:
        while True:
            request = await line.request()
            self.asked.append(request.partition(b" HTTP")[0])
            line.send(self._answers[min(len(self.asked), len(self._answers)) - 1])


async def test_the_first_look_waits_for_the_figures() -> None:
    async with world(engine := Counting()) as w:
        async with within():
            await w.engines.looked()
        assert w.engines.reading("g0") == module.Reading(w.clock(), {"glm-5": SEVEN}, None)
        assert engine.asked == [b"GET /metrics"]


@pytest.mark.parametrize("trusted", [True, False])
async def test_the_engines_key_goes_to_trusted_addresses(trusted: bool) -> None:
    heads: list[bytes] = []

    async def script(line: Line) -> None:
        heads.append(await line.request())
        line.send(page(RUNNING))

    async with world(script) as w:
        if not trusted:
            states = w.table.groups
            route = states["g0"].route
            assert route is not None
            state = replace(states["g0"], route=replace(route, trusted=frozenset()))
            w.table = replace(w.table, groups={"g0": state})
        async with within():
            await w.engines.looked()
    assert [b"authorization: Bearer sk-1\r\n" in head for head in heads] == [trusted]


async def test_many_viewers_cost_what_one_does() -> None:
    """A round is due by the clock, and the clock stands still."""
    async with world(engine := Counting(), every_s=0.005) as w:
        async with within():
            await asyncio.gather(*(w.engines.looked() for _ in range(50)))
            for _ in range(5):
                await asyncio.sleep(0.012)  # rounds come and go
                w.engines.look()
        assert len(engine.asked) == 1
        w.clock.now += 0.02
        await until(lambda: len(engine.asked) == 2)


async def test_nobody_is_asked_when_nobody_looks() -> None:
    async with world(engine := Counting()) as w:
        async with within():
            await w.engines.looked()
        w.clock.now += LOOKING_S
        await until(lambda: not w.engines.looking)
        assert len(engine.asked) == 1
        async with within():
            await w.engines.looked()
        assert len(engine.asked) == 2


async def test_figures_grow_old() -> None:
    async with world(Counting((page(RUNNING), page(b"", "503 Unavailable")))) as w:
        async with within():
            await w.engines.looked()
        w.clock.now += FRESH_S
        w.engines.look()
        await until(lambda: w.engines.reading("g0").error)
        assert w.engines.reading("g0").models == {"glm-5": SEVEN}
        w.clock.now += 0.01
        assert w.engines.reading("g0").models == {}


async def hang(line: Line) -> None:
    await line.request()
    await line.closed()


async def test_a_hanging_engine_delays_no_other() -> None:
    async with world(hang, Counting()) as w:
        w.engines.look()
        await until(lambda: w.engines.reading("g1").models == {"glm-5": SEVEN})
        assert w.engines.reading("g0") == UNREAD


async def test_an_engine_that_hangs_is_given_up() -> None:
    async with world(hang, timeout_s=0.05) as w:
        w.engines.look()
        await until(lambda: w.engines.reading("g0").error)
        error = w.engines.reading("g0").error
        assert error is not None
        assert "0.05 s" in error


async def test_the_first_look_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_S", 0.02)

    async with world(hang) as w, within():
        await w.engines.looked()
        assert w.engines.reading("g0") == UNREAD


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (page(b"", "501 Not Implemented"), "/metrics: HTTP 501"),
        (page(b"\0" * (PAGE_LIMIT + 1)), f"/metrics: over {PAGE_LIMIT} bytes"),
        (b"garbage\r\n\r\n", "http://127.0.0.1"),
        (b"", "http://127.0.0.1"),
    ],
)
async def test_an_engine_without_figures_says_why(answer: bytes, error: str) -> None:
    async def once(line: Line) -> None:
        await line.request()
        await line.flushed(answer)

    async with world(once) as w:
        async with within():
            await w.engines.looked()
        reading = w.engines.reading("g0")
        assert reading.models == {}
        assert reading.error is not None
        assert error in reading.error


async def test_a_page_of_something_else_has_no_figures() -> None:
    async with world(Counting((page(b"<html>\xff"),))) as w:
        async with within():
            await w.engines.looked()
        reading = w.engines.reading("g0")
        assert reading.models == {}
        assert str(reading.error).endswith("/metrics: no figures of an engine that is known here")


async def test_a_large_page_leaves_the_loop_to_others() -> None:
    body = RUNNING + b'vllm:e2e_request_latency_seconds_bucket{le="0.3",model_name="glm-5"} 8.0\n' * 65_000
    assert len(body) > 4 << 20
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with world(answering(page(body))) as w:
        other = asyncio.create_task(others())
        async with within():
            await w.engines.looked()
        other.cancel()
        assert w.engines.reading("g0").models == {"glm-5": SEVEN}
        assert turns > len(body) // module._SLICE


async def test_only_admitted_groups_are_asked() -> None:
    async with world(engine := Counting()) as w:
        (state,) = w.table.groups.values()
        w.serve((state.group, None))
        async with within():
            await w.engines.looked()
        assert engine.asked == []
        assert w.engines.reading("g0") == UNREAD


async def test_a_group_that_is_gone_is_forgotten() -> None:
    async with world(Counting()) as w:
        async with within():
            await w.engines.looked()
        assert w.engines.reading("g0").models
        w.table = EMPTY
        await until(lambda: w.engines.reading("g0") == UNREAD)


async def test_after_the_end_a_look_begins_nothing() -> None:
    async with world(engine := Counting()) as w:
        await w.engines.close()
        w.engines.look()
        assert not w.engines.looking
        assert engine.asked == []


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("http://10.0.0.1:8000/v1", "http://10.0.0.1:8000/metrics"),
        ("http://10.0.0.1:8000/v1/", "http://10.0.0.1:8000/metrics"),
        ("http://[fd00::1]:8000/engine/v1", "http://[fd00::1]:8000/engine/metrics"),
        ("https://models.example", "https://models.example/metrics"),
        ("https://models.example/api", "https://models.example/api/metrics"),
    ],
)
def test_where_an_engine_publishes(base: str, url: str) -> None:
    assert metrics_url(base) == url
