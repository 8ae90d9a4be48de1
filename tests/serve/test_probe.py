"""The prober, against engines on real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from tests.support.deadlines import until
from tests.support.ports import free_port
from tests.support.scripted import Line, answering, scripted
from tests.support.views import SOURCES, agent, group_view, seen, view

from mentatd.cluster.admission import Probe
from mentatd.http.client import Client
from mentatd.http.pool import Pool
from mentatd.serve import probe as module
from mentatd.serve.cluster import Cluster
from mentatd.serve.enginekey import EngineKey
from mentatd.serve.networks import Networks
from mentatd.serve.probe import Pace, Prober
from mentatd.wire.service import PortService, Service, UrlService

LONG = 60.0
HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")


def listing(*models: str) -> bytes:
    return json.dumps({"object": "list", "data": [{"id": model} for model in models]}).encode()


class Engine:
    """Lists `models` on one loopback address, until `status` or `stalls` says otherwise."""

    def __init__(self, *models: str) -> None:
        self.models = models
        self.status = 200
        self.stalls = False
        self.asked = 0
        self.port = 0
        self._server: asyncio.Server | None = None

    async def up(self, port: int = 0, host: str = "127.0.0.1") -> Engine:
        self._server = await asyncio.start_server(self._serve, host, port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def down(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"GET /v1/models HTTP/1.1\r\n")
            self.asked += 1
            if self.stalls:
                await reader.read()
            body = listing(*self.models)
            writer.write(
                b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"
                % (self.status, len(body), body)
            )
        finally:
            writer.close()


@asynccontextmanager
async def engine(*models: str, port: int = 0, host: str = "127.0.0.1") -> AsyncIterator[Engine]:
    served = await Engine(*models).up(port, host)
    try:
        yield served
    finally:
        await served.down()


class World:
    """A cluster with a prober on it."""

    def __init__(self) -> None:
        self.cluster = Cluster(Networks(dict), SOURCES, stale_after=LONG, fresh_s=LONG)
        self.pool = Pool()
        self.prober: Prober | None = None
        self.key: bytes | None = None

    def probe(self, *, interval: float = LONG, timeout: float = 5.0, promote: float = LONG) -> None:
        pace = Pace(interval, timeout, promote)
        self.prober = Prober(self.cluster, Client(self.pool), pace, key=EngineKey(self.key))
        self.prober.start()

    def report(
        self,
        service: Service | int,
        *addrs: str,
        group: str = "glm",
        running: int = 1,
        alive: bool = True,
        trusted: bool = True,
        gpus: int = 1,
    ) -> None:
        """A daemon says that `group` has its API at this service, or port of the node's addresses."""
        announced = PortService(service, "/v1") if isinstance(service, int) else service
        actor = agent(f"{group}@c0@127.0.0.1", openai=announced, alive=alive, gpus=gpus)
        groups = {group: group_view(actor, running=running)}
        now = asyncio.get_running_loop().time()
        self.cluster.put_view(
            seen(
                view("127.0.0.1", *(addrs or HOSTS[:1]), groups=groups),
                f"{group}:6380",
                at=now,
                trusted=trusted,
            )
        )

    def found(self, group: str = "glm") -> Probe | None:
        state = self.cluster.table.groups.get(group)
        return None if state is None else state.probe

    def in_use(self) -> str | None:
        probe = self.found()
        return None if probe is None else probe.url

    async def close(self) -> None:
        if self.prober is not None:
            await self.prober.close()
        self.cluster.close()
        await self.pool.close()


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(module, "SPACING_S", 0.01)
    monkeypatch.setattr("mentatd.serve.cluster.REBUILD_S", 0.0)
    monkeypatch.setattr("mentatd.serve.cluster.CONFIRM_S", 0.0)
    world = World()
    yield world
    await world.close()


async def test_a_group_is_probed_as_soon_as_it_appears_and_routes_what_its_engine_lists(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.probe()
    async with engine("glm-5", "lora") as served:
        world.report(served.port)
        await until(lambda: world.cluster.table.models)
        assert set(world.cluster.table.models) == {"glm-5", "lora"}
        assert served.asked == 1
    assert (
        f"event=group_probe group=glm ok=true url=http://127.0.0.1:{served.port}/v1"
        in capsys.readouterr().err
    )


async def test_a_group_whose_other_gates_are_shut_is_probed_so_that_they_need_only_open(world: World) -> None:
    world.probe()
    async with engine("glm-5") as served:
        world.report(served.port, running=0)
        await until(world.in_use)
        assert world.cluster.table.groups["glm"].why_not == "no running actors"
        world.report(served.port, running=1)
        await until(lambda: world.cluster.table.models)


async def test_the_first_candidate_that_answers_is_kept(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.probe(interval=0.02)
    async with engine("glm-5", host=HOSTS[1]) as second:
        world.report(second.port, *HOSTS)
        await until(world.in_use)
        assert world.in_use() == f"http://127.0.0.2:{second.port}/v1"
        probe = world.found()
        assert probe is not None
        assert [(attempt.url, attempt.error) for attempt in probe.attempts] == [
            (f"http://127.0.0.1:{second.port}/v1", "connection refused"),
            (f"http://127.0.0.2:{second.port}/v1", None),
        ]
        async with engine("glm-5", host=HOSTS[0], port=second.port) as first:
            asked = second.asked
            await until(lambda: second.asked > asked + 3)
            assert first.asked == 0, "it is sticky until it stops answering, or a promotion round comes"
            second.status = 500
            await until(lambda: world.in_use() == f"http://127.0.0.1:{second.port}/v1")
    said = capsys.readouterr().err
    assert said.count("event=group_endpoint group=glm url=http://127.0.0.1") == 1
    assert said.count("event=group_probe") == 1


async def test_a_better_address_is_taken_back_when_it_answers_again(world: World) -> None:
    world.probe(interval=0.02, promote=0.1)
    port = free_port()
    async with engine("glm-5", host=HOSTS[1], port=port), engine("glm-5", host=HOSTS[2], port=port) as third:
        world.report(port, *HOSTS)
        await until(lambda: world.in_use() == f"http://127.0.0.2:{port}/v1")
        async with engine("glm-5", host=HOSTS[0], port=port):
            await until(lambda: world.in_use() == f"http://127.0.0.1:{port}/v1")
        assert third.asked == 0


async def test_dead_addresses_above_the_one_in_use_do_not_make_its_result_stale(world: World) -> None:
    port = free_port()
    async with (
        engine(host=HOSTS[0], port=port) as one,
        engine(host=HOSTS[1], port=port) as two,
        engine("glm-5", host=HOSTS[2], port=port),
    ):
        one.status = two.status = 503
        world.probe(interval=0.02, timeout=0.3, promote=0.06)
        world.report(port, *HOSTS)
        await until(world.in_use)
        one.stalls = two.stalls = True
        before = one.asked, two.asked
        await until(lambda: (one.asked, two.asked) > before)
        probe = world.found()
        await until(lambda: world.found() is not probe)
        probe = world.found()
        assert probe is not None
        assert [attempt.error is None for attempt in probe.attempts] == [False, False, True]
        assert probe.duration_s < 2 * 0.3, "they are asked together"


def answered(body: bytes, status: int = 200) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (status, len(body), body)


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize(
    ("trusted", "said"),
    [(True, "the engine does not take ENGINE_API_KEY"), (False, "ENGINE_API_KEY was withheld: its address")],
)
async def test_the_engines_key_goes_to_trusted_addresses_and_a_refusal_of_it_is_explained(
    world: World, capsys: pytest.CaptureFixture[str], status: int, trusted: bool, said: str
) -> None:
    heads: list[bytes] = []

    async def script(line: Line) -> None:
        heads.append(await line.request())
        line.send(answered(b"", status))

    world.key = b"sk-1"
    async with scripted(script) as server:
        world.report(server.port, trusted=trusted)
        world.probe(interval=0.02)
        await until(lambda: len(heads) > 2)
        await until(lambda: world.found() is not None)
        probe = world.found()
        assert probe is not None
        assert f"HTTP {status}: {said}" in (probe.attempts[0].error or "")
        await world.close()
    assert {b"authorization: Bearer sk-1" in head for head in heads} == {trusted}
    assert capsys.readouterr().err.count("event=engine_key_withheld") == (not trusted)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (answered(b"", 401), "HTTP 401: the engine asks for a key: set ENGINE_API_KEY"),
        (answered(b"", 403), "HTTP 403: the engine asks for a key: set ENGINE_API_KEY"),
        (answered(b"", 503), "HTTP 503"),
        (answered(b"[]"), "object"),
        (answered(b"<html>"), "JSON"),
        (answered(b'{"data":7}'), "data"),
        (answered(b"x" * 2000), "more than 1000 bytes"),
        (b"SSH-2.0-OpenSSH\r\n", "SSH-2.0"),
        (b"", "closed"),
    ],
)
async def test_what_is_no_list_of_models_is_a_failed_probe_that_says_why(
    world: World,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: bytes,
    error: str,
) -> None:
    async def script(line: Line) -> None:
        await line.request()
        line.send(answer)

    monkeypatch.setattr(module, "ANSWER_LIMIT", 1000)
    world.probe()
    async with scripted(script) as server:
        world.report(server.port)
        await until(lambda: world.found())
        why_not = world.cluster.table.groups["glm"].why_not
        assert str(why_not).startswith(f"endpoint probe failed: http://127.0.0.1:{server.port}/v1: ")
        assert error in str(why_not)
        assert str(why_not).count("http://") == 1
    assert "event=group_probe group=glm ok=false" in capsys.readouterr().err


async def test_an_engine_that_does_not_answer_costs_its_own_group_one_timeout(world: World) -> None:
    world.probe(timeout=0.1)
    async with engine() as hung, engine("qwen") as well:
        hung.stalls = True
        world.report(hung.port, group="glm")
        world.report(well.port, group="qwen")
        await until(lambda: "qwen" in world.cluster.table.models)
        await until(lambda: world.found("glm"))
        assert "timed out after 0.1 s" in str(world.cluster.table.groups["glm"].why_not)


async def test_a_probe_on_a_connection_that_was_closed_meanwhile_is_asked_again(world: World) -> None:
    body = listing("glm-5")

    async def script(line: Line) -> None:
        await line.request()
        line.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        await line.request()

    world.probe(interval=0.02)
    async with scripted(script) as server:
        world.report(server.port)
        await until(lambda: len(server.lines) >= 3)
        assert world.in_use()


async def test_a_url_is_asked_as_it_was_written(world: World) -> None:
    world.probe()
    async with scripted(answering(answered(listing("m")))) as server:
        world.report(UrlService(f"http://localhost:{server.port}/deep/v1"))
        await until(lambda: world.cluster.table.models)
        assert world.in_use() == f"http://localhost:{server.port}/deep/v1"


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("http://localhost:{port}/v1?key=1", "no http:// or https:// base URL"),
        ("http://localhost:{port}/v1/\u00fc", "no http:// or https:// base URL"),
        # the error's own text names the scheme's port, the announcement does not
        ("https://127.255.255.254/v1", "connection refused"),
    ],
)
async def test_a_url_is_named_once_in_the_reason_and_asked_only_if_requests_can_go_there(
    world: World, capsys: pytest.CaptureFixture[str], url: str, error: str
) -> None:
    world.probe()
    async with scripted(answering(answered(listing("m")))) as server:
        url = url.format(port=server.port)
        world.report(UrlService(url))
        await until(world.found)
        assert world.cluster.table.groups["glm"].why_not == f"endpoint probe failed: {url}: {error}"
        assert server.lines == []
    assert "event=group_probe group=glm ok=false" in capsys.readouterr().err


async def test_a_large_list_is_read_in_a_thread(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGE", 10)
    threads: list[object] = []
    real = asyncio.to_thread

    async def to_thread(function: Callable[..., object], *arguments: object) -> object:
        threads.append(function)
        return await real(function, *arguments)

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    world.probe()
    async with engine("glm-5") as served:
        world.report(served.port)
        await until(lambda: world.cluster.table.models)
    assert len(threads) == 1


async def test_a_change_of_the_group_is_looked_at_at_once(world: World) -> None:
    world.probe()
    async with engine("glm-5") as served, engine("glm-6") as other:
        world.report(served.port)
        await until(lambda: "glm-5" in world.cluster.table.models)
        world.report(served.port, running=2)
        assert world.prober is not None
        prober = world.prober._groups["glm"]
        await until(lambda: prober.group.actors_running == 2)
        assert not prober._woken.is_set(), "one more actor is no reason"
        world.report(served.port, running=2, gpus=8)
        await until(lambda: served.asked == 2)
        world.report(other.port)
        await until(lambda: "glm-6" in world.cluster.table.models)


async def test_a_round_for_addresses_that_are_no_longer_candidates_is_ended(world: World) -> None:
    world.probe(timeout=LONG)
    async with engine() as hung, engine("glm-5") as well:
        hung.stalls = True
        world.report(hung.port)
        await until(lambda: hung.asked)
        world.report(well.port)
        await until(lambda: world.cluster.table.models)


async def test_a_group_without_candidates_is_probed_no_more(world: World) -> None:
    world.probe(interval=0.02)
    async with engine("glm-5") as served:
        world.report(served.port)
        await until(lambda: world.cluster.table.models)
        world.report(served.port, alive=False)
        await until(lambda: not world.cluster.table.models)
        asked = served.asked
        await asyncio.sleep(0.1)
        assert served.asked == asked
        world.report(served.port)
        await until(lambda: world.cluster.table.models)


async def test_a_suspicion_is_looked_into_at_once_and_a_hundred_cost_little(world: World) -> None:
    world.probe()
    async with engine("glm-5") as served:
        world.report(served.port)
        await until(lambda: world.cluster.table.models)
        for _ in range(100):
            world.cluster.suspect("glm", f"http://127.0.0.1:{served.port}/v1")
        await until(lambda: served.asked == 2)
        world.cluster.suspect("glm", "http://10.9.9.9:8000/v1")
        world.cluster.suspect("nobody", f"http://127.0.0.1:{served.port}/v1")
        await asyncio.sleep(0.05)
        assert served.asked == 2


async def test_an_interval_below_the_spacing_is_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SPACING_S", LONG)
    world.probe(interval=0.02)
    async with engine("glm-5") as served:
        world.report(served.port)
        await until(lambda: served.asked >= 3)


async def test_each_change_between_good_and_bad_is_said_once(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.probe(interval=0.01)
    async with engine("glm-5") as served:
        for status, rounds in ((200, 3), (500, 6), (200, 9)):
            served.status = status
            world.report(served.port)
            await until(lambda rounds=rounds: served.asked >= rounds)  # type: ignore[misc]
            await until(lambda status=status: (world.in_use() is not None) == (status == 200))  # type: ignore[misc]
    said = [line for line in capsys.readouterr().err.splitlines() if "event=group_probe" in line]
    assert ["ok=true" in line for line in said] == [True, False, True]
    assert 'HTTP 500"' in said[1]
