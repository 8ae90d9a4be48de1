"""`/metrics`: the router's own counters in Prometheus' formats. docs/metrics.md lists every family.

A page of some thousand lines may not hold up the streams: it is written in slices, between which the loop goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from itertools import chain, islice
from typing import TYPE_CHECKING

from mentatd.http.request import Request
from mentatd.serve.answering import Answering, Reply
from mentatd.serve.monitor.families import families, process_families
from mentatd.serve.monitor.process import read_process
from mentatd.serve.monitor.state import Sources, take
from mentatd.serve.monitor.textformat import content_type, page

if TYPE_CHECKING:
    from mentatd.http.connection import Connection

PIECES_A_TURN = 100
"""Pieces of the page, of up to twenty lines each: half a millisecond."""


class Exposition:
    """Answers scrapes."""

    def __init__(
        self, sources: Sources, answering: Answering, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sources = sources
        self._answering = answering
        self._clock = clock

    def handle(self, request: Request, connection: Connection) -> None:
        """Answer `/metrics`, in OpenMetrics where the Accept field asks for it."""
        accept = (request.get(b"accept") or b"").decode("latin-1")
        self._answering.later(connection, self._answer(content_type(accept)), "metrics")

    async def _answer(self, kind: str) -> Reply:
        process = await asyncio.to_thread(read_process)
        state = take(self._sources, self._clock())
        told = chain(families(state), () if process is None else process_families(process))
        pieces: list[bytes] = []
        waiting = page(told, kind)
        while batch := list(islice(waiting, PIECES_A_TURN)):
            pieces += batch
            await asyncio.sleep(0)
        return Reply(200, b"".join(pieces), kind.encode())
