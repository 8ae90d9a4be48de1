"""`/events.json`: what a viewer is sent, and what slow, many and leaving viewers cost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from tests.serve.monitor.recorder import Recorder
from tests.serve.monitor.rows import table
from tests.serve.monitor.test_history import World as HistoryWorld
from tests.serve.monitor.test_stats import World as StatsWorld
from tests.serve.monitor.test_stats import enter
from tests.support.deadlines import until, within

from mentatd.errors import Refusal
from mentatd.http.connection import Connection
from mentatd.http.request import Head, Request
from mentatd.http.server import Server
from mentatd.serve.monitor import feed as module
from mentatd.serve.monitor.engines import Engines
from mentatd.serve.monitor.feed import REQUESTS_SHOWN, VIEWERS, Feed

OPENED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
    b"X-Accel-Buffering: no\r\nConnection: close\r\n\r\nretry: 2000\n\n"
)


class LookedAt:
    """Engines that count looks."""

    looks = 0

    def look(self) -> None:
        self.looks += 1


class World:
    def __init__(self) -> None:
        self.stats = StatsWorld()
        self.history = HistoryWorld()
        self.engines = LookedAt()
        self.status_made = 0
        self.feed = Feed(self.stats.stats, self._status, self.history.history, cast("Engines", self.engines))

    def _status(self) -> bytes:
        self.status_made += 1
        return b'{"number":%d}' % self.status_made

    def open(self, **more: Any) -> Recorder:
        connection = Recorder(**more)
        self.feed.handle(Request(Head("GET", b"/events.json")), cast("Connection", connection))
        return connection

    def change(self) -> None:
        """Something that `recent` tells, and `status` too."""
        here = self.history.followed
        served = bool(here.cluster.table.groups)
        here.cluster.table = table({}) if served else table({"glm": ["glm-5"]})
        here.timeline.look()


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    w = World()
    yield w
    await w.feed.close()
    await w.stats.answering.close()
    await w.history.answering.close()
    w.stats.inflight.close()


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TICK_S", 0.002)


async def test_a_stream_begins_with_the_state() -> None:
    async with world() as w:
        (request,) = enter(w.stats.inflight, 1)
        viewer = w.open()
        assert viewer.written == OPENED
        assert viewer.began
        await until(lambda: viewer.events)
        name, data = viewer.events[0]
        assert name == "state"
        assert data["status"] == {"number": 1}
        assert [r["id"] for r in data["stats"]["requests"]] == [request.id]
        assert [r["model"] for r in data["stats"]["models"]] == ["glm-5"]
        assert w.engines.looks > 0


async def test_then_come_changes() -> None:
    async with world() as w:
        viewer = w.open()
        await until(lambda: "stats" in viewer.names())  # once, for nothing has been told yet
        w.change()
        await until(lambda: viewer.names()[-2:] == ["status", "recent"])
        (change,) = viewer.events[-1][1]["changes"]
        assert (change["kind"], change["subject"]) == ("group_admitted", "glm")
        (request,) = enter(w.stats.inflight, 1)
        await until(lambda: viewer.names()[-1] == "stats")
        assert viewer.events[-1][1]["in_flight"] == 1
        w.stats.inflight.leave(request, 200, None)
        await until(lambda: viewer.events[-1][1].get("in_flight") == 0)


async def test_where_nothing_changes_nothing_is_sent_but_a_comment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEEPALIVE_S", 0.0)
    async with world() as w:
        viewer = w.open()
        await until(lambda: viewer.written.endswith(b": still here\n\n"))
        sent = viewer.names()
        before = len(viewer.written)
        await until(lambda: len(viewer.written) > before)
        assert viewer.names() == sent == ["state", "stats"]


async def test_the_status_comes_in_any_case_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STATUS_S", 0.0)
    async with world() as w:
        viewer = w.open()
        await until(lambda: viewer.names().count("status") > 2)


async def test_events_list_the_oldest_requests_and_count_all() -> None:
    async with world() as w:
        enter(w.stats.inflight, REQUESTS_SHOWN + 50)
        viewer = w.open()
        await until(lambda: viewer.events)
        stats = viewer.events[0][1]["stats"]
        assert len(stats["requests"]) == REQUESTS_SHOWN
        assert stats["in_flight"] == REQUESTS_SHOWN + 50


async def test_many_viewers_are_sent_what_one_is() -> None:
    async with world() as w:
        viewers = [w.open() for _ in range(5)]
        await until(lambda: all(viewer.events for viewer in viewers))
        assert w.status_made == 1
        w.change()
        await until(lambda: all("recent" in viewer.names() for viewer in viewers))
        assert len({viewer.written for viewer in viewers}) == 1


async def test_one_that_does_not_read_is_sent_nothing_until_it_reads() -> None:
    async with world() as w:
        slow, other = w.open(), w.open()
        await until(lambda: slow.events and other.events)
        assert slow.flow is not None
        slow.flow.client_paused()
        before = slow.written
        for _ in range(3):
            w.change()
            seen = other.names().count("recent")
            await until(lambda seen=seen: other.names().count("recent") > seen)  # type: ignore[misc]
        assert slow.written == before
        slow.flow.client_resumed()
        await until(lambda: slow.names().count("state") == 2)
        w.change()
        await until(lambda: slow.names()[-1] == "recent")
        assert other.names().count("state") == 1


async def test_one_that_does_not_read_for_long_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.0)
    async with world() as w:
        slow = w.open()
        await until(lambda: slow.events)
        assert slow.flow is not None
        slow.flow.client_paused()
        await until(lambda: slow.aborted)


async def test_one_that_leaves_is_forgotten_and_the_last_ends_the_work() -> None:
    async with world() as w:
        first, second = w.open(), w.open()
        await until(lambda: first.events and second.events)
        assert first.flow is not None
        assert second.flow is not None
        first.flow.client_lost()
        assert len(w.feed) == 1
        second.flow.client_lost()
        await until(lambda: not w.feed._running)
        again = w.open()
        await until(lambda: again.events)


async def test_the_number_of_viewers_is_bounded() -> None:
    async with world() as w:
        viewers = [w.open() for _ in range(VIEWERS)]
        late = w.open()
        assert late.refused is not None
        assert (late.refused.status, late.refused.code) == (503, "too_many_viewers")
        assert late.written == b""
        assert viewers[0].flow is not None
        viewers[0].flow.client_lost()
        assert w.open().refused is None


async def test_head_opens_no_stream() -> None:
    async with world() as w:
        asked = w.open(head_only=True)
        assert asked.answered == (200, b"", b"text/event-stream")
        assert len(w.feed) == 0


async def test_the_end_of_the_router_ends_the_streams() -> None:
    async with world() as w:
        viewer = w.open()
        await until(lambda: viewer.events)
        await w.feed.close()
        assert viewer.ended
        assert len(w.feed) == 0
        late = w.open()
        assert late.answered == (200, b"", b"text/event-stream")


async def test_a_crash_ends_the_streams_and_the_next_viewer_begins_anew(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with world() as w:
        with monkeypatch.context() as broken:

            def crash() -> bytes:
                raise RuntimeError("broken")

            broken.setattr(w.feed, "_status", crash)
            viewer = w.open()
            await until(lambda: viewer.ended)
            await asyncio.sleep(0)
        assert "task_crashed" in capsys.readouterr().err
        again = w.open()
        await until(lambda: again.events)


class OnlyFeed:
    """A server's handler that has nothing but the stream."""

    def __init__(self, feed: Feed) -> None:
        self.handle = feed.handle

    def admit(self, request: Request) -> Refusal | int:
        return 0

    def refuse(self, refusal: Refusal, request: Request | None) -> tuple[bytes, bytes]:
        return b"text/plain", refusal.message.encode()


async def test_a_socket_that_does_not_read_fills_no_memory_and_catches_up() -> None:
    async with world() as w:
        enter(w.stats.inflight, REQUESTS_SHOWN)
        server = Server(OnlyFeed(w.feed))
        await server.start(0, ("127.0.0.1",))
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 17)
        writer.write(b"GET /events.json HTTP/1.1\r\nHost: r\r\n\r\n")
        # events of 40 kB come each few milliseconds until the buffers of both sides are full
        await until(lambda: any(viewer.paused_since for viewer in w.feed._viewers))
        (viewer,) = w.feed._viewers
        transport = viewer.connection._transport
        await until(lambda: viewer.behind)
        assert transport.get_write_buffer_size() < 1 << 20
        async with within():
            for _ in range(2):
                while await reader.readline() != b"event: state\n":
                    pass
        writer.close()
        await until(lambda: len(w.feed) == 0)
        await server.close()
