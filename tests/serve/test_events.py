"""A daemon's `/events`, held open and opened again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.support.daemons import ScriptedDaemon
from tests.support.deadlines import until, within
from tests.support.scripted import Line, scripted

from mentatd.serve import events as module
from mentatd.serve.events import Events
from mentatd.tasks import Tasks


class Ear:
    """Counts what `Events` hears."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self.heard = 0

    def __call__(self, address: str) -> Events:
        events = Events(address, self._hear)
        self._tasks.start(events.run(), "events")
        return events

    def _hear(self) -> None:
        self.heard += 1


@pytest.fixture
async def ear() -> AsyncIterator[Ear]:
    tasks = Tasks("test")
    yield Ear(tasks)
    async with within():
        await tasks.close()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dial again without much delay."""
    monkeypatch.setattr(module, "RETRY_FIRST_S", 0.005)
    monkeypatch.setattr(module, "RETRY_LIMIT_S", 0.02)


async def test_the_connection_its_first_frame_and_each_event_are_heard(ear: Ear) -> None:
    async with ScriptedDaemon() as daemon:
        events = ear(daemon.address)
        await until(lambda: ear.heard == 2)
        assert events.connected
        await daemon.event(3)
        await until(lambda: ear.heard == 5)


async def test_a_flood_of_events_is_slowed_down(ear: Ear, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BURST", 10)
    monkeypatch.setattr(module, "REST_S", 60.0)
    async with ScriptedDaemon() as daemon:
        ear(daemon.address)
        await until(lambda: ear.heard == 2)
        await daemon.event(50)
        await until(lambda: ear.heard == 10)
        await asyncio.sleep(0.05)
        assert ear.heard == 10


@pytest.mark.usefixtures("hasty")
async def test_a_lost_connection_is_heard_said_once_and_opened_again(
    ear: Ear, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = ScriptedDaemon()
    await daemon.start()
    events = ear(daemon.address)
    await until(lambda: ear.heard == 2)
    await daemon.stop()
    await until(lambda: ear.heard == 3)
    assert not events.connected
    await asyncio.sleep(0.1)
    await daemon.start()
    await until(lambda: ear.heard == 5)
    assert capsys.readouterr().err.count(f"event=daemon_events_lost daemon={daemon.address}") == 1
    monkeypatch.setattr(module, "STEADY_S", 0.0)
    await daemon.stop()
    await until(lambda: ear.heard == 6)
    assert capsys.readouterr().err.count("event=daemon_events_lost") == 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "404"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/events\r\nContent-Length: 0\r\n\r\n", "302"),
        (b"garbage\r\n\r\n", "HTTP"),
        (b"", "HTTP"),
    ],
)
async def test_what_is_no_websocket_is_dialled_again_after_a_while(
    ear: Ear, capsys: pytest.CaptureFixture[str], answer: bytes, error: str
) -> None:
    async def script(line: Line) -> None:
        await line.request()
        line.send(answer)

    async with scripted(script) as server:
        events = ear(f"127.0.0.1:{server.port}")
        said = ""
        async with within():
            while "daemon_events_lost" not in said:
                await asyncio.sleep(0.005)
                said += capsys.readouterr().err
        assert error in said
        await asyncio.sleep(0.05)
        assert len(server.lines) == 1, "the back-off begins with half a second"
        assert not events.connected
        assert ear.heard == 0


async def test_an_answer_that_does_not_come_is_given_up(ear: Ear, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OPEN_TIMEOUT_S", 0.05)
    monkeypatch.setattr(module, "RETRY_FIRST_S", 0.01)
    async with scripted(Line.closed) as server:
        ear(f"127.0.0.1:{server.port}")
        await until(lambda: len(server.lines) == 2)


@pytest.mark.usefixtures("hasty")
async def test_a_frame_over_the_limit_ends_the_connection(ear: Ear, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FRAME_LIMIT", 16)
    async with ScriptedDaemon() as daemon:
        ear(daemon.address)
        await until(lambda: ear.heard >= 4)  # connected and lost, twice


async def test_a_daemon_that_hangs_up_at_once_is_not_dialled_in_a_loop(
    ear: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[int] = []

    async def back_off(self: Events, failures: int) -> None:
        limits.append(failures)

    monkeypatch.setattr(module, "FRAME_LIMIT", 16)
    monkeypatch.setattr(Events, "_back_off", back_off)
    async with ScriptedDaemon() as daemon:
        ear(daemon.address)
        await until(lambda: len(limits) >= 3)
    assert limits[:3] == [1, 2, 3]


async def test_a_daemon_that_answers_again_need_not_wait_out_the_back_off(
    ear: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_FIRST_S", 60.0)
    monkeypatch.setattr(module, "RETRY_LIMIT_S", 60.0)
    daemon = ScriptedDaemon()
    daemon.takes_events = False
    async with daemon:
        events = ear(daemon.address)
        await asyncio.sleep(0.05)
        daemon.takes_events = True
        events.retry()
        await until(lambda: events.connected)
