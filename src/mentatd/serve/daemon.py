"""One watched daemon: `/status` polled, and read again at once when `/events` says so."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from mentatd.cluster.watchset import Claim, Finding
from mentatd.errors import MentatError, WireError
from mentatd.http.client import Client
from mentatd.log import log
from mentatd.serve.events import Events
from mentatd.tasks import Tasks
from mentatd.wire.snapshot import Problem, Reading, View, read_snapshot

POLL_TIMEOUT_S = 5.0
"""For one poll; less where the interval is short, so that a dead address is found out before its view is stale, and
another of the node is watched in time."""
_POLL_LEAST_S = 1.0
SNAPSHOT_LIMIT = 64 << 20
"""Bytes of one snapshot; a bigger one is a failed poll."""
GATHER_S = 0.02
"""How long an event waits for the rest of its burst: what happens to a group is several events."""
REREAD_S = 0.25
"""The least time from one read to the next that an event asks for: a longer burst costs two, and its last event is
still in the table within half a second."""
LARGE = 128 << 10
"""Bytes from which a snapshot is read in a thread, so that requests go on meanwhile: read anew, one takes 6 ms."""
GROUPS_LIMIT = 2048
"""Groups of one daemon that are used: each costs every rebuild of the table a little, and a prober."""
PROBLEMS_SAID = 20
"""Log lines about one snapshot's problems at one time."""


class Daemon:
    """The watch on one address. `changed` is called after each poll, good or bad, from the event loop."""

    def __init__(
        self,
        claim: Claim,
        client: Client,
        changed: Callable[[Daemon], None],
        *,
        poll_interval: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.claim = claim
        """Why it is watched; replaced when the reasons change."""
        self.view: View | None = None
        """The newest that was read; the same object for as long as the daemon says the same."""
        self.read_at: float | None = None
        """When that was, by `clock`."""
        self.error: str | None = None
        """Why the last poll failed; None after a good one and before the first."""
        self.answered_at = clock()
        """When it last answered well, or when the watch began."""
        self.events = Events(claim.address, self._event)
        self._client = client
        self._changed = changed
        self._poll_interval = poll_interval
        self._clock = clock
        self._failures = 0
        self._reading: Reading | None = None
        self._asked = asyncio.Event()
        self._running: tuple[asyncio.Task[None], ...] = ()

    @property
    def connected(self) -> bool:
        """The last poll succeeded."""
        return self.view is not None and self.error is None

    def finding(self) -> Finding:
        """What the watch has shown. One lost poll of a daemon that worked does not make it failing."""
        state: Literal["untried", "working", "failing"]
        if self._failures > (0 if self.view is None else 1):
            state = "failing"
        else:
            state = "untried" if self.view is None else "working"
        return Finding(self.view.node_id if self.view else "", state)

    def start(self, tasks: Tasks) -> None:
        """Begin to watch; `tasks` is whose the work is."""
        address = self.claim.address
        self._running = (
            tasks.start(self._poll(), f"poll {address}"),
            tasks.start(self.events.run(), f"events {address}"),
        )

    def stop(self) -> None:
        """Watch no more; `changed` is not called again."""
        for task in self._running:
            task.cancel()

    def _event(self) -> None:
        self._asked.set()

    async def _poll(self) -> None:
        while True:
            self._asked.clear()
            began = self._clock()
            try:
                reading = await self._read()
            except MentatError as error:
                self._failed(str(error))
            else:
                self._succeeded(reading)
            self._changed(self)
            await self._wait(began)

    async def _wait(self, began: float) -> None:
        """Until the next poll is due, or an event has come and the last poll began long enough ago."""
        try:
            async with asyncio.timeout(began + self._poll_interval - self._clock()):
                await self._asked.wait()
        except TimeoutError:
            return
        await asyncio.sleep(max(GATHER_S, began + REREAD_S - self._clock()))

    async def _read(self) -> Reading:
        answer = await self._client.ask(
            "GET",
            f"http://{self.claim.address}/status",
            deadline=min(POLL_TIMEOUT_S, max(self._poll_interval / 2, _POLL_LEAST_S)),
            limit=SNAPSHOT_LIMIT,
            retry_reused=True,
        )
        if answer.status != 200:
            raise WireError(f"HTTP {answer.status}")
        if len(answer.body) < LARGE:
            return _read_bounded(answer.body, self._reading)
        return await asyncio.to_thread(_read_bounded, answer.body, self._reading)

    def _succeeded(self, reading: Reading) -> None:
        if self._failures:
            log("daemon_reachable", daemon=self.claim.address)
            self.events.retry()
        self.view = reading.view
        self.read_at = self.answered_at = self._clock()
        self.error = None
        self._failures = 0
        self._say(reading.problems, () if self._reading is None else self._reading.problems)
        self._reading = reading

    def _say(self, problems: Sequence[Problem], before: Sequence[Problem]) -> None:
        """Log what is wrong with a snapshot and was not with the one before."""
        known = frozenset(before)
        new = [problem for problem in problems if problem not in known]
        for problem in new[:PROBLEMS_SAID]:
            log("snapshot_problem", daemon=self.claim.address, path=problem.path, problem=problem.message)
        if len(new) > PROBLEMS_SAID:
            log("snapshot_problem", daemon=self.claim.address, more=len(new) - PROBLEMS_SAID)

    def _failed(self, error: str) -> None:
        if not self._failures:
            log("daemon_unreachable", daemon=self.claim.address, error=error)
        self._failures += 1
        self.error = error


def _read_bounded(body: bytes, before: Reading | None) -> Reading:
    """Raises WireError."""
    reading = read_snapshot(body, before)
    groups = reading.view.groups
    if len(groups) <= GROUPS_LIMIT:
        return reading
    kept = {name: groups[name] for name in sorted(groups)[:GROUPS_LIMIT]}
    problem = Problem("groups", f"{len(groups)} groups; the first {GROUPS_LIMIT} by name are used")
    return replace(reading, view=replace(reading.view, groups=kept), problems=(*reading.problems, problem))
