"""The single owner of views and probes: publishes the `RouteTable`, wakes those who wait for the next one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from mentatd.cluster.admission import Probe
from mentatd.cluster.groups import NOTHING, SeenView, merge
from mentatd.cluster.routes import EMPTY, RouteTable, build, confirms
from mentatd.cluster.sources import AllowedSources
from mentatd.serve.networks import Networks

REBUILD_S = 0.1
"""The least time between two rebuilds: a burst of facts costs one, and none waits long."""
CONFIRM_S = 0.4
"""How long a probe result that only confirms the table may wait for others: 1000 groups have 200 of them a second."""
_LATE_S = 0.005
"""How long after an expiry the timer fires, so that the expired thing is past its time and not at it."""


class Changes:
    """A number that grows with each change, and the wait for the next one.

    Any number of waiters; none is owed every step: one that was busy sees only that the number has grown.
    """

    def __init__(self) -> None:
        self.number = 0
        self._grown = asyncio.Event()

    def announce(self) -> None:
        """Count one change and wake every waiter."""
        self.number += 1
        self._grown.set()
        self._grown = asyncio.Event()

    async def after(self, number: int) -> int:
        """Wait until there is a change that is newer than `number`; return the newest number."""
        while self.number <= number:
            await self._grown.wait()
        return self.number


class Cluster:
    """Facts come in whole: a daemon's newest view, a group's newest probe.

    The first change rebuilds the table on the next turn of the loop, further ones at most every `REBUILD_S`; what
    changes nothing but how long a route is fresh waits for up to `CONFIRM_S`.
    A timer rebuilds when a view goes stale or a route's probe expires. To be used on the event loop only.
    """

    def __init__(
        self,
        networks: Networks,
        sources: AllowedSources,
        *,
        stale_after: float,
        fresh_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`stale_after`: seconds after which a view no longer counts; `fresh_s`: PROBE_FRESH_S."""
        self.table: RouteTable = EMPTY
        """The newest table; replaced as a whole, never changed. A request reads it once."""
        self.changes = Changes()
        """Grows with each new table."""
        self.fresh_s = fresh_s
        self._networks = networks
        self._sources = sources
        self._stale_after = stale_after
        self._clock = clock
        self._views: dict[str, SeenView] = {}
        self._merged = NOTHING
        self._probes: dict[str, Probe] = {}
        self._remerge = False
        self._built_at = float("-inf")
        self._rebuild: asyncio.Handle | None = None
        self._rebuild_at = float("inf")
        self._expiry: asyncio.TimerHandle | None = None
        self._suspected: Callable[[str, str], None] | None = None
        self._probed: Callable[[str, Probe], None] | None = None

    def put_view(self, seen: SeenView) -> None:
        """Take a daemon's newest view. One that says nothing new only keeps the daemon from going stale."""
        old = self._views.get(seen.daemon)
        if (
            old is not None
            and seen.daemon in self._merged.daemons
            and old.trusted == seen.trusted
            and old.view == seen.view
        ):
            self._views[seen.daemon] = replace(seen, view=old.view)
            return
        self._views[seen.daemon] = seen
        self.refresh()

    def drop_daemon(self, daemon: str) -> None:
        """The daemon is no longer watched: its view counts no more."""
        if self._views.pop(daemon, None) is not None:
            self.refresh()

    def put_probe(self, group: str, probe: Probe) -> None:
        """Take a group's newest probe; one of a group that is not in the table is forgotten."""
        if group not in self._merged.groups:
            return
        self._probes[group] = probe
        if self._probed is not None:
            self._probed(group, probe)
        state, until = self.table.groups.get(group), self._clock() + CONFIRM_S
        waits = state is not None and confirms(state, probe, until=until + REBUILD_S)
        self._schedule(until if waits else self._clock())

    def refresh(self) -> None:
        """Merge all views again soon: something that the merge depends on has changed."""
        self._remerge = True
        self._schedule(self._clock())

    def suspect(self, group: str, url: str) -> None:
        """A request could not connect to this candidate: the prober looks at the group at once."""
        if self._suspected is not None:
            self._suspected(group, url)

    def on_suspect(self, observer: Callable[[str, str], None]) -> None:
        """Tell `observer(group, url)` of each suspicion; there is one observer, the prober."""
        self._suspected = observer

    def on_probe(self, observer: Callable[[str, Probe], None]) -> None:
        """Tell `observer` of each probe result; there is one observer, the timeline."""
        self._probed = observer

    def close(self) -> None:
        """Rebuild no more; the last table stays."""
        for handle in (self._rebuild, self._expiry):
            if handle is not None:
                handle.cancel()

    def _schedule(self, at: float) -> None:
        """Rebuild at this time at the latest, as far as that is not too soon after the last rebuild."""
        at = max(at, self._built_at + REBUILD_S)
        if self._rebuild_at <= at:
            return
        if self._rebuild is not None:
            self._rebuild.cancel()
        self._rebuild_at = at
        loop, wait = asyncio.get_running_loop(), at - self._clock()
        self._rebuild = loop.call_later(wait, self._build) if wait > 0 else loop.call_soon(self._build)

    def _build(self) -> None:
        self._rebuild, self._rebuild_at = None, float("inf")
        now = self._built_at = self._clock()
        if self._remerge:
            self._merge(now)
            self._remerge = False
        self.table = build(
            self._merged.groups, self._probes, previous=self.table, now=now, fresh_s=self.fresh_s
        )
        self._watch_expiry(now)
        self.changes.announce()

    def _merge(self, now: float) -> None:
        self._merged = merged = merge(
            self._views,
            self._merged,
            now=now,
            stale_after=self._stale_after,
            local=self._networks.current,
            sources=self._sources,
        )
        self._probes = {name: probe for name, probe in self._probes.items() if name in merged.groups}

    def _watch_expiry(self, now: float) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        first = min((*self._view_expiries(), *self._route_expiries(now)), default=None)
        if first is not None:
            self._expiry = asyncio.get_running_loop().call_later(first - now + _LATE_S, self._expired)

    def _expired(self) -> None:
        self._expiry = None
        now = self._clock()
        if any(at < now for at in self._view_expiries()):
            self.refresh()
        elif any(at < now for at in self._route_expiries(self.table.at)):
            self._schedule(now)
        else:
            self._watch_expiry(now)

    def _view_expiries(self) -> list[float]:
        return [
            self._views[name].at + self._stale_after for name in self._merged.daemons if name in self._views
        ]

    def _route_expiries(self, since: float) -> list[float]:
        """When the table's routes stop being fresh, as far as they were fresh at `since`."""
        routes = (state.route for state in self.table.groups.values())
        return [route.fresh_until for route in routes if route is not None and route.fresh_until >= since]
