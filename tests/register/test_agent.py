"""An agent against a daemon that follows a script, on real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.support.deadlines import DEADLINE_S, until, within

from mentatd.link import Link
from mentatd.register import agent as agent_module
from mentatd.register.agent import Agent
from mentatd.register.bindwatch import BindWatch
from mentatd.register.settings import RegisterSettings, registration
from mentatd.wire.frames import encode
from mentatd.wire.messages import (
    AgentRegister,
    AgentRegisterOk,
    Err,
    Message,
    Ping,
    Pong,
    ServiceNote,
    Unknown,
    Unreadable,
)
from mentatd.wire.service import PortService
from mentatd.wire.version import Generation

NARROW = "   0: 0100000A:1F40 00000000:0000 0A x"
WIDE = "   0: 00000000:1F40 00000000:0000 0A x"

SETTINGS = RegisterSettings(
    daemon=("127.0.0.1", 1),
    group="glm",
    container="c0",
    node_ip="",
    services={"openai": PortService(8000, "/v1")},
    provider="vllm",
    gpus=0,
    generation="A",
)

Received = Message | Unknown | Unreadable | None


class ScriptedDaemon:
    """Takes one connection at a time; the test reads from it and writes to it."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[Link] = asyncio.Queue()
        self._server: asyncio.Server | None = None
        self.links: list[Link] = []

    async def start(self, port: int = 0) -> int:
        def took(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.links.append(Link(reader, writer))
            self._waiting.put_nowait(self.links[-1])

        self._server = await asyncio.start_server(took, "127.0.0.1", port)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for link in self.links:
            await link.close()
        await self._server.wait_closed()

    async def connection(self) -> Link:
        async with within():
            return await self._waiting.get()

    async def registered(self) -> tuple[Link, AgentRegister]:
        """The next connection, after its registration was taken."""
        link = await self.connection()
        frame = await link.receive(DEADLINE_S)
        assert isinstance(frame, AgentRegister)
        await link.send(AgentRegisterOk(frame.generation, frame.req, "n1"))
        return link, frame


@pytest.fixture
async def daemon() -> AsyncIterator[ScriptedDaemon]:
    daemon = ScriptedDaemon()
    yield daemon
    await daemon.stop()


@asynccontextmanager
async def running(
    port: int,
    *,
    table: Callable[[], str] = lambda: "",
    ping_every_s: float = 3600,
    generation: Generation = "A",
) -> AsyncIterator[asyncio.Task[None]]:
    """An agent that dials `port` without waiting between two dials."""
    settings = replace(SETTINGS, daemon=("127.0.0.1", port), generation=generation)
    agent = Agent(
        settings,
        lambda notes: registration(settings, notes, pid=4, cpus=2, memory=1),
        BindWatch(settings.ports, tables=lambda: [table()], every_s=0.01),
        chance=lambda: 0.0,
        ping_every_s=ping_every_s,
    )
    task = asyncio.get_running_loop().create_task(agent.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """No wait between two dials; the list tells the failures that each wait was for."""
    failures: list[int] = []

    def wait_s(count: int, _chance: float) -> float:
        failures.append(count)
        return 0.01

    monkeypatch.setattr(agent_module, "wait_s", wait_s)
    return failures


async def answers(link: Link) -> None:
    """Wait until the agent holds this link."""
    await link.send(Ping(1))
    assert await heard(link, Pong) == Pong(1)


async def heard(link: Link, kind: type[Message]) -> Received:
    """The next message of a kind, others passed over."""
    async with within():
        while not isinstance(message := await link.receive(DEADLINE_S), kind):
            assert message is not None, "the agent closed the link"
        return message


@pytest.mark.parametrize("generation", ["A", "B"])
async def test_it_registers_in_either_protocol(daemon: ScriptedDaemon, generation: Generation) -> None:
    async with running(await daemon.start(), generation=generation):
        _, frame = await daemon.registered()
        assert frame.generation == generation
        assert (frame.agent_id, frame.group, frame.provider) == ("glm@c0@", "glm", "vllm")
        assert frame.services == SETTINGS.services


async def test_it_pings_and_answers_pings(daemon: ScriptedDaemon) -> None:
    async with running(await daemon.start(), ping_every_s=0.01):
        link, _ = await daemon.registered()
        first, second = await heard(link, Ping), await heard(link, Ping)
        assert isinstance(first, Ping)
        assert second == Ping(first.req + 1)
        await link.send(Ping(77))
        assert await heard(link, Pong) == Pong(77)


async def test_a_finding_goes_with_the_registration_or_after_it(daemon: ScriptedDaemon) -> None:
    tables = [NARROW]
    async with running(await daemon.start(), table=lambda: tables[0]):
        link, frame = await daemon.registered()
        if not frame.notes:  # the registration went out before the first look
            assert await heard(link, ServiceNote) == ServiceNote("openai", "bound to 10.0.0.1 only")
        tables[0] = WIDE
        assert await heard(link, ServiceNote) == ServiceNote("openai", "")
        tables[0] = NARROW
        assert await heard(link, ServiceNote) == ServiceNote("openai", "bound to 10.0.0.1 only")
        await link.close()
        _, frame = await daemon.registered()
        assert frame.notes == {"openai": "bound to 10.0.0.1 only"}


async def test_it_dials_again_when_the_link_ends(
    daemon: ScriptedDaemon, impatient: list[int], capfd: pytest.CaptureFixture[str]
) -> None:
    async with running(await daemon.start()):
        for _ in range(3):
            link, _ = await daemon.registered()
            await link.close()
        link, _ = await daemon.registered()
        await answers(link)
    told = capfd.readouterr().err
    assert told.count("event=register_up") == 4
    assert told.count("event=register_lost") == 3
    assert impatient == [1, 2, 3], "links that end at once are failures in a row"


async def test_a_link_that_held_starts_the_waits_over(
    daemon: ScriptedDaemon, impatient: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_module, "_STEADY_S", 0.0)
    async with running(await daemon.start()):
        for _ in range(2):
            link, _ = await daemon.registered()
            await link.close()
        await daemon.registered()
    assert impatient == [1, 1]


async def test_it_waits_for_a_daemon_and_says_once_why(
    daemon: ScriptedDaemon, impatient: list[int], capfd: pytest.CaptureFixture[str]
) -> None:
    port = await daemon.start()
    await daemon.stop()
    async with running(port):
        await until(lambda: len(impatient) > 3)
        await daemon.start(port)
        await daemon.registered()
    told = capfd.readouterr().err
    assert told.count("event=register_failed") == 1
    assert f"127.0.0.1:{port}: Connection refused" in told


async def refuse(link: Link, req: int) -> None:
    await link.send(Err(req, "another major", "proto_mismatch"))


async def hang_up(link: Link, _req: int) -> None:
    await link.close()


async def talk_nonsense(link: Link, req: int) -> None:
    await link.send(Pong(req))


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (refuse, "refused: another major (see --proto)"),
        (hang_up, "closed without a reply"),
        (talk_nonsense, "answered Pong to the registration"),
    ],
)
async def test_a_refused_registration_is_tried_again(
    daemon: ScriptedDaemon,
    reply: Callable[[Link, int], Awaitable[None]],
    why: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    async with running(await daemon.start()):
        for _ in range(3):
            link = await daemon.connection()
            frame = await link.receive(DEADLINE_S)
            assert isinstance(frame, AgentRegister)
            await reply(link, frame.req)
        await daemon.registered()
    told = capfd.readouterr().err
    assert told.count("event=register_failed") == 1
    assert why in told


async def test_a_daemon_that_goes_silent_is_left(
    daemon: ScriptedDaemon, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(agent_module, "_SILENT_S", 0.05)
    async with running(await daemon.start()):
        await daemon.registered()
        await daemon.registered()
    assert 'silent for 0.05 s"' in capfd.readouterr().err


async def test_placement_is_refused_and_the_link_stays(daemon: ScriptedDaemon) -> None:
    async with running(await daemon.start()):
        link, _ = await daemon.registered()
        await answers(link)
        link._writer.write(encode({"t": "actor_spawn", "req": 9}))
        refused = await heard(link, Err)
        assert refused == Err(9, "mentatd-register does not know 'actor_spawn'", "unknown_message")
        await link.send(Ping(2))
        assert await heard(link, Pong) == Pong(2)


async def test_stopping_closes_the_link_in_order(daemon: ScriptedDaemon) -> None:
    async with running(await daemon.start()) as task:
        link, _ = await daemon.registered()
        await answers(link)
        task.cancel()
        assert await link.receive(DEADLINE_S) is None


async def test_an_error_of_the_daemon_is_said_once(
    daemon: ScriptedDaemon, capfd: pytest.CaptureFixture[str]
) -> None:
    async with running(await daemon.start()):
        link, _ = await daemon.registered()
        for _ in range(3):
            await link.send(Err(0, "out of sorts"))
        await answers(link)
    assert capfd.readouterr().err.count('event=daemon_error group=glm why="127.0.0.1: out of sorts"') == 1


async def test_what_it_does_not_expect_is_passed_over(daemon: ScriptedDaemon) -> None:
    async with running(await daemon.start()):
        link, _ = await daemon.registered()
        await link.send(Pong(3))
        await answers(link)
