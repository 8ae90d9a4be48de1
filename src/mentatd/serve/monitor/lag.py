"""How late the event loop is: what holds it up holds up every stream."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

from mentatd.serve.monitor.traffic import Distribution

EVERY_S = 0.1
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
"""Upper bounds in seconds. The loop's own timers are exact to a millisecond."""


class Lag:
    """Asks to be woken ten times a second and measures how much later it was."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.seen = Distribution(len(BUCKETS))
        """Every sample so far."""
        self.due = math.inf
        """When it is to be woken next, by `clock`; never, before the start and after the end."""
        self.late = 0.0
        """How late it was the last time, in seconds."""
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin, on the running loop."""
        self.due = self._clock() + EVERY_S
        self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._woken)

    def close(self) -> None:
        """End; harmless when it was not started."""
        self.due = math.inf
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _woken(self) -> None:
        self.late = max(0.0, self._clock() - self.due)
        self.seen.add(self.late, BUCKETS)
        self.start()
