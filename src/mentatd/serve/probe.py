"""The prober: asks each group's candidates for their models, keeps the first that answers, falls through,
promotes (manual "Candidate addresses").

Every group with candidates is probed, whether its other gates are open or not: the moment an actor runs, the
answer is already there. Each group has a task of its own, so that a dead one delays no other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from mentatd.cluster.admission import ERROR_LIMIT, Attempt, Probe
from mentatd.cluster.candidates import plan, promotion_due, questions_answer
from mentatd.cluster.groups import Group
from mentatd.cluster.routes import RouteTable
from mentatd.cluster.targets import parse_target
from mentatd.errors import UpstreamError
from mentatd.http.client import Client
from mentatd.log import log
from mentatd.serve.cluster import Cluster
from mentatd.serve.enginekey import EngineKey
from mentatd.tasks import Tasks
from mentatd.wire.openai import ModelEntry, read_models

ANSWER_LIMIT = 16 << 20
"""Bytes of one model list."""
LARGE = 256 << 10
"""Bytes from which a model list is read in a thread, so that requests go on meanwhile."""
SPACING_S = 0.5
"""The least time between the starts of two rounds of one group, however often it is woken; a shorter
PROBE_INTERVAL_S is kept, for a result is valid only a few intervals long."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The prober's times, in seconds."""

    interval: float
    """PROBE_INTERVAL_S, from the start of one round to the start of the next."""
    timeout: float
    """PROBE_TIMEOUT_S, for one candidate."""
    promote: float
    """PROBE_PROMOTE_S."""


class Prober:
    """Follows the table: one prober a group, for as long as the group has candidates."""

    def __init__(
        self,
        cluster: Cluster,
        client: Client,
        pace: Pace,
        *,
        key: EngineKey,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._key = key
        self._client = client
        self._pace = pace
        self._clock = clock
        self._groups: dict[str, _GroupProber] = {}
        self._tasks = Tasks("probe")
        cluster.on_suspect(self._suspected)

    def start(self) -> None:
        """Begin to follow."""
        self._tasks.start(self._run(), "follow")

    async def close(self) -> None:
        """End every probe."""
        await self._tasks.close()

    async def _run(self) -> None:
        seen = self._cluster.changes.number - 1
        while True:
            seen = await self._cluster.changes.after(seen)
            self._follow(self._cluster.table)

    def _follow(self, table: RouteTable) -> None:
        wanted = {name: state.group for name, state in table.groups.items() if state.group.candidates}
        for name in [name for name in self._groups if name not in wanted]:
            self._groups.pop(name).stop()
        for name, group in wanted.items():
            prober = self._groups.get(name)
            if prober is None:
                ask = _Asker(self._client, self._key, self._pace.timeout, self._clock)
                prober = self._groups[name] = _GroupProber(
                    group, ask, self._cluster.put_probe, self._pace, self._clock
                )
                prober.start(self._tasks)
            elif prober.group is not group:
                self._regroup(prober, group, admitted=table.groups[name].route is not None)

    def _regroup(self, prober: _GroupProber, group: Group, *, admitted: bool) -> None:
        """The group has changed: look at once where that matters, and end a round that asks what is no longer a
        candidate."""
        before, prober.group = prober.group, group
        if before.candidates != group.candidates:
            prober.stop()
            prober.start(self._tasks)
        elif questions_answer(before, group, admitted=admitted):
            prober.wake()

    def _suspected(self, group: str, url: str) -> None:
        prober = self._groups.get(group)
        if prober is not None and url in prober.group.candidates:
            prober.wake()


class _Asker:
    """Asks one candidate of a group."""

    def __init__(self, client: Client, key: EngineKey, timeout: float, clock: Callable[[], float]) -> None:
        self._client = client
        self._key = key
        self._timeout = timeout
        self._clock = clock

    async def ask(self, group: Group, url: str) -> tuple[Attempt, tuple[ModelEntry, ...]]:
        """The attempt and, where it went well, the models, of which there is at least one."""
        began = self._clock()
        models: tuple[ModelEntry, ...] = ()
        error: str | None = None
        try:
            models = await self._models(group, url)
        except (UpstreamError, ValueError) as failure:
            reason = failure.reason if isinstance(failure, UpstreamError) else str(failure)
            error = reason[:ERROR_LIMIT]
        now = self._clock()
        return Attempt(url=url, error=error, seconds=now - began, at=now), models

    async def _models(self, group: Group, url: str) -> tuple[ModelEntry, ...]:
        """Raises UpstreamError, or ValueError for a URL that is no base and an answer that is no list of models."""
        parse_target(url)
        answer = await self._client.ask(
            "GET",
            f"{url.rstrip('/')}/models",
            deadline=self._timeout,
            limit=ANSWER_LIMIT,
            fields=self._key.fields(group.name, url, group.trusted_candidates),
            retry_reused=True,
        )
        if answer.status in (401, 403):
            raise ValueError(f"HTTP {answer.status}: {self._key.hint(url, group.trusted_candidates)}")
        if answer.status != 200:
            raise ValueError(f"HTTP {answer.status}")
        if len(answer.body) < LARGE:
            return read_models(answer.body, group.name)
        return await asyncio.to_thread(read_models, answer.body, group.name)


class _GroupProber:
    """The rounds of one group."""

    def __init__(
        self,
        group: Group,
        asker: _Asker,
        publish: Callable[[str, Probe], None],
        pace: Pace,
        clock: Callable[[], float],
    ) -> None:
        self.group = group
        self._asker = asker
        self._publish = publish
        self._pace = pace
        self._clock = clock
        self._in_use: str | None = None
        self._ok: bool | None = None
        self._walked_at = float("-inf")
        self._began = float("-inf")
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, tasks: Tasks) -> None:
        """Begin a round now."""
        self._task = tasks.start(self._run(), self.group.name)

    def stop(self) -> None:
        """End the round in progress; what it found is not published."""
        if self._task is not None:
            self._task.cancel()

    def wake(self) -> None:
        """Do not wait for the next round's time."""
        self._woken.set()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            rest = self._began + min(SPACING_S, self._pace.interval) - self._clock()
            if rest > 0:
                await asyncio.sleep(rest)
            self._woken.clear()
            self._began = self._clock()
            await self._round(self.group.candidates)
            timer = loop.call_later(self._began + self._pace.interval - self._clock(), self._woken.set)
            try:
                await self._woken.wait()
            finally:
                timer.cancel()

    async def _round(self, candidates: tuple[str, ...]) -> None:
        promote = promotion_due(
            candidates,
            self._in_use,
            walked_at=self._walked_at,
            now=self._began,
            promote_s=self._pace.promote,
        )
        order = plan(candidates, self._in_use, promote=promote)
        # The addresses above the one in use are asked together: dead ones must not make its result stale.
        above = order.index(self._in_use) if promote and self._in_use is not None else 0
        attempts, models = await self._walk(order[:above], order[above:])
        if len(attempts) > 1 or order[0] == candidates[0]:
            self._walked_at = self._began
        now = self._clock()
        url = next((attempt.url for attempt in attempts if attempt.error is None), None)
        probe = Probe(
            at=now,
            url=url,
            attempts=attempts,
            models=models,
            candidates=candidates,
            duration_s=now - self._began,
        )
        self._publish(self.group.name, probe)
        self._say(probe)
        self._in_use = url or self._in_use

    async def _walk(
        self, together: tuple[str, ...], each: tuple[str, ...]
    ) -> tuple[tuple[Attempt, ...], tuple[ModelEntry, ...]]:
        """Every attempt in order, up to the first that went well, and its models."""
        attempts: list[Attempt] = []
        group = self.group
        if together:
            for attempt, models in await asyncio.gather(*(self._asker.ask(group, url) for url in together)):
                attempts.append(attempt)
                if models:
                    return tuple(attempts), models
        for url in each:
            attempt, models = await self._asker.ask(group, url)
            attempts.append(attempt)
            if models:
                return tuple(attempts), models
        return tuple(attempts), ()

    def _say(self, probe: Probe) -> None:
        ok = probe.url is not None
        if ok != self._ok:
            self._ok = ok
            tried = "; ".join(f"{attempt.url}: {attempt.error}" for attempt in probe.attempts)
            said = {"url": probe.url, "models": len(probe.models)} if ok else {"error": tried}
            log("group_probe", group=self.group.name, ok=ok, **said)
        if ok and self._in_use not in (None, probe.url):
            log("group_endpoint", group=self.group.name, url=probe.url, was=self._in_use)
