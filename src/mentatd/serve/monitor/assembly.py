"""What the router shows of itself, put together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from mentatd.http.client import Client
from mentatd.serve.answering import Answering
from mentatd.serve.cluster import Cluster
from mentatd.serve.daemon import Daemon
from mentatd.serve.enginekey import EngineKey
from mentatd.serve.handler import Endpoint
from mentatd.serve.inflight import Inflight
from mentatd.serve.monitor.engines import Engines
from mentatd.serve.monitor.exposition import Exposition
from mentatd.serve.monitor.feed import Feed
from mentatd.serve.monitor.guard import Guard
from mentatd.serve.monitor.history import History
from mentatd.serve.monitor.lag import Lag
from mentatd.serve.monitor.series import Series
from mentatd.serve.monitor.state import Sources
from mentatd.serve.monitor.stats import Stats
from mentatd.serve.monitor.timeline import Timeline
from mentatd.serve.monitor.traffic import Traffic
from mentatd.tasks import Tasks

if TYPE_CHECKING:
    from mentatd.serve.status import Documents


class Monitor:
    """`start`, then `end_streams` when the router drains, then `close`. Made on the running loop."""

    def __init__(
        self,
        cluster: Cluster,
        inflight: Inflight,
        client: Client,
        key: EngineKey,
        answering: Answering,
        documents: Documents,
        *,
        daemons: Callable[[], Iterable[Daemon]],
        announcements: Callable[[], Mapping[str, int]],
        connections: Callable[[], Mapping[str, int]],
    ) -> None:
        """`announcements`: datagrams so far by what became of them; `connections`: open ones by side."""
        self.traffic = Traffic()
        """Whose `refused` is to be told of every refusal."""
        inflight.on_finished(self.traffic.finished)
        self._engines = Engines(cluster, client, key)
        self._timeline = Timeline(cluster, daemons)
        self._series = Series(cluster, inflight, self._engines, self.traffic)
        self._stats = Stats(cluster, inflight, self._engines, answering)
        self._history = History(self.traffic, self._timeline, self._series, answering)
        self._feed = Feed(self._stats, documents.status, self._history, self._engines)
        self._lag = Lag()
        self._guard = Guard(self._lag)
        self._exposition = Exposition(
            Sources(
                cluster,
                inflight,
                self.traffic,
                self._timeline,
                self._lag,
                daemons,
                announcements,
                connections,
                started=time.time(),
            ),
            answering,
        )
        self._tasks = Tasks("monitor")

    def endpoints(self) -> dict[str, Endpoint]:
        """The paths that it answers."""
        return {
            "/stats.json": Endpoint(self._stats.handle),
            "/history.json": Endpoint(self._history.handle),
            "/events.json": Endpoint(self._feed.handle),
            "/metrics": Endpoint(self._exposition.handle),
        }

    def start(self) -> None:
        """Begin to follow the cluster and to take points."""
        self._tasks.start(self._timeline.run(), "timeline")
        self._tasks.start(self._series.run(), "series")
        self._lag.start()
        self._guard.start()

    async def end_streams(self) -> None:
        """End the event streams, which would go on for as long as their readers do."""
        await self._feed.close()

    async def close(self) -> None:
        """Follow nothing any more."""
        await self._feed.close()
        await self._tasks.close()
        await self._engines.close()
        await self._guard.close()
        self._lag.close()
