"""`/stats.json`: what the router carries now, and what each engine does with it (wire.md section 6)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from mentatd import __version__
from mentatd.cluster.routes import GroupState, RouteTable, verdict
from mentatd.http.request import Request
from mentatd.serve.answering import Answering, Reply
from mentatd.serve.inflight import Inflight, Row
from mentatd.serve.monitor.engines import UNREAD, Engines, Reading
from mentatd.serve.monitor.rendering import encode, encode_rows
from mentatd.serve.monitor.traffic import PATH_LIMIT
from mentatd.serve.status import Published
from mentatd.wire.enginemetrics import NOTHING

if TYPE_CHECKING:
    from mentatd.http.connection import Connection


@dataclass(frozen=True, slots=True)
class Rendered:
    """The two lists of one moment."""

    models: msgspec.Raw
    """JSON, a row for each model and group."""
    requests: msgspec.Raw
    """JSON, a row for each request, oldest first, up to the limit that was asked for."""
    in_flight: int
    """All of them."""


class Stats:
    """Makes the document, and answers with it."""

    def __init__(
        self,
        cluster: Published,
        inflight: Inflight,
        engines: Engines,
        answering: Answering,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Made on the running loop, when the router starts. `wall_clock` gives Unix seconds."""
        self._cluster = cluster
        self._inflight = inflight
        self._engines = engines
        self._answering = answering
        self._clock = clock
        self._wall_clock = wall_clock
        self._loop_time = asyncio.get_running_loop().time
        self._started = clock()

    def handle(self, request: Request, connection: Connection) -> None:
        """Answer `/stats.json`; whoever asks for it looks at the engines."""
        self._answering.later(connection, self._answer(), "stats")

    async def _answer(self) -> Reply:
        await self._engines.looked()
        return Reply(200, self.document(await self.render()), fields=((b"Cache-Control", b"no-store"),))

    async def render(self, limit: int | None = None) -> Rendered:
        """The lists as of now, with the oldest `limit` requests or all."""
        rows, now = tuple(self._inflight.rows()), self._loop_time()
        models = model_rows(self._cluster.table, self._engines.reading, carried(rows), now=self._clock())
        return Rendered(
            models=await encode_rows(models),
            requests=await encode_rows(request_row(row, now) for row in islice(rows, limit)),
            in_flight=len(rows),
        )

    def document(self, rendered: Rendered) -> bytes:
        """The whole document."""
        return encode(
            {
                "uptime_s": round(self._clock() - self._started, 3),
                "at": round(self._wall_clock(), 3),
                "version": __version__,
                "in_flight": rendered.in_flight,
                "models": rendered.models,
                "requests": rendered.requests,
            }
        )


def carried(rows: Iterable[Row]) -> Mapping[tuple[str, str], int]:
    """How many requests are in flight, by model and group."""
    return Counter((row.model, row.group) for row in rows)


def model_rows(
    table: RouteTable,
    reading: Callable[[str], Reading],
    inflight: Mapping[tuple[str, str], int],
    *,
    now: float,
) -> Iterator[dict[str, Any]]:
    """A row for each model of each group that is admitted at `now`, one row for each other group."""
    loads: Counter[str] = Counter()
    for (_, group), count in inflight.items():
        loads[group] += count
    for name, state in table.groups.items():
        why_not = verdict(state, now=now)
        if why_not is not None or state.probe is None:
            yield _row(name, state, why_not, UNREAD, loads[name])
            continue
        found = reading(name)
        for model in dict.fromkeys(entry.id for entry in state.probe.models):
            yield _row(model, state, None, found, inflight.get((model, name), 0))


def _row(model: str, state: GroupState, why_not: str | None, found: Reading, load: int) -> dict[str, Any]:
    figures = found.models.get(model, NOTHING)
    serving = state.route if why_not is None else None
    return {
        "model": model,
        "group": state.group.name,
        "provider": state.group.provider,
        "healthy": why_not is None,
        "why_not": why_not,
        "url": None if serving is None else serving.targets[0].url,
        "inflight": load,
        "running": figures.running,
        "waiting": figures.waiting,
        "kv": figures.kv,
        "prompt_tokens": figures.prompt_tokens,
        "generation_tokens": figures.generation_tokens,
        "preemptions": figures.preemptions,
        "ttft_s": figures.ttft_s,
        "queue_s": figures.queue_s,
        "itl_s": figures.itl_s,
        "finished": figures.finished,
        "engine_error": found.error,
    }


def request_row(row: Row, now: float) -> dict[str, Any]:
    """A request in flight at loop time `now`."""
    first = row.first_byte
    return {
        **identity(row),
        "age_s": round(now - row.started, 3),
        "state": "waiting" if first is None else "streaming",
        "ttfb_s": None if first is None else round(first - row.started, 4),
        "out_bytes": row.out_bytes,
    }


def identity(row: Row) -> dict[str, Any]:
    """What is known of a request when it is routed."""
    return {
        "id": row.id,
        "model": row.model,
        "group": row.group,
        "address": row.address,
        "client": row.client,
        "path": row.path[:PATH_LIMIT],
        "prompt_bytes": row.prompt_bytes,
        "stream": row.stream,
    }
