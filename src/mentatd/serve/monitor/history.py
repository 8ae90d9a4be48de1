"""`/history.json`, and what is new in it: requests that ended, changes of the cluster, five minutes of series."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from mentatd.http.request import Request
from mentatd.serve.answering import Answering, Reply
from mentatd.serve.inflight import Row
from mentatd.serve.monitor.rendering import encode, encode_rows
from mentatd.serve.monitor.series import STEP_S, Series
from mentatd.serve.monitor.stats import identity
from mentatd.serve.monitor.timeline import Entry, Timeline
from mentatd.serve.monitor.traffic import Refused, Traffic, outcome_of

if TYPE_CHECKING:
    from mentatd.http.connection import Connection

T = TypeVar("T")

_MODELS_A_TURN = 8
"""Models whose 1200 values are rendered in one turn of the loop: about a millisecond."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How far somebody has read; see `History.recent`."""

    finished: int
    refused: int
    changes: int
    point: float
    """When the newest point was taken, Unix seconds; 0 before the first."""


class History:
    """Makes the documents out of what others keep."""

    def __init__(
        self,
        traffic: Traffic,
        timeline: Timeline,
        series: Series,
        answering: Answering,
        *,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Made on the running loop. `wall_clock` gives Unix seconds."""
        self._traffic = traffic
        self._timeline = timeline
        self._series = series
        self._answering = answering
        self._wall_clock = wall_clock
        self._loop_time = asyncio.get_running_loop().time

    def handle(self, request: Request, connection: Connection) -> None:
        """Answer `/history.json`."""
        self._answering.later(connection, self._answer(), "history")

    async def _answer(self) -> Reply:
        return Reply(200, await self.document(), fields=((b"Cache-Control", b"no-store"),))

    async def document(self) -> bytes:
        """The whole document."""
        self._timeline.look()
        at, offset = self._wall_clock(), self._offset()
        times, models = list(self._series.times), self._series.rows()
        head = {
            "at": round(at, 3),
            "finished": [_finished(entry, offset) for entry in self._traffic.last],
            "refused": [_refused(entry) for entry in self._traffic.last_refused],
            "changes": [_change(entry) for entry in self._timeline.last],
        }
        lists = await encode_rows(models, a_turn=_MODELS_A_TURN)
        return encode(head | {"series": {"step_s": STEP_S, "at": times, "models": lists}})

    def mark(self) -> Mark:
        """How far everything is now."""
        return Mark(
            finished=self._traffic.finished_total,
            refused=self._traffic.refused_total,
            changes=self._timeline.total,
            point=self._series.times[-1] if self._series.times else 0.0,
        )

    def recent(self, since: Mark) -> bytes | None:
        """What came since `since`, as far as it is kept; None when nothing did."""
        now = self.mark()
        if now == since:
            return None
        offset = self._offset()
        traffic, timeline = self._traffic, self._timeline
        return encode(
            {
                "at": round(self._wall_clock(), 3),
                "finished": [
                    _finished(e, offset) for e in _last(traffic.last, now.finished - since.finished)
                ],
                "refused": [_refused(e) for e in _last(traffic.last_refused, now.refused - since.refused)],
                "changes": [_change(e) for e in _last(timeline.last, now.changes - since.changes)],
                "point": None
                if now.point == since.point
                else {"at": now.point, "models": self._series.newest()},
            }
        )

    def _offset(self) -> float:
        """Unix time less the loop's time."""
        return self._wall_clock() - self._loop_time()


def _last(entries: Iterable[T], number: int) -> list[T]:
    return list(entries)[-number:] if number > 0 else []


def _finished(row: Row, offset: float) -> dict[str, Any]:
    ended = row.started if row.ended is None else row.ended
    return {
        **identity(row),
        "at": round(ended + offset, 3),
        "status": row.status,
        "outcome": outcome_of(row),
        "failure": row.failure,
        "ttfb_s": None if row.first_byte is None else round(row.first_byte - row.started, 4),
        "duration_s": round(ended - row.started, 4),
        "out_bytes": row.out_bytes,
    }


def _refused(entry: Refused) -> dict[str, Any]:
    return {
        "id": entry.id,
        "at": round(entry.at, 3),
        "status": entry.status,
        "outcome": entry.outcome,
        "failure": entry.failure,
        "client": entry.client,
        "path": entry.path,
        "model": entry.model,
        "group": entry.group,
    }


def _change(entry: Entry) -> dict[str, Any]:
    change = entry.change
    return {
        "id": entry.id,
        "at": round(entry.at, 3),
        "kind": change.kind,
        "subject": change.subject,
        "detail": change.detail,
    }
