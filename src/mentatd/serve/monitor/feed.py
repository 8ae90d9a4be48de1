"""`/events.json`: the documents of the status page as one stream of server-sent events.

Theory of operation: one task runs for as long as there are viewers. Each second it renders what changed, once, and
writes the same bytes to every viewer. A viewer whose connection is full is written nothing, and is `behind` from then
on: when it reads again it gets the whole state anew. So a slow one costs its connection's buffer and one event, and
one that does not read for `PATIENCE_S` is cut.

The stream has no length and no chunks; it ends with its connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from mentatd.http.request import Request
from mentatd.serve import refusals
from mentatd.serve.monitor.engines import Engines
from mentatd.serve.monitor.history import History
from mentatd.serve.monitor.stats import Rendered, Stats
from mentatd.tasks import Tasks

if TYPE_CHECKING:
    from mentatd.http.connection import Connection

VIEWERS = 64
TICK_S = 1.0
STATUS_S = 5.0
"""The most time between two `status` events: ages and latencies go on though nothing changes."""
KEEPALIVE_S = 15.0
"""The most time without a byte: proxies close what is idle for a minute."""
PATIENCE_S = 30.0
"""How long a viewer may take nothing."""
REQUESTS_SHOWN = 200
"""The oldest requests in flight that an event lists; it counts all."""
_CONTENT_TYPE = b"text/event-stream"
_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nCache-Control: no-store\r\nX-Accel-Buffering: no\r\n"
    b"Connection: close\r\n" % _CONTENT_TYPE
)
_BEGIN = b"\r\nretry: 2000\n\n"


class Viewer:
    """The flow of one open stream."""

    __slots__ = ("_gone", "behind", "connection", "paused_since")

    def __init__(self, connection: Connection, gone: Callable[[Viewer], None]) -> None:
        self.connection = connection
        self.behind = True
        """It has to be given the whole state before anything else."""
        self.paused_since: float | None = None
        """Loop time since when its connection takes nothing."""
        self._gone = gone

    def client_paused(self) -> None:
        self.paused_since = asyncio.get_running_loop().time()

    def client_resumed(self) -> None:
        self.paused_since = None

    def client_lost(self) -> None:
        self._gone(self)


class Feed:
    """Owns the viewers and the task that writes to them."""

    def __init__(self, stats: Stats, status: Callable[[], bytes], history: History, engines: Engines) -> None:
        """`status` makes the document `/status.json`."""
        self._stats = stats
        self._status = status
        self._history = history
        self._engines = engines
        self._viewers: set[Viewer] = set()
        self._joined = asyncio.Event()
        self._tasks = Tasks("feed")
        self._running = False
        self._closed = False

    def __len__(self) -> int:
        return len(self._viewers)

    def handle(self, request: Request, connection: Connection) -> None:
        """Open a stream."""
        if connection.head_only or self._closed:
            connection.answer(200, b"", _CONTENT_TYPE)
            return
        if len(self._viewers) >= VIEWERS:
            connection.refuse(refusals.too_many_viewers(VIEWERS))
            return
        viewer = Viewer(connection, self._viewers.discard)
        self._viewers.add(viewer)
        connection.flow = viewer
        connection.began = True
        connection.write(_HEAD + connection.fields + _BEGIN)
        self._joined.set()
        if not self._running:
            self._running = True
            self._tasks.start(self._run(), "write")

    async def close(self) -> None:
        """End every stream, and open no more."""
        self._closed = True
        self._end_all()
        await self._tasks.close()

    def _end_all(self) -> None:
        viewers, self._viewers = self._viewers, set()
        for viewer in viewers:
            viewer.connection.end(keep=False)

    async def _run(self) -> None:
        writer = _Writer(self._stats, self._status, self._history)
        loop = asyncio.get_running_loop()
        try:
            due = loop.time() + TICK_S
            while self._viewers:
                self._joined.clear()
                self._engines.look()
                if behind := [v for v in self._viewers if v.behind and v.paused_since is None]:
                    self._write(behind, await writer.state())
                    for viewer in behind:
                        viewer.behind = False
                if loop.time() < due:
                    await self._wait(due)
                    continue
                due = loop.time() + TICK_S
                self._write_news(await writer.news())
        finally:
            self._running = False
            self._end_all()  # none is left but after a crash: these come again

    async def _wait(self, until: float) -> None:
        """Until the next tick, or somebody comes."""
        try:
            async with asyncio.timeout_at(until):
                await self._joined.wait()
        except TimeoutError:
            pass

    def _write_news(self, news: bytes) -> None:
        now = asyncio.get_running_loop().time()
        for viewer in tuple(self._viewers):
            if viewer.paused_since is None:
                continue
            viewer.behind = True
            if now - viewer.paused_since > PATIENCE_S:
                viewer.connection.abort()
        self._write([viewer for viewer in self._viewers if not viewer.behind], news)

    def _write(self, viewers: list[Viewer], data: bytes) -> None:
        for viewer in viewers:
            if data and viewer in self._viewers:
                viewer.connection.write(data)


class _Writer:
    """Renders the events, each once for all viewers."""

    def __init__(self, stats: Stats, status: Callable[[], bytes], history: History) -> None:
        self._stats = stats
        self._status = status
        self._history = history
        self._loop_time = asyncio.get_running_loop().time
        self._mark = history.mark()
        self._told: Rendered | None = None
        self._status_at = self._said_at = self._loop_time()

    async def state(self) -> bytes:
        """The whole state."""
        rendered = await self._stats.render(REQUESTS_SHOWN)
        stats = self._stats.document(rendered)
        return _event(b"state", b'{"stats":%b,"status":%b}' % (stats, self._status()))

    async def news(self) -> bytes:
        """What changed since the last call, a comment where nothing has for a while, or nothing."""
        now, changes = self._loop_time(), self._mark.changes
        rendered = await self._stats.render(REQUESTS_SHOWN)
        events = []
        if rendered.in_flight or rendered != self._told:
            events.append(_event(b"stats", self._stats.document(rendered)))
        self._told = rendered
        recent, self._mark = self._history.recent(self._mark), self._history.mark()
        if self._mark.changes != changes or now - self._status_at >= STATUS_S:
            self._status_at = now
            events.append(_event(b"status", self._status()))
        if recent is not None:
            events.append(_event(b"recent", recent))
        if not events and now - self._said_at >= KEEPALIVE_S:
            events.append(b": still here\n\n")
        if events:
            self._said_at = now
        return b"".join(events)


def _event(name: bytes, data: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name, data)
