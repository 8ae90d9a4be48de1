"""`/metrics`: the router's own counters in Prometheus' formats. docs/metrics.md lists every family.

A snapshot is taken on the event loop and rendered in a thread: thousands of lines take tens of milliseconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from mentatd.http.request import Request
from mentatd.serve.answering import Answering, Reply
from mentatd.serve.monitor.state import Sources, State, take

if TYPE_CHECKING:
    from mentatd.http.connection import Connection


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
        self._answering.later(connection, self._answer(accept), "metrics")

    async def _answer(self, accept: str) -> Reply:
        self._sources.timeline.look()
        state = take(self._sources, self._clock())
        body, content_type = await asyncio.to_thread(_render, state, accept)
        return Reply(200, body, content_type.encode())


def _render(state: State, accept: str) -> tuple[bytes, str]:
    # not on top: a router that is never scraped does without the library
    from mentatd.serve.monitor.families import render

    return render(state, accept)
