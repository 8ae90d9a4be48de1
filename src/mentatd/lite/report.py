"""What a lite daemon says of its state: snapshot, events, announcement, mesh (wire.md sections 1, 2 and 4)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mentatd.lite.state import AgentKey, Change, PeerRow, State
from mentatd.wire.announcement import Announcement
from mentatd.wire.hostport import join
from mentatd.wire.mesh import MeshNode
from mentatd.wire.snapshot import Agent, GroupView, Peer, View
from mentatd.wire.snapshot_writer import DaemonDetail, PeerDetail, agent_row, peer_row, write_snapshot
from mentatd.wire.version import Generation


def view(state: State, group: str | None = None, generation: Generation | None = None) -> View:
    """The state as readers of a snapshot see it; `group` scopes it to that one group, if there is such.

    It is written in the daemon's own generation unless `generation` names another.
    """
    node = state.node
    members: dict[str, list[Agent]] = {}
    for key, row in state.agents.items():
        if group is None or key.group == group:
            members.setdefault(key.group, []).append(row.agent)
    return View(
        generation=generation or node.generation,
        node_id=node.node_id,
        node_ip=node.node_ip,
        hostname=node.hostname,
        addrs=state.addrs,
        peers=tuple(_peer(state.peers[node_id]) for node_id in sorted(state.peers)),
        groups={
            name: GroupView(agents=tuple(sorted(agents, key=lambda agent: agent.id)), actors=())
            for name, agents in sorted(members.items())
        },
    )


def snapshot(state: State, group: str | None = None, generation: Generation | None = None) -> bytes:
    """The JSON of `/status`, of a client's `status` and of a peer's `peer_status`."""
    detail = DaemonDetail(
        control_addr=join(state.node.node_ip, state.node.control_port),
        addr_tags=state.tags,
        addr_ifaces=state.ifaces,
        seq=state.seq,
        boot_id=state.node.boot_id,
        counters={"agents_registered": state.registrations},
        agents={key.id: row.detail for key, row in state.agents.items() if group in (None, key.group)},
        peers={node_id: _peer_detail(row) for node_id, row in state.peers.items()},
    )
    return write_snapshot(view(state, group, generation), detail)


def mesh_node(state: State) -> MeshNode:
    """What the daemon says of itself when a mesh link opens."""
    node = state.node
    return MeshNode(
        node_id=node.node_id,
        node_ip=node.node_ip,
        control_addr=join(node.node_ip, node.control_port),
        http_port=node.http_port,
        addrs=state.addrs,
        addr_tags=state.tags,
        addr_ifaces=state.ifaces,
        probes=True,
    )


def first_frame(state: State) -> str:
    """What a subscriber of `/events` gets first."""
    return f'{{"type":"snapshot","seq":{state.seq},"data":{snapshot(state).decode()}}}'


def event_frame(state: State, change: Change, now_ms: int) -> str:
    """One event; `state` is the one that the change led to.

    Generation A names what changed in free fields, generation B carries the rows themselves as a patch.
    """
    event: dict[str, Any] = {
        "type": change.kind,
        "seq": change.seq,
        "ts_ms": now_ms,
        "node": state.node.node_id,
    }
    if change.why:
        event["reason" if change.peer else "why"] = change.why
    if state.node.generation == "B":
        event["patch"] = _patch(state, change)
    elif change.key is not None:
        event |= {"group": change.key.group, "agent_id": change.key.id}
    elif change.peer:
        event["peer"] = change.peer
    return json.dumps(event, separators=(",", ":"))


def relayed(event: bytes) -> str:
    """A peer's event for those who listen here. Its patch, if any, is of the peer's own document: it stays out."""
    said = json.loads(event)
    said.pop("patch", None)
    return json.dumps(said, separators=(",", ":"))


def announcement(state: State, *, universe: str, seq: int, now_s: int) -> Announcement:
    """What is sent over UDP; `seq` counts the rounds of this process, not the changes."""
    node = state.node
    return Announcement(
        generation=node.generation,
        node_id=node.node_id,
        http_host=node.node_ip,
        http_port=node.http_port,
        control=join(node.node_ip, node.control_port),
        universe=universe,
        addrs=state.addrs,
        addr_tags=state.tags,
        boot_id=node.boot_id,
        seq=seq,
        t=now_s,
    )


def places_nothing(asked: str) -> str:
    """The answer to a request for placement, or for anything else that this daemon does not do."""
    return f"mentatd-lite does not know {asked!r}: it places nothing"


def _peer(row: PeerRow) -> Peer:
    return Peer(
        node_id=row.node.node_id,
        node_ip=row.node.node_ip,
        link_ip=row.link_ip,
        addrs=row.node.addrs,
        http_port=row.node.http_port,
        alive=row.alive,
        stale=row.stale,
        control_addr=row.node.control_addr,
    )


def _peer_detail(row: PeerRow) -> PeerDetail:
    return PeerDetail(row.node.addr_tags, row.node.addr_ifaces, row.last_seen_ms, row.gone_since_ms, row.gpus)


def _patch(state: State, change: Change) -> list[Mapping[str, Any]]:
    """The paths that a change touched, each with what stands there now; without `value` it is gone."""
    if change.key is not None:
        return _agent_patch(state, change.key)
    if not change.peer:
        ours = {"addrs": state.addrs, "addr_ifaces": state.ifaces, "addr_tags": state.tags}
        return [{"at": [name], "value": value} for name, value in ours.items()]
    at = ["peers", change.peer]
    row = state.peers.get(change.peer)
    if row is None:
        return [{"at": at}]
    return [{"at": at, "value": peer_row(_peer(row), _peer_detail(row), "B")}]


def _agent_patch(state: State, key: AgentKey) -> list[Mapping[str, Any]]:
    at = ["groups", key.group]
    members = [row.agent for other, row in state.agents.items() if other.group == key.group]
    if not members:
        return [{"at": at}]
    row = state.agents.get(key)
    patch: dict[str, Any] = {"at": [*at, "agents", key.id]}
    if row is not None:
        patch["value"] = agent_row(row.agent, row.detail, "B")
    total = sum(agent.gpus for agent in members if agent.alive)
    return [patch, {"at": [*at, "gpus_total"], "value": total}]
