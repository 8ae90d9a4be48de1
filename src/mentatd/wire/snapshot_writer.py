"""A daemon's `/status` document, written in either generation (wire.md section 1); `snapshot` reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec

from mentatd.wire.hostport import split
from mentatd.wire.machine import Gpu, Machine, write_machine
from mentatd.wire.service import Announced, has_generation_b_form, write_services
from mentatd.wire.snapshot import Actor, Agent, GroupView, Peer, View
from mentatd.wire.version import PROTO, Generation

COUNTERS = (
    "actors_spawned",
    "actor_exits_clean",
    "actor_exits_signal",
    "actor_exits_error",
    "calls_total",
    "clients_total",
    "agents_registered",
)
"""Those that every snapshot carries, at 0 when the daemon counts no such thing."""


@dataclass(frozen=True, slots=True)
class AgentDetail:
    """What a daemon knows of an agent beside `Agent`."""

    machine: Machine = field(default_factory=Machine)
    pid: int = 0
    gone_since_ms: int | None = None
    """Unix milliseconds since which its link is down; None while it is up. Generation B only."""


@dataclass(frozen=True, slots=True)
class PeerDetail:
    """What a daemon knows of a peer beside `Peer`."""

    addr_tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    addr_ifaces: Mapping[str, str] = field(default_factory=dict)
    last_seen_ms: int = 0
    """Unix milliseconds of its last sign of life."""
    dead_since_ms: int = 0
    """Unix milliseconds since which its link is down; 0 while it is up."""
    gpus: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """GPUs in all and GPUs placed, of each of its groups."""


@dataclass(frozen=True, slots=True)
class DaemonDetail:
    """What a daemon says of itself beside its `View`."""

    control_addr: str = ""
    """`10.0.0.1:6379`."""
    addr_tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Operator's tags of each address, such as `rdma`."""
    addr_ifaces: Mapping[str, str] = field(default_factory=dict)
    """Interface of each address. Generation B only."""
    seq: int = 0
    """Of the last event that the view contains. Generation B only."""
    boot_id: str = ""
    """Changes with the process. Generation B only."""
    counters: Mapping[str, int] = field(default_factory=dict)
    """By name, over those of `COUNTERS`."""
    agents: Mapping[str, AgentDetail] = field(default_factory=dict)
    """By agent id."""
    peers: Mapping[str, PeerDetail] = field(default_factory=dict)
    """By node id."""


def write_snapshot(view: View, detail: DaemonDetail | None = None) -> bytes:
    """The document as JSON, in the generation that `view` names; `read_snapshot` gives back the same view.

    It names no head: who writes it places nothing. Generation B says a URL form only as
    `http://host:port/path`: a service that has no such form is left out.
    """
    detail = detail or DaemonDetail()
    document: dict[str, Any] = {
        "node_id": view.node_id,
        "node_ip": view.node_ip,
        "hostname": view.hostname,
        "head_node_id": "",
        "head_generation": 0,
        "addrs": view.addrs,
        "addr_tags": detail.addr_tags,
        "islands": [],
        "peers": {
            peer.node_id: peer_row(peer, detail.peers.get(peer.node_id, PeerDetail()), view.generation)
            for peer in view.peers
        },
        "groups": {name: _group_row(group, detail, view.generation) for name, group in view.groups.items()},
        "counters": dict.fromkeys(COUNTERS, 0) | dict(detail.counters),
    }
    if view.generation == "A":
        document["gcs_address"] = detail.control_addr
    else:
        document |= {
            "proto": PROTO,
            "control_addr": detail.control_addr,
            "addr_ifaces": detail.addr_ifaces,
            "seq": detail.seq,
            "boot_id": detail.boot_id,
            "clients": {},
        }
    return msgspec.json.encode(document)


def agent_row(agent: Agent, detail: AgentDetail, generation: Generation) -> dict[str, Any]:
    """One agent's row, with its `id` in generation A and without in B (the `value` of an event's patch).

    GPUs that `detail.machine` does not describe are written without vendor and name.
    """
    machine = detail.machine
    if len(machine.gpus) != agent.gpus:
        machine = Machine(machine.cpus, machine.memory, tuple(Gpu(index) for index in range(agent.gpus)))
    row: dict[str, Any] = {
        "node_id": agent.node_id,
        "node_ip": agent.node_ip,
        "container": agent.container,
        "pid": detail.pid,
        "alive": agent.alive,
        "degraded": agent.degraded,
    }
    services = agent.services
    if generation == "A":
        row["id"] = agent.id
        row |= write_machine(machine, "A") | {"gpus": agent.gpus, "gpus_free": agent.gpus}
    else:
        row |= write_machine(machine, "B")
        row["gpus_free"] = [gpu.index for gpu in machine.gpus]
        row["gone_since_ms"] = detail.gone_since_ms
        services = {name: service for name, service in services.items() if has_generation_b_form(service)}
    return row | write_services(Announced(services, agent.notes, agent.provider), generation)


def peer_row(peer: Peer, detail: PeerDetail, generation: Generation) -> dict[str, Any]:
    """One peer's row (in generation B also the `value` of an event's patch)."""
    row = asdict(peer) | {
        "addr_tags": detail.addr_tags,
        "addr_ifaces": detail.addr_ifaces,
        "last_seen_ms": detail.last_seen_ms,
        "dead_since_ms": detail.dead_since_ms,
        "probes": {},
        "groups": {name: {"gpus_total": t, "gpus_used": u} for name, (t, u) in detail.gpus.items()},
    }
    del row["node_id"]
    if generation == "B":
        row["control_port"] = split(row.pop("control_addr"))[1]
    return row


def _group_row(group: GroupView, detail: DaemonDetail, generation: Generation) -> dict[str, Any]:
    unknown = AgentDetail()
    agents = {
        agent.id: agent_row(agent, detail.agents.get(agent.id, unknown), generation) for agent in group.agents
    }
    actors = {actor.id: _actor_row(actor, generation) for actor in group.actors}
    total = sum(agent.gpus for agent in group.agents if agent.alive)
    row: dict[str, Any] = {"gpus_total": total, "gpus_used": group.gpus_used}
    if generation == "A":
        return row | {
            "agents": list(agents.values()),
            "actors": list(actors.values()),
            "placement_groups": [],
        }
    return row | {"agents": agents, "actors": actors, "placement_groups": {}, "claims": {}}


def _actor_row(actor: Actor, generation: Generation) -> dict[str, Any]:
    state: str = actor.reason if actor.state == "other" else actor.state
    row: dict[str, Any] = {"name": actor.name, "node_id": actor.node_id, "gpu_ids": [], "pid": 0}
    if generation == "B":
        return row | {"state": state, "reason": actor.reason if actor.state == "dead" else ""}
    if actor.state == "dead" and actor.reason:
        state = f"dead ({actor.reason})"
    return row | {"id": actor.id, "state": state}
