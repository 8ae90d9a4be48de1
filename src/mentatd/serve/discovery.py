"""The left half of the router: daemons and engines are looked at, and the route table comes of it."""

from __future__ import annotations

import asyncio

from mentatd.cluster.groups import Group
from mentatd.http.client import Client
from mentatd.serve.cluster import Cluster
from mentatd.serve.enginekey import EngineKey
from mentatd.serve.listen import Listener
from mentatd.serve.networks import Networks
from mentatd.serve.probe import Pace, Prober
from mentatd.serve.watch import Watches
from mentatd.settings import Settings
from mentatd.tasks import Tasks

FIRST_LOOK_S = 2.0
"""For the first look. What is there answers in a fraction of it; what is not must not keep the rest from being
served, and clients give up on a connection after some seconds."""
_LOOK_S = 0.01
STALE_POLLS = 3
"""A view older than this many poll intervals is stale (manual "Discovery")."""


class Discovery:
    """Owns all that finds groups and keeps their table. `start`, then `close`. Made on the running loop."""

    def __init__(self, settings: Settings, client: Client, key: EngineKey) -> None:
        """Raises OSError when this box's interfaces cannot be read."""
        self._settings = settings
        self._tasks = Tasks("discovery")
        self._networks = Networks()
        self.cluster = Cluster(
            self._networks,
            settings.allowed_sources,
            stale_after=STALE_POLLS * settings.poll_interval_s,
            fresh_s=settings.probe_fresh_s,
        )
        """Has the newest table."""
        self.watches = Watches(
            self.cluster,
            self._networks,
            client,
            seeds=settings.seeds,
            sources=settings.allowed_sources,
            discover_peers=settings.discover_peers,
            poll_interval=settings.poll_interval_s,
        )
        """Know the daemons."""
        self.listener = Listener(
            self._networks,
            self.watches.announced,
            port=settings.announce_port,
            sources=settings.allowed_sources,
            secret=settings.secret,
            universe=settings.universe,
        )
        """Counts the announcements."""
        pace = Pace(settings.probe_interval_s, settings.probe_timeout_s, settings.probe_promote_s)
        self._prober = Prober(self.cluster, client, pace, key=key)

    def start(self) -> None:
        """Look at the seeds, and hear who announces itself."""
        if self._settings.announce_port:
            self.listener.start()
        self.watches.start()
        self._prober.start()
        self._tasks.start(self._networks.run(self._networks_changed), "networks")

    async def first_look(self, stop: asyncio.Event) -> None:
        """Return when each daemon that is known has been asked, and each endpoint that they know of has been probed.

        Good or bad answers: either way the table is then what it was before a restart. At most `FIRST_LOOK_S`, and
        no longer than until `stop` is set.
        """
        try:
            async with asyncio.timeout(FIRST_LOOK_S):
                while not (stop.is_set() or self._has_looked()):  # noqa: ASYNC110 - a poll that fails wakes nobody
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            pass

    def _has_looked(self) -> bool:
        table = self.cluster.table
        asked = all(
            daemon.error is not None if daemon.read_at is None else daemon.read_at <= table.at
            for daemon in self.watches.daemons()
        )
        return asked and all(state.probe or not state.group.candidates for state in table.groups.values())

    async def close(self) -> None:
        """Look no more; the last table stays."""
        await self._tasks.close()
        self.listener.close()
        await self.watches.close()
        await self._prober.close()
        self.cluster.close()

    def groups(self) -> dict[str, Group]:
        """The groups of the newest table, by name."""
        return {name: state.group for name, state in self.cluster.table.groups.items()}

    def allows(self, peer: str) -> bool:
        """Whether this address is in ALLOWED_SOURCES, as this box's networks are now."""
        return self._settings.allowed_sources.allows(peer, self._networks.current)

    def _networks_changed(self) -> None:
        self.watches.networks_changed()
        self.cluster.refresh()
