"""What became of every request: the counters for Prometheus, and the last ones as they were.

Two observers feed it: `finished` for each request that went to an engine, `refused` for each that the router
answered itself. Both cost about a microsecond; nothing is rendered before somebody asks.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from mentatd.errors import Refusal
from mentatd.http.request import Request
from mentatd.serve.inflight import Row

FINISHED_KEPT: Final = 200
REFUSED_KEPT: Final = 50
LINES_KEPT: Final = 1024
"""Pairs of model and group that are counted apart; further ones are counted as `OTHER`."""
TEXT_LIMIT: Final = 500
"""A text from outside that is kept is cut at this many characters."""
PATH_LIMIT: Final = 200
"""A path that is shown is cut at this many characters."""
WINDOW_KEPT: Final = 1024
"""First bytes of one line that are kept for the next point of its series; further ones add nothing to a quantile."""
UNKNOWN: Final = "(unknown)"
"""Stands for every model name that nothing serves."""
OTHER: Final = "(other)"
"""Stands for models and groups past `LINES_KEPT`."""

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 1800.0)
"""Upper bounds in seconds, from an embedding on a small model to a long generation's deadline."""

_COUNTED_ELSEWHERE: Final = frozenset({"engine_unreachable", "engine_failed", "engine_timeout"})
"""Refusals of forwarded requests: these have a row, whose end `finished` sees."""


class Distribution:
    """A histogram of durations: how many fell at or below each bound, and their sum."""

    __slots__ = ("counts", "total")

    def __init__(self, buckets: int = len(BUCKETS)) -> None:
        self.counts = [0] * (buckets + 1)
        """By bucket, not accumulated; the last is for what is above every bound."""
        self.total = 0.0
        """Seconds."""

    def add(self, seconds: float, bounds: tuple[float, ...] = BUCKETS) -> None:
        """Count one."""
        self.counts[bisect_left(bounds, seconds)] += 1
        self.total += seconds


@dataclass(slots=True, eq=False)
class Line:
    """The counters of one model on one group."""

    outcomes: dict[str, int] = field(default_factory=dict)
    """Requests by what became of them."""
    ttfb: Distribution = field(default_factory=Distribution)
    """Of those whose body began, as in `Row.first_byte`."""
    duration: Distribution = field(default_factory=Distribution)
    in_bytes: int = 0
    """Of requests' bodies."""
    out_bytes: int = 0
    """Of answers' bodies."""
    window: list[tuple[float, float]] = field(default_factory=list)
    """When the first byte came (loop time) and after how long, of what ended since the series took it last."""


@dataclass(slots=True, eq=False)
class Refused:
    """One request that the router answered itself."""

    id: str
    """Unique in this process, and none of a `Row`."""
    at: float
    """Unix seconds."""
    status: int
    outcome: str
    """The refusal's code."""
    failure: str
    """Its message."""
    client: str
    """The client's address; empty where no head could be read."""
    path: str
    model: str
    """Empty where none was named."""
    group: str
    """Empty where it is about none."""


def outcome_of(row: Row) -> str:
    """What became of a request that ended: the word that counters and documents have for it."""
    status = row.status
    if row.failure is None:
        return "ok" if status < 400 else "client_error" if status < 500 else "engine_error"
    match status:
        case 499:
            return "client_left"
        case 502:
            return "failed" if row.sent else "unreachable"
        case 504:
            return "timeout"
        case _:
            return "cut"


class Traffic:
    """Counts and remembers requests. Bounded whatever clients ask for."""

    def __init__(self, *, wall_clock: Callable[[], float] = time.time) -> None:
        """`wall_clock` gives Unix seconds."""
        self.lines: dict[tuple[str, str], Line] = {}
        """By model and group."""
        self.refusals: dict[tuple[str, str, str], int] = {}
        """Refused requests by model, group and code."""
        self.finished_total = 0
        """Requests that ended; `last` holds the newest of them."""
        self.refused_total = 0
        self.last: deque[Row] = deque(maxlen=FINISHED_KEPT)
        self.last_refused: deque[Refused] = deque(maxlen=REFUSED_KEPT)
        self._wall_clock = wall_clock
        self._numbers = count(1)

    def finished(self, row: Row) -> None:
        """The observer of `Inflight`."""
        line = self.lines.get((row.model, row.group)) or self._new_line(row.model, row.group)
        outcome = outcome_of(row)
        line.outcomes[outcome] = line.outcomes.get(outcome, 0) + 1
        line.in_bytes += row.prompt_bytes
        line.out_bytes += row.passed
        if row.first_byte is not None:
            ttfb = row.first_byte - row.started
            line.ttfb.add(ttfb)
            if len(line.window) < WINDOW_KEPT:
                line.window.append((row.first_byte, ttfb))
        if row.ended is not None:
            line.duration.add(row.ended - row.started)
        if len(row.path) > PATH_LIMIT:
            row.path = row.path[:PATH_LIMIT]
        if row.failure is not None:
            row.failure = row.failure[:TEXT_LIMIT]
        self.finished_total += 1
        self.last.append(row)

    def _new_line(self, model: str, group: str) -> Line:
        key = (model, group) if len(self.lines) < LINES_KEPT else (OTHER, OTHER)
        return self.lines.setdefault(key, Line())

    def refused(self, refusal: Refusal, request: Request | None, forwarded: bool) -> None:
        """The observer of the handler's refusals."""
        if forwarded and refusal.code in _COUNTED_ELSEWHERE:
            return
        model = UNKNOWN if refusal.code == "model_not_found" else refusal.model
        key = (model, refusal.group, refusal.code)
        if key not in self.refusals and len(self.refusals) >= LINES_KEPT:
            key = (OTHER, OTHER, refusal.code)
        self.refusals[key] = self.refusals.get(key, 0) + 1
        self.refused_total += 1
        self.last_refused.append(
            Refused(
                id=f"r{next(self._numbers):x}",
                at=self._wall_clock(),
                status=refusal.status,
                outcome=refusal.code,
                failure=refusal.message[:TEXT_LIMIT],
                client="" if request is None else request.peer,
                path="" if request is None else request.path[:PATH_LIMIT],
                model=model,
                group=refusal.group,
            )
        )
