"""The changes of the cluster, one line each: what an operator wants to know of the last hour.

Two scenes are compared, the one before and the one now; what differs is a change. Probes are counted as they come.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from mentatd.cluster.admission import Probe
from mentatd.cluster.routes import EMPTY, RouteTable, verdict
from mentatd.serve.cluster import Cluster
from mentatd.serve.daemon import Daemon
from mentatd.serve.monitor.traffic import TEXT_LIMIT, Distribution

CHANGES_KEPT = 200
LOOK_S = 1.0
"""The most time between two looks: a daemon's failed poll makes no new table."""
REST_S = 0.5
"""The least time between two looks: what came and went in less is no news."""

Kind = Literal["daemon_seen", "daemon_lost", "group_admitted", "group_refused", "group_gone", "address_moved"]

_PENDING = "not probed yet"


@dataclass(frozen=True, slots=True)
class DaemonNow:
    """What the watch on a daemon shows."""

    error: str | None
    """Why the last poll failed; None when it went well."""
    hostname: str


@dataclass(frozen=True, slots=True)
class GroupNow:
    """How a group stands."""

    why_not: str | None
    """None: admitted."""
    url: str | None
    """The address in use, if admitted."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The cluster at one moment."""

    daemons: Mapping[str, DaemonNow] = field(default_factory=dict)
    """By address; those that have been polled."""
    groups: Mapping[str, GroupNow] = field(default_factory=dict)
    """By name; those that have been judged (`not probed yet` is no judgement)."""
    table: RouteTable = field(default=EMPTY, repr=False, compare=False)
    """What `groups` is made of."""


@dataclass(frozen=True, slots=True)
class Change:
    """One line of the timeline."""

    kind: Kind
    subject: str
    """A daemon's address or a group's name."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A change that was seen."""

    id: str
    """Unique in this process."""
    at: float
    """Unix seconds."""
    change: Change


@dataclass(slots=True, eq=False)
class ProbeCount:
    """The probes of one group."""

    ok: int = 0
    failed: int = 0
    duration: Distribution = field(default_factory=Distribution)


def differences(before: Scene, after: Scene) -> Iterator[Change]:
    """What changed. Of a reason only its kind counts: the words of a failing probe differ from round to round."""
    for address, daemon in after.daemons.items():
        was = before.daemons.get(address)
        if daemon.error is None and (was is None or was.error is not None):
            yield Change("daemon_seen", address, daemon.hostname)
        elif daemon.error is not None and (was is None or was.error is None):
            yield Change("daemon_lost", address, daemon.error)
    for address, daemon in before.daemons.items():
        if address not in after.daemons and daemon.error is None:
            yield Change("daemon_lost", address, "no longer watched")
    for name, group in after.groups.items():
        was_group = before.groups.get(name)
        change = None if was_group is group else _group_change(name, was_group, group)
        if change is not None:
            yield change
    for name in before.groups.keys() - after.groups.keys():
        yield Change("group_gone", name)


def _group_change(name: str, was: GroupNow | None, group: GroupNow) -> Change | None:
    if group.why_not is not None:
        if was is None or was.why_not is None or _gate(was.why_not) != _gate(group.why_not):
            return Change("group_refused", name, group.why_not)
        return None
    if was is None or was.why_not is not None:
        return Change("group_admitted", name, group.url or "")
    if was.url != group.url:
        return Change("address_moved", name, f"{group.url}, was {was.url}")
    return None


def _gate(why_not: str) -> str:
    """Which gate a reason is about: `endpoint probe failed` of `endpoint probe failed: 10.0.0.1: …`."""
    return why_not.partition(":")[0]


def scene(table: RouteTable, daemons: Iterable[Daemon], before: Scene, *, now: float) -> Scene:
    """The cluster at `now`. A group that waits for its first probe stands as it did `before`; so does one of which
    the table says nothing new, for a route that goes stale makes a new table."""
    groups = {}
    for name, state in table.groups.items():
        was = before.groups.get(name)
        if was is not None and before.table.groups.get(name) is state:
            groups[name] = was
            continue
        why_not = verdict(state, now=now)
        if why_not != _PENDING:
            url = None if why_not is not None or state.route is None else state.route.targets[0].url
            groups[name] = GroupNow(why_not, url)
        elif was is not None:
            groups[name] = was
    polled = (daemon for daemon in daemons if daemon.connected or daemon.error is not None)
    return Scene(
        {
            daemon.claim.address: DaemonNow(daemon.error, daemon.view.hostname if daemon.view else "")
            for daemon in polled
        },
        groups,
        table,
    )


class Timeline:
    """Follows the cluster and keeps the newest changes."""

    def __init__(
        self,
        cluster: Cluster,
        daemons: Callable[[], Iterable[Daemon]],
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`wall_clock` gives Unix seconds."""
        self.last: deque[Entry] = deque(maxlen=CHANGES_KEPT)
        self.total = 0
        """Changes seen; `last` holds the newest of them."""
        self._probes: dict[str, ProbeCount] = {}
        self._cluster = cluster
        self._daemons = daemons
        self._clock = clock
        self._wall_clock = wall_clock
        self._scene = Scene()
        self._numbers = count(1)
        cluster.on_probe(self._probed)

    async def run(self) -> None:
        """Follow until cancelled."""
        seen = -1
        while True:
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._cluster.changes.after(seen)
            except TimeoutError:
                pass
            seen = self._cluster.changes.number
            self.look()
            await asyncio.sleep(REST_S)

    def look(self) -> None:
        """Compare the cluster with how it was at the last look."""
        table = self._cluster.table
        now_is = scene(table, self._daemons(), self._scene, now=self._clock())
        for change in differences(self._scene, now_is):
            kept = Change(change.kind, change.subject, change.detail[:TEXT_LIMIT])
            self.last.append(Entry(f"c{next(self._numbers):x}", self._wall_clock(), kept))
            self.total += 1
        self._scene = now_is
        for gone in self._probes.keys() - table.groups.keys():
            del self._probes[gone]

    def probes_of(self, group: str) -> ProbeCount:
        """The probes of a group, as long as it is in the table."""
        return self._probes.get(group) or ProbeCount()

    def _probed(self, group: str, probe: Probe) -> None:
        counted = self._probes.get(group) or self._probes.setdefault(group, ProbeCount())
        counted.duration.add(probe.duration_s)
        if probe.url is None:
            counted.failed += 1
        else:
            counted.ok += 1
