"""One watched daemon: when it is read, what is made of its answers, what is said of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from tests.support.daemons import ScriptedDaemon
from tests.support.deadlines import until, within
from tests.support.scripted import Line, answering, scripted
from tests.support.views import agent, group_view, view

from mentatd.cluster.watchset import Claim, Finding
from mentatd.http.client import Client
from mentatd.http.pool import Pool
from mentatd.serve import daemon as module
from mentatd.serve.cluster import REBUILD_S
from mentatd.serve.daemon import Daemon
from mentatd.tasks import Tasks
from mentatd.wire.snapshot_writer import write_snapshot

LONG = 60.0


class Watch:
    """A `Daemon` under test, its polls counted."""

    def __init__(self, client: Client, tasks: Tasks) -> None:
        self._client = client
        self._tasks = tasks
        self.polls = 0
        self._polled = asyncio.Event()

    def __call__(self, address: str, *, every: float = LONG) -> Daemon:
        claim = Claim(address, "", "seed", trusted=True, near=True)
        daemon = Daemon(claim, self._client, self._changed, poll_interval=every)
        daemon.start(self._tasks)
        return daemon

    def _changed(self, daemon: Daemon) -> None:
        self.polls += 1
        self._polled.set()
        self._polled = asyncio.Event()

    async def polled(self, times: int = 1) -> None:
        """Wait until there were this many polls in all."""
        async with within():
            while self.polls < times:
                await self._polled.wait()


@pytest.fixture
async def watch() -> AsyncIterator[Watch]:
    pool, tasks = Pool(), Tasks("test")
    yield Watch(Client(pool), tasks)
    await tasks.close()
    await pool.close()


def answer(body: bytes, status: int = 200) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (status, len(body), body)


async def test_a_daemon_is_read_at_once_and_then_each_interval(watch: Watch) -> None:
    async with ScriptedDaemon(view("10.0.0.1")) as served:
        served.takes_events = False
        daemon = watch(served.address, every=0.02)
        assert daemon.finding() == Finding("", "untried")
        await watch.polled()
        assert daemon.connected
        assert daemon.error is None
        assert daemon.view == served.view
        assert daemon.finding() == Finding("id-10.0.0.1", "working")
        served.view = view("10.0.0.1", groups={"glm": group_view(agent())})
        await until(lambda: daemon.view == served.view)


async def test_an_event_is_followed_by_a_reading_and_a_burst_by_two(watch: Watch) -> None:
    async with ScriptedDaemon() as served:
        daemon = watch(served.address)
        await until(lambda: served.listeners)
        await asyncio.sleep(2 * module.REREAD_S)
        before = served.reads
        served.view = view(groups={"glm": group_view(agent())})
        await served.event(50)
        await until(lambda: daemon.view == served.view)
        await asyncio.sleep(2 * module.REREAD_S)
        assert 1 <= served.reads - before <= 2


async def test_a_short_burst_is_followed_by_one_reading(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GATHER_S", 0.1)
    monkeypatch.setattr(module, "REREAD_S", 0.1)
    async with ScriptedDaemon() as served:
        watch(served.address)
        await until(lambda: served.listeners)
        await asyncio.sleep(0.3)
        before = served.reads
        await served.event(5)
        await until(lambda: served.reads > before)
        await asyncio.sleep(0.3)
        assert served.reads == before + 1


def test_an_event_is_in_the_table_within_half_a_second() -> None:
    assert module.GATHER_S <= module.REREAD_S
    assert module.REREAD_S + REBUILD_S < 0.5


@contextmanager
def patched(name: str, value: float) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, value)
        yield


@pytest.mark.parametrize(
    ("served", "error"),
    [
        (answer(b"busy", 503), "HTTP 503"),
        (answer(b"{}", 302), "HTTP 302"),
        (answer(b"[]"), "object"),
        (answer(b"\xff\x00garbage"), "JSON"),
        (answer(b'{"proto":"7.0"}'), "7.0"),
        (answer(b"x" * 2000), "more than 1000 bytes"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "SSH-2.0"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{", "127.0.0.1"),
        (b"", "closed"),
    ],
)
async def test_an_answer_that_is_no_snapshot_is_a_failed_poll(
    watch: Watch, served: bytes, error: str
) -> None:
    async def script(line: Line) -> None:
        await line.request()
        line.send(served)

    with patched("SNAPSHOT_LIMIT", 1000):
        async with scripted(script) as server:
            daemon = watch(f"127.0.0.1:{server.port}")
            await watch.polled()
            assert not daemon.connected
            assert error in str(daemon.error)
            assert daemon.finding().state == "failing"


async def test_a_daemon_that_does_not_answer_is_given_up_at_the_deadline(watch: Watch) -> None:
    with patched("POLL_TIMEOUT_S", 0.05):
        async with ScriptedDaemon() as served:
            served.answer = served.never
            daemon = watch(served.address)
            await watch.polled()
            assert "timed out after 0.05 s" in str(daemon.error)


async def test_a_dead_daemon_is_found_out_before_its_view_is_stale(watch: Watch) -> None:
    """Two lost polls and a third interval for another address: less than the three after which it is."""
    with patched("_POLL_LEAST_S", 0.1):
        async with ScriptedDaemon() as served:
            served.answer = served.never
            daemon = watch(served.address, every=0.4)
            await watch.polled()
            assert "timed out after 0.2 s" in str(daemon.error)


async def test_a_lost_daemon_keeps_its_view_and_is_named_once(
    watch: Watch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with ScriptedDaemon() as served:
        daemon = watch(served.address, every=0.02)
        await watch.polled()

        async def failing() -> tuple[int, bytes]:
            return 500, b""

        served.answer = failing
        await until(lambda: daemon.error)
        assert daemon.finding().state == "working", "one lost poll is no lost daemon"
        await until(lambda: daemon.finding().state == "failing")
        assert daemon.view == served.view
        assert not daemon.connected
        served.answer = None
        await until(lambda: daemon.connected)
        assert daemon.finding().state == "working"
    said = capsys.readouterr().err
    assert said.count("event=daemon_unreachable") == 1
    assert f'daemon={served.address} error="HTTP 500"' in said
    assert said.count("event=daemon_reachable") == 1


async def test_a_daemon_that_comes_back_is_listened_to_again_at_once(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mentatd.serve.events.RETRY_FIRST_S", LONG)
    monkeypatch.setattr("mentatd.serve.events.RETRY_LIMIT_S", LONG)
    served = ScriptedDaemon()
    await served.start()
    daemon = watch(served.address, every=0.02)
    await until(lambda: served.listeners)
    await served.stop()
    await until(lambda: daemon.error)
    await served.start()
    await until(lambda: served.listeners)
    await served.stop()


async def test_a_poll_on_a_connection_that_was_closed_meanwhile_is_asked_again(watch: Watch) -> None:
    body = write_snapshot(view())
    kept = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)

    async def script(line: Line) -> None:
        if (await line.request()).startswith(b"GET /status"):
            line.send(kept)
            await line.request()

    async with scripted(script) as server:
        daemon = watch(f"127.0.0.1:{server.port}", every=0.02)
        await watch.polled(4)
        assert daemon.error is None


async def test_problems_of_a_snapshot_are_said_once_a_change(
    watch: Watch, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PROBLEMS_SAID", 2)
    bodies = [b'{"groups":{"glm":7}}', b'{"groups":{"glm":7}}', b'{"groups":{"glm":7,"a":1,"b":2,"c":3}}']
    async with scripted(answering(answer(bodies[0]))) as first:
        daemon = watch(f"127.0.0.1:{first.port}", every=0.02)
        await watch.polled(3)
        assert daemon.connected
    said = capsys.readouterr().err
    assert said.count("event=snapshot_problem") == 1
    assert "path=groups.glm" in said
    async with scripted(answering(answer(bodies[2]))) as second:
        watch(f"127.0.0.1:{second.port}")
        await watch.polled(watch.polls + 1)
    assert "more=2" in capsys.readouterr().err


async def test_a_large_snapshot_is_read_in_a_thread(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[Callable[..., object]] = []
    real = asyncio.to_thread

    async def to_thread(function: Callable[..., object], *arguments: object) -> object:
        called.append(function)
        return await real(function, *arguments)

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    big = replace(view(), hostname="n" * module.LARGE)
    async with ScriptedDaemon(big) as served:
        daemon = watch(served.address)
        await watch.polled()
        assert daemon.view == big
        assert len(called) == 1


async def test_a_daemon_that_says_nothing_new_has_the_same_view(watch: Watch) -> None:
    async with ScriptedDaemon(view(groups={"glm": group_view(agent())})) as served:
        daemon = watch(served.address, every=0.02)
        await watch.polled()
        first = daemon.view
        await watch.polled(3)
        assert daemon.view is first


async def test_of_a_daemon_with_too_many_groups_the_first_are_used(
    watch: Watch, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GROUPS_LIMIT", 2)
    many = view(groups={name: group_view(agent()) for name in "dcba"})
    async with ScriptedDaemon(many) as served:
        daemon = watch(served.address, every=0.02)
        await watch.polled(3)
        assert daemon.view == replace(many, groups={name: many.groups[name] for name in "ab"})
    assert capsys.readouterr().err.count("4 groups; the first 2 by name are used") == 1


async def test_a_watch_that_was_ended_reads_no_more(watch: Watch) -> None:
    async with ScriptedDaemon() as served:
        daemon = watch(served.address, every=0.01)
        await watch.polled()
        daemon.stop()
        await until(lambda: not served.listeners)
        reads = served.reads
        await asyncio.sleep(0.05)
        assert served.reads == reads
