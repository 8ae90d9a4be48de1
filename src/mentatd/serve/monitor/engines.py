"""The engines' own figures, read from their `/metrics` for as long as somebody looks.

Theory of operation: whoever shows figures calls `look`; that keeps one task running for `LOOKING_S` seconds more.
Each second it starts a reading of every admitted group that has none under way, each a task with its own deadline,
so that a slow engine delays no other and many viewers cost what one does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mentatd.cluster.routes import Route, verdict
from mentatd.errors import UpstreamError
from mentatd.http.client import Client
from mentatd.serve.enginekey import EngineKey
from mentatd.serve.status import Published
from mentatd.tasks import Tasks
from mentatd.wire.enginemetrics import Figures, MetricsReader, assign
from mentatd.wire.openai import ModelEntry

EVERY_S = 1.0
"""The least time between the starts of two readings of one group."""
TIMEOUT_S = 2.0
"""For one reading, from connect to the last figure."""
PAGE_LIMIT = 8 << 20
"""Bytes of one metrics page."""
FRESH_S = 5.0
"""A figure older than this is not known (wire.md section 6)."""
LOOKING_S = 5.0
"""How long a look lasts: a page that polls every second or two keeps it going, one that was closed does not."""
FIRST_S = 1.0
"""How long the first look after a pause waits for figures."""
_SLICE = 16 * 1024
"""Bytes that are taken apart in one turn of the loop: typically 0.1 ms, 2 ms at worst."""
_LATE_S = 0.005
"""How much later than due a round begins, so that no reading falls short of `EVERY_S`."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What is known of one group's engine."""

    at: float = float("-inf")
    """When its figures were read, monotonic seconds."""
    models: Mapping[str, Figures] = field(default_factory=dict)
    """By the names under which the engine lists its models."""
    error: str | None = None
    """Why the newest reading failed; the figures are then of the last good one."""


UNREAD = Reading()
"""Of an engine that nobody has asked."""


class Engines:
    """Owns the readings. To be used on the event loop only."""

    def __init__(
        self,
        cluster: Published,
        client: Client,
        key: EngineKey,
        *,
        every_s: float = EVERY_S,
        timeout_s: float = TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._client = client
        self._key = key
        self._every_s = every_s
        self._timeout_s = timeout_s
        self._clock = clock
        self._until = float("-inf")
        self._run_task: asyncio.Task[None] | None = None
        self._first_round = asyncio.Event()
        self._readings: dict[str, Reading] = {}
        self._begun: dict[str, float] = {}
        self._under_way: set[str] = set()
        self._tasks = Tasks("engines")
        self._closed = False

    async def close(self) -> None:
        """Read no more."""
        self._closed = True
        await self._tasks.close()

    def look(self) -> None:
        """Somebody looks now."""
        self._until = self._clock() + LOOKING_S
        if self._run_task is None and not self._closed:
            self._first_round.clear()
            self._run_task = self._tasks.start(self._run(), "look")

    async def looked(self) -> None:
        """Look, and return once there are figures where there can be: after `FIRST_S` at the latest."""
        self.look()
        try:
            async with asyncio.timeout(FIRST_S):
                await self._first_round.wait()
        except TimeoutError:
            pass

    @property
    def looking(self) -> bool:
        """Somebody looked in the last `LOOKING_S` seconds."""
        return self._run_task is not None

    def reading(self, group: str) -> Reading:
        """The newest of this group, as long as its figures are fresh; the error stays until the next reading."""
        reading = self._readings.get(group, UNREAD)
        if self._clock() - reading.at > FRESH_S and reading.models:
            return replace(reading, models={})
        return reading

    async def _run(self) -> None:
        try:
            await self._round()
            self._first_round.set()
            await asyncio.sleep(self._every_s + _LATE_S)
            while self._clock() < self._until:
                self._begin()
                await asyncio.sleep(self._every_s + _LATE_S)
        finally:
            self._run_task = None

    async def _round(self) -> None:
        """One round, waited for as long as a first look waits."""
        if readings := self._begin():
            await asyncio.wait(readings, timeout=FIRST_S)

    def _begin(self) -> list[asyncio.Task[None]]:
        """Start the readings that are due, and forget the groups that are gone."""
        now, states = self._clock(), self._cluster.table.groups
        self._readings = {name: reading for name, reading in self._readings.items() if name in states}
        self._begun = {name: at for name, at in self._begun.items() if name in states}
        started = []
        for name, state in states.items():
            due = now - self._begun.get(name, float("-inf")) >= self._every_s
            if state.route is None or not due or name in self._under_way or verdict(state, now=now):
                continue
            listed = state.probe.models if state.probe is not None else ()
            self._begun[name] = now
            self._under_way.add(name)
            started.append(self._tasks.start(self._read(state.route, listed), name))
        return started

    async def _read(self, route: Route, listed: Sequence[ModelEntry]) -> None:
        group, base = route.group, route.targets[0].url
        url = metrics_url(base)
        try:
            async with asyncio.timeout(self._timeout_s):
                page = await self._read_page(url, self._key.fields(group, base, route.trusted))
            unknown = None if page else f"{url}: no figures of an engine that is known here"
            self._readings[group] = Reading(self._clock(), assign(page, listed), unknown)
        except TimeoutError:
            self._failed(group, f"{url}: not whole within {self._timeout_s:g} s")
        except (UpstreamError, ValueError) as error:
            self._failed(group, str(error))
        finally:
            self._under_way.discard(group)

    def _failed(self, group: str, error: str) -> None:
        self._readings[group] = replace(self._readings.get(group, UNREAD), error=error)

    async def _read_page(self, url: str, fields: Mapping[str, str]) -> dict[str, Figures]:
        """Raises UpstreamError, and ValueError for an answer that is no page of metrics."""
        reader, size = MetricsReader(), 0
        async with self._client.stream("GET", url, fields=fields, deadline=self._timeout_s) as answer:
            if answer.status != 200:
                raise ValueError(f"{url}: HTTP {answer.status}")
            async for piece in answer.pieces():
                size += len(piece)
                if size > PAGE_LIMIT:
                    raise ValueError(f"{url}: over {PAGE_LIMIT} bytes")
                for start in range(0, len(piece), _SLICE):
                    reader.feed(piece[start : start + _SLICE])
                    await asyncio.sleep(0)  # the streams' turn
        return reader.end()


def metrics_url(base: str) -> str:
    """Where the engine with this base URL publishes its metrics: beside `/v1`, as every path outside it."""
    return base.rstrip("/").removesuffix("/v1") + "/metrics"
