"""Looks again and again at where the announced ports are bound, and says what it finds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from mentatd.log import log
from mentatd.register.binding import Narrow, NeverListened, Watched, Widened, look
from mentatd.register.procnet import TABLES, listening

LOOK_EVERY_S = 2.0
"""A server that has just bound is judged at most this much later."""

_MAX_TABLE = 16 * 1024 * 1024
"""Bytes read of one table: some hundred thousand sockets. What is past them is not looked at."""


def read_tables() -> list[str]:
    """The kernel's tables that this box has. Blocking: they grow with the box's connections."""
    found = []
    for path in TABLES:
        try:
            with Path(path).open() as table:
                found.append(table.read(_MAX_TABLE))
        except OSError:
            continue
    return found


class BindWatch:
    """Watches the ports of one agent's services; `notes` is always its newest finding."""

    def __init__(
        self,
        ports: Mapping[str, int],
        *,
        tables: Callable[[], list[str]] = read_tables,
        clock: Callable[[], float] = time.monotonic,
        every_s: float = LOOK_EVERY_S,
    ) -> None:
        """`ports` by service name; `tables` is called in a thread."""
        self._ports = ports
        self._tables = tables
        self._clock = clock
        self._every_s = every_s
        self._watched = dict.fromkeys(ports, Watched())

    @property
    def notes(self) -> Mapping[str, str]:
        """The note in force for each service, empty where there is nothing to say."""
        return {service: watched.note for service, watched in self._watched.items()}

    async def run(self, changed: Callable[[], Awaitable[None]]) -> None:
        """Look for ever, and await `changed` after each look that changed a note."""
        started = self._clock()
        while self._ports:
            bound = listening(await asyncio.to_thread(self._tables))
            if self._look(bound, self._clock() - started):
                await changed()
            await asyncio.sleep(self._every_s)

    def _look(self, bound: Mapping[int, tuple[str, ...]], waited_s: float) -> bool:
        """One look at every port; True when a note changed."""
        before = self.notes
        for service, port in self._ports.items():
            watched, finding = look(self._watched[service], bound.get(port, ()), waited_s)
            self._watched[service] = watched
            match finding:
                case Narrow(note):
                    log("service_bind_narrow", service=service, port=port, note=note)
                case Widened():
                    log("service_bind_widened", service=service, port=port)
                case NeverListened():
                    log("service_never_listened", service=service, port=port, waited_s=round(waited_s))
                case None:
                    pass
        return self.notes != before
