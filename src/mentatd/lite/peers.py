"""The peers of the mesh: every way in which what is known of them changes, and what follows from it.

Pure, as `state` is. wire.md section 4 has the rules: one link a node, a `peer_status` each 2 s, a peer silent for
30 s is stale and for 60 s dead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from mentatd.lite.state import Change, PeerRow, State, Step
from mentatd.wire.hostport import join, split
from mentatd.wire.mesh import MeshNode
from mentatd.wire.snapshot import View

MAX_PEERS = 256
"""Rows kept, dead peers included: the mesh has no authentication, so something must bound them."""

QUIET_S = 5.0
"""A link that brought nothing for this long gives way to a new one: its other side may have started again."""


@dataclass(frozen=True, slots=True)
class Target:
    """A daemon to dial."""

    name: str
    """What it is known by: the text of `MENTAT_PEERS`, or a node id."""
    addresses: tuple[tuple[str, int], ...]
    """Hosts and control ports, to be tried in this order."""


def takes(state: State, node_id: str, *, dialled: bool, now_s: float) -> bool:
    """Whether a new link to a peer is to be held: there is no other, or it goes before that one.

    Of two links that the sides opened at the same time both keep the one that the lower node id dialled; otherwise
    the older stays, unless it has gone quiet.
    """
    row = state.peers.get(node_id)
    if row is None:
        return len(state.peers) < MAX_PEERS
    if not row.alive or now_s - row.heard_s > QUIET_S:
        return True
    lower = state.node.node_id < node_id
    return row.dialled != dialled and dialled == lower


def join_mesh(
    state: State, node: MeshNode, *, link: int, link_ip: str, dialled: bool, now_ms: int, now_s: float
) -> Step:
    """A link to a peer is up, which `takes` found right. Nothing is told when it replaces one that was in use."""
    before = state.peers.get(node.node_id)
    row = PeerRow(
        node=node,
        link=link,
        link_ip=link_ip,
        dialled=dialled,
        heard_s=now_s,
        last_seen_ms=now_ms,
        gpus=before.gpus if before else {},
        knows=before.knows if before else (),
    )
    if before is None or not before.alive:
        return _put(state, "node_join", row, link_ip)
    if before.stale:
        return _put(state, "peer_recovered", row)
    return replace(state, peers={**state.peers, node.node_id: row}), ()


def hear(state: State, node_id: str, link: int, view: View, *, now_ms: int, now_s: float) -> Step:
    """A peer told its status over connection number `link`.

    Only what a reader acts on is told: that it is back from silence, and that its addresses changed.
    """
    row = state.peers.get(node_id)
    if row is None or row.link != link:
        return state, ()
    addrs = view.addrs or row.node.addrs
    moved, recovered = addrs != row.node.addrs, row.stale
    row = replace(
        row,
        node=replace(row.node, addrs=addrs),
        heard_s=now_s,
        last_seen_ms=now_ms,
        stale=False,
        gpus={
            name: (sum(agent.gpus for agent in group.agents if agent.alive), group.gpus_used)
            for name, group in view.groups.items()
        },
        knows=tuple(peer for peer in view.peers if peer.alive)[:MAX_PEERS],
    )
    if recovered:
        return _put(state, "peer_recovered", row)
    if moved:
        return _put(state, "peer_addrs_changed", row, why=",".join(addrs))
    return replace(state, peers={**state.peers, node_id: row}), ()


def leave(state: State, node_id: str, link: int, why: str, now_ms: int) -> Step:
    """Connection number `link` ended. Nothing changes when the peer has another by now."""
    row = state.peers.get(node_id)
    if row is None or row.link != link or not row.alive:
        return state, ()
    return _put(state, "node_leave", replace(row, alive=False, gone_since_ms=now_ms), why)


def notice_silence(state: State, since_s: float) -> Step:
    """Living peers that have said nothing since `since_s` are stale."""
    changes: tuple[Change, ...] = ()
    for row in state.peers.values():
        if row.alive and not row.stale and row.heard_s < since_s:
            state, told = _put(state, "peer_stale", replace(row, stale=True))
            changes += told
    return state, changes


def forget(state: State, before_ms: int) -> Step:
    """Forget the peers that left before `before_ms`."""
    gone = [id_ for id_, row in state.peers.items() if not row.alive and row.gone_since_ms < before_ms]
    kept = {id_: row for id_, row in state.peers.items() if id_ not in gone}
    changes = tuple(Change("peer_forgotten", state.seq + n, peer=id_) for n, id_ in enumerate(gone, 1))
    return replace(state, peers=kept, seq=state.seq + len(gone)), changes


def targets(state: State, seeds: Iterable[tuple[str, int]], known: Mapping[str, str]) -> tuple[Target, ...]:
    """The daemons to dial now: of `seeds`, of the peers that were lost, and of those that living peers tell of, each
    that there is no link with.

    `known` has the node id that answered to a target's name before; this daemon's own is never dialled.
    """
    linked = {id_ for id_, row in state.peers.items() if row.alive}
    linked.add(state.node.node_id)
    answering = {row.node.control_addr for row in state.peers.values() if row.alive}
    wanted: dict[str, Target] = {}
    for host, port in seeds:
        name = join(host, port)
        if known.get(name) not in linked and name not in answering:
            wanted[name] = Target(name, ((host, port),))
    for row in state.peers.values():
        for id_, control, addrs in (
            (row.node.node_id, row.node.control_addr, row.node.addrs),
            *((peer.node_id, peer.control_addr, peer.addrs) for peer in row.knows if row.alive),
        ):
            host, port = split(control)
            if port and id_ not in linked and control not in wanted and len(wanted) < MAX_PEERS:
                hosts = dict.fromkeys((host, *addrs))
                wanted.setdefault(id_, Target(id_, tuple((each, port) for each in hosts)))
    return tuple(wanted.values())


def _put(state: State, kind: str, row: PeerRow, why: str = "") -> Step:
    peers = {**state.peers, row.node.node_id: row}
    state = replace(state, peers=peers, seq=state.seq + 1)
    return state, (Change(kind, state.seq, why=why, peer=row.node.node_id),)
