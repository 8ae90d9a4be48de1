"""Five minutes of each model, one point each two seconds, for small charts.

The router's own figures are always there. The engine's are there while somebody looks; a gap is NaN here and null in
JSON. All models share the times of the points, so that a chart needs one axis.
"""

from __future__ import annotations

import asyncio
import math
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from mentatd.cluster.routes import RouteTable, verdict
from mentatd.serve.inflight import Inflight, Row
from mentatd.serve.monitor.engines import Engines
from mentatd.serve.monitor.stats import carried
from mentatd.serve.monitor.traffic import Traffic
from mentatd.serve.status import Published
from mentatd.wire.enginemetrics import NOTHING, Figures

STEP_S = 2.0
POINTS = 150
"""Five minutes."""
MODELS_KEPT = 256
"""Models that are followed, each 10 kB: pairs of model and group. Those that the router carries come first."""
GAP_S = 10.0
"""Two readings of a counter that are further apart tell no rate: nobody was looking between them."""

COLUMNS = (
    "proxied",
    "running",
    "waiting",
    "kv",
    "prompt_tps",
    "generation_tps",
    "ttfb_p50_s",
    "ttfb_p95_s",
)
"""Names of a point's values, in order; docs/http.md says what each is."""

Key = tuple[str, str]
"""Model and group."""
Point = tuple[float, ...]
"""One value for each of `COLUMNS`; NaN where there is nothing to tell."""

_NOTHING: Point = (math.nan,) * len(COLUMNS)
_IDLE: Point = (0.0, *_NOTHING[1:])
"""Of a model that nothing is asked of and nothing is known of."""


@dataclass(frozen=True, slots=True)
class Counted:
    """An engine's counters of tokens at one reading, and the rates since the reading before."""

    at: float
    """When they were read, monotonic seconds."""
    prompt: float | None
    generation: float | None
    prompt_tps: float = math.nan
    """Tokens per second since the reading before."""
    generation_tps: float = math.nan


def rate(before: float | None, after: float | None, seconds: float) -> float:
    """Growth of a counter per second. NaN where it is not known, went back (the engine restarted), or the readings
    are too far apart."""
    if before is None or after is None or not 0 < seconds <= GAP_S or after < before:
        return math.nan
    return round((after - before) / seconds, 2)


def count_tokens(before: Counted | None, at: float, figures: Figures) -> Counted:
    """The counters of a reading, with the rates since `before`; the same reading keeps its rates."""
    if before is not None and before.at == at:
        return before
    now = Counted(at, figures.prompt_tokens, figures.generation_tokens)
    if before is None:
        return now
    seconds = at - before.at
    return Counted(
        now.at,
        now.prompt,
        now.generation,
        rate(before.prompt, now.prompt, seconds),
        rate(before.generation, now.generation, seconds),
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value that this share of a sorted list does not exceed (nearest rank); NaN of an empty one."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan


def followed(table: RouteTable, carrying: Mapping[Key, int], *, now: float) -> Iterator[Key]:
    """The models worth a point: those that are carried now, then those that can be."""
    yield from carrying
    for name, state in table.groups.items():
        if state.probe is not None and verdict(state, now=now) is None:
            for entry in state.probe.models:
                yield entry.id, name


class Series:
    """Owns the points."""

    def __init__(
        self,
        cluster: Published,
        inflight: Inflight,
        engines: Engines,
        traffic: Traffic,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Made on the running loop. `wall_clock` gives Unix seconds."""
        self.times: deque[float] = deque(maxlen=POINTS)
        """Unix seconds of each point, oldest first."""
        self._cluster = cluster
        self._inflight = inflight
        self._engines = engines
        self._traffic = traffic
        self._clock = clock
        self._wall_clock = wall_clock
        self._loop_time = asyncio.get_running_loop().time
        self._moments: deque[_Moment] = deque(maxlen=POINTS)
        self._last_told: dict[Key, int] = {}
        self._counted: dict[Key, Counted] = {}
        self._number = 0
        self._since = self._loop_time()

    async def run(self) -> None:
        """Take a point each `STEP_S`, until cancelled."""
        while True:
            await asyncio.sleep(STEP_S)
            self.take()

    def take(self) -> None:
        """Take one point of every model that is followed."""
        rows, until = tuple(self._inflight.rows()), self._loop_time()
        carrying = carried(rows)
        firsts = self._first_bytes(rows, until)
        self._number += 1
        self.times.append(round(self._wall_clock(), 3))
        told: dict[Key, Point] = {}
        for key in followed(self._cluster.table, carrying, now=self._clock()):
            if key in told:
                continue
            if len(told) == MODELS_KEPT:
                break
            told[key] = self._point(key, carrying.get(key, 0), sorted(firsts.get(key, ())))
        self._counted = {key: counted for key, counted in self._counted.items() if key in told}
        self._store(told)

    def _first_bytes(self, rows: Sequence[Row], until: float) -> dict[Key, list[float]]:
        """Times to the first byte of the answers that began since the last point."""
        since, self._since = self._since, until
        found: dict[Key, list[float]] = {}
        for key, line in self._traffic.lines.items():
            if line.window:
                found[key] = [ttfb for at, ttfb in line.window if at > since]
                line.window.clear()
        for row in rows:
            if row.first_byte is not None and row.first_byte > since:
                found.setdefault((row.model, row.group), []).append(row.first_byte - row.started)
        return found

    def _point(self, key: Key, proxied: int, ttfbs: Sequence[float]) -> Point:
        model, group = key
        reading = self._engines.reading(group)
        figures = reading.models.get(model, NOTHING)
        if figures is NOTHING and not proxied and not ttfbs:
            return _IDLE
        prompt_tps = generation_tps = math.nan
        if figures is not NOTHING:
            counted = count_tokens(self._counted.get(key), reading.at, figures)
            self._counted[key] = counted
            prompt_tps, generation_tps = counted.prompt_tps, counted.generation_tps
        point = (
            float(proxied),
            _value(figures.running),
            _value(figures.waiting),
            _value(figures.kv),
            prompt_tps,
            generation_tps,
            quantile(ttfbs, 0.5),
            quantile(ttfbs, 0.95),
        )
        return tuple(round(value, 4) for value in point)

    def _store(self, told: Mapping[Key, Point]) -> None:
        places = self._moments[-1].places if self._moments else {}
        if places.keys() != told.keys():
            places = {key: number * len(COLUMNS) for number, key in enumerate(told)}
        values = array("d", chain.from_iterable(map(told.__getitem__, places)))
        self._moments.append(_Moment(places, values))
        for key in told:
            if key not in self._last_told:
                self._make_room()
            self._last_told[key] = self._number
        for key in [key for key, last in self._last_told.items() if self._number - last >= POINTS]:
            del self._last_told[key]

    def _make_room(self) -> None:
        """Forget the model that was told of longest ago, if there are as many as may be."""
        if len(self._last_told) >= MODELS_KEPT:
            del self._last_told[min(self._last_told, key=self._last_told.__getitem__)]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Each model with its lists, as long as `times` is now; one that would hold nothing is None.

        All of them are of this moment, however long it takes to go through them.
        """
        moments, keys = tuple(self._moments), tuple(self._last_told)
        return (_row(key, [moment.point(key) for moment in moments]) for key in keys)

    def newest(self) -> list[dict[str, Any]]:
        """Each model with its values at the last point."""
        return [
            {"model": key[0], "group": key[1]} | dict(zip(COLUMNS, self._moments[-1].point(key), strict=True))
            for key in self._last_told
        ]


@dataclass(frozen=True, slots=True)
class _Moment:
    """The points of one time, side by side: what is written each two seconds is written in one place."""

    places: Mapping[Key, int]
    """Where in `values` the point of each model begins. The same object as long as the models are."""
    values: array[float]

    def point(self, key: Key) -> Sequence[float]:
        """Of a model that was not told of then, NaN."""
        place = self.places.get(key)
        return _NOTHING if place is None else self.values[place : place + len(COLUMNS)]


def _value(figure: float | None) -> float:
    return math.nan if figure is None else figure


def _row(key: Key, points: Sequence[Sequence[float]]) -> dict[str, Any]:
    return _named(key, [_list(column) for column in zip(*points, strict=True)])


def _named(key: Key, values: Sequence[Any]) -> dict[str, Any]:
    """`values`: one for each column."""
    return {"model": key[0], "group": key[1]} | dict(zip(COLUMNS, values, strict=True))


def _list(values: Sequence[float]) -> list[float] | None:
    return list(values) if any(value == value for value in values) else None
