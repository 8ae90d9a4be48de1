"""The watch set: starts and ends the watches, and hands their views to the cluster.

Level-triggered: each fact (a poll's result, an announcement, a change of this box's networks) leads to one
`choose` over all claims, and the difference to what runs is carried out. A poll that shows what the last choice
was made of leads to none: twenty daemons that name each other are 400 claims.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import chain

from mentatd.cluster.groups import SeenView
from mentatd.cluster.sources import AllowedSources
from mentatd.cluster.watchset import Claim, Finding, authority, choose, peer_claims
from mentatd.http.client import Client
from mentatd.log import log
from mentatd.serve.cluster import Cluster
from mentatd.serve.daemon import Daemon
from mentatd.serve.networks import Networks
from mentatd.tasks import Tasks
from mentatd.wire.snapshot import View

BOUND = 256
"""Watches at one time, and announced nodes that are remembered: a flood of announcements ends here."""
RETIRE_S = 3600.0
"""A watch that was only heard of is dropped when it has been unreachable for so long."""
REMEMBER_S = 600.0
"""How long it is remembered which node answered at an address that is no longer watched."""

_Shown = tuple[Finding, tuple[Claim, ...]]
"""What the watch on a daemon has found, and the peers that its view names."""


class Watches:
    """Owns the watch on every daemon. To be used on the event loop only."""

    def __init__(
        self,
        cluster: Cluster,
        networks: Networks,
        client: Client,
        *,
        seeds: Sequence[tuple[str, int]],
        sources: AllowedSources,
        discover_peers: bool,
        poll_interval: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`seeds`: (host, port), where a host is a name or a literal address without brackets."""
        self._cluster = cluster
        self._networks = networks
        self._client = client
        self._sources = sources
        self._discover_peers = discover_peers
        self._poll_interval = poll_interval
        self._clock = clock
        self._seeds = tuple(
            Claim(authority(host, port), "", "seed", trusted=True, near=False) for host, port in seeds
        )
        self._announced: dict[str, tuple[Claim, ...]] = {}
        self._peers: dict[str, tuple[View, bool, tuple[Claim, ...]]] = {}
        self._retired: set[str] = set()
        self._ended: dict[str, tuple[Finding, float]] = {}
        self._chosen_from: dict[str, _Shown] = {}
        self._bridging: dict[str, str] = {}
        self._daemons: dict[str, Daemon] = {}
        self._full_said = False
        self._tasks = Tasks("watch")
        self._closed = False

    def daemons(self) -> tuple[Daemon, ...]:
        """Every watch that runs, ordered by address."""
        return tuple(self._daemons[address] for address in sorted(self._daemons))

    def start(self) -> None:
        """Begin with the seeds."""
        self._reconcile()

    async def close(self) -> None:
        """End every watch."""
        self._closed = True
        await self._tasks.close()

    def announced(self, node_id: str, hosts: Sequence[str], port: int, trusted: bool) -> None:
        """A node has announced itself: its daemon answers at the first of `hosts`, which are allowed, and `port`.

        While that one fails, the next is watched: the link that is cut need not be the only one. Where all this
        differs from what the node announced before, the old watch ends.
        """
        local = self._networks.current
        claims = tuple(
            Claim(authority(host, port), node_id, "announcement", trusted, host in local) for host in hosts
        )
        if self._announced.get(node_id) == claims:
            return
        if node_id not in self._announced and len(self._announced) >= BOUND:
            self._say_full()
            return
        # Two nodes cannot share an address: what was announced there before (an earlier life of it) is over.
        self._forget(claims[0].address)
        self._announced[node_id] = claims
        self._retired -= {claim.address for claim in claims}
        self._reconcile()

    def networks_changed(self) -> None:
        """This box has other networks than before: choose the peers' addresses again."""
        self._peers.clear()
        self._reconcile()

    def _polled(self, daemon: Daemon) -> None:
        if self._daemons.get(daemon.claim.address) is not daemon:
            return
        if daemon.connected:
            self._put_view(daemon)
            self._arrived(daemon.claim.address)
        elif self._clock() - daemon.answered_at > RETIRE_S and daemon.claim.source != "seed":
            self._retire(daemon)
            self._reconcile()
            return
        if self._chosen_from.get(daemon.claim.address) != self._shown(daemon) or self._has_forgotten():
            self._reconcile()

    def _put_view(self, daemon: Daemon) -> None:
        if daemon.view is not None and daemon.read_at is not None:
            self._cluster.put_view(
                SeenView(daemon.claim.address, daemon.view, daemon.read_at, daemon.claim.trusted)
            )

    def _retire(self, daemon: Daemon) -> None:
        self._forget(daemon.claim.address)
        self._retired.add(daemon.claim.address)

    def _forget(self, address: str) -> None:
        """Nobody has announced this address."""
        left = {n: tuple(c for c in claims if c.address != address) for n, claims in self._announced.items()}
        self._announced = {node: claims for node, claims in left.items() if claims}

    def _reconcile(self) -> None:
        """Bring the watches that run in line with all claims."""
        if self._closed:
            return
        shown = {address: self._shown(daemon) for address, daemon in self._daemons.items()}
        claims = self._claims()
        chosen = choose(claims, self._findings(claims), bound=BOUND)
        if chosen.left_out:
            self._say_full()
        # carrying it out changes what the next choice is made of
        self._chosen_from = {} if self._carry_out(chosen.claims) else shown

    def _carry_out(self, chosen: Sequence[Claim]) -> bool:
        """Whether anything had to be done."""
        wanted = {claim.address: claim for claim in chosen}
        begun = [claim for address, claim in wanted.items() if address not in self._daemons]
        ended = [address for address in self._daemons if address not in wanted]
        moved = [
            daemon
            for address, daemon in self._daemons.items()
            if wanted.get(address, daemon.claim) != daemon.claim
        ]
        for claim in begun:
            self._begin(claim)
        for daemon in moved:
            daemon.claim = wanted[daemon.claim.address]
            if daemon.connected:
                self._put_view(daemon)
        for address in ended:
            self._end(address)
        return bool(begun or moved or ended)

    def _shown(self, daemon: Daemon) -> _Shown:
        """All of this watch that a choice is made of."""
        return daemon.finding(), self._peers_of(daemon)

    def _has_forgotten(self) -> bool:
        """It is time to forget which node answered somewhere."""
        now = self._clock()
        return any(until <= now for _, until in self._ended.values())

    def _claims(self) -> list[Claim]:
        """Seeds, announcements, and what the views name as peers.

        A watched peer that no one names any more stays for as long as it can be reached.
        """
        named = [claim for daemon in self._daemons.values() for claim in self._peers_of(daemon)]
        self._retired &= {claim.address for claim in named}
        kept = [daemon.claim for daemon in self._daemons.values() if daemon.claim.source == "peer"]
        peers = [claim for claim in (*named, *kept) if claim.address not in self._retired]
        return [*self._seeds, *chain.from_iterable(self._announced.values()), *peers]

    def _peers_of(self, daemon: Daemon) -> tuple[Claim, ...]:
        if daemon.view is None or not self._discover_peers:
            return ()
        view, trusted = daemon.view, daemon.claim.trusted
        known = self._peers.get(daemon.claim.address)
        if known is not None and known[1] == trusted and (known[0] is view or known[0].peers == view.peers):
            return known[2]
        claims = peer_claims(
            view, trusted=trusted, local=self._networks.current, sources=self._sources, limit=BOUND
        )
        self._peers[daemon.claim.address] = (view, trusted, claims)
        return claims

    def _findings(self, claims: Sequence[Claim]) -> dict[str, Finding]:
        now = self._clock()
        claimed = {claim.address for claim in claims}
        self._ended = {
            address: (finding, until)
            for address, (finding, until) in self._ended.items()
            if until > now and address in claimed
        }
        ended = {address: finding for address, (finding, _) in self._ended.items()}
        return ended | {address: daemon.finding() for address, daemon in self._daemons.items()}

    def _begin(self, claim: Claim) -> None:
        known = {"node": claim.node_id} if claim.node_id else {}
        log("daemon_watch", daemon=claim.address, source=claim.source, **known)
        daemon = Daemon(
            claim, self._client, self._polled, poll_interval=self._poll_interval, clock=self._clock
        )
        self._daemons[claim.address] = daemon
        self._ended.pop(claim.address, None)
        daemon.start(self._tasks)

    def _end(self, address: str) -> None:
        """End a watch. Where its node is to be watched elsewhere, its view stands until the first one comes
        from there, so that no model is gone in between; at the latest it goes stale."""
        daemon = self._daemons.pop(address)
        daemon.stop()
        self._peers.pop(address, None)
        if daemon.view is not None:
            self._ended[address] = (Finding(daemon.view.node_id, "ended"), self._clock() + REMEMBER_S)
        node = daemon.view.node_id if daemon.view is not None else daemon.claim.node_id
        successor = self._untried(node) if node else None
        if successor is None:
            self._arrived(address)
            self._cluster.drop_daemon(address)
        else:
            bridged = {old: successor if new == address else new for old, new in self._bridging.items()}
            self._bridging = bridged | {address: successor}

    def _untried(self, node_id: str) -> str | None:
        """The address at which this node is being watched from now on, if nothing has come from there yet."""
        return next(
            (a for a, d in self._daemons.items() if d.claim.node_id == node_id and d.view is None), None
        )

    def _arrived(self, successor: str) -> None:
        """The successor of a watch has a view of its own, or has ended: the old view is needed no more."""
        for address in [old for old, new in self._bridging.items() if new == successor]:
            del self._bridging[address]
            if address not in self._daemons:
                self._cluster.drop_daemon(address)

    def _say_full(self) -> None:
        if not self._full_said:
            self._full_said = True
            log("watch_set_full", bound=BOUND)
