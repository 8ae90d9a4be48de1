"""Comments for streaming clients whose engine says nothing yet, so that neither they nor what stands between give up.

One coarse timer looks at all requests; nothing runs for each request or chunk.
"""

from __future__ import annotations

import asyncio

from mentatd.serve.inflight import Inflight

_LOOKS = 10
"""Looks in one interval: a comment is late by a tenth of it at most."""
_SHORTEST_S, _LONGEST_S = 0.01, 1.0
"""Of the time between two looks."""


class Keepalives:
    """Tells the carriers of silent streams, again and again, that another interval is over."""

    def __init__(self, inflight: Inflight, interval_s: float) -> None:
        """`interval_s`: SSE_KEEPALIVE_S; 0: never."""
        self._inflight = inflight
        self._interval_s = interval_s
        self._tick_s = min(max(interval_s / _LOOKS, _SHORTEST_S), _LONGEST_S)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin, on the running loop."""
        if self._interval_s:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._tick_s, self._look, loop)

    def close(self) -> None:
        """Tell nobody any more; harmless when it was not started."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(self._tick_s, self._look, loop)
        now = loop.time()
        for carrier in self._inflight.silent_streams(since=now - self._interval_s):
            carrier.keep_waiting(now, self._interval_s)
