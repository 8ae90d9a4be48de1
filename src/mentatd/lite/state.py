"""What a lite daemon knows, and every way in which that changes.

`State` is a value. Each function takes a state and what happened, and gives the next state with the `Change`s
that subscribers of `/events` hear of, none when nothing changed; nothing here reads a clock or touches a
socket. `Daemon` owns the one current state. What happens to the peers of the mesh is in `peers`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mentatd.wire.mesh import MeshNode
from mentatd.wire.messages import AgentRegister
from mentatd.wire.snapshot import Agent, Peer
from mentatd.wire.snapshot_writer import AgentDetail
from mentatd.wire.version import Generation

MAX_AGENTS = 1024
"""Rows kept, lost agents included; the control port has no authentication, so something must bound them."""


@dataclass(frozen=True, slots=True)
class AgentKey:
    """What tells one agent from another."""

    group: str
    id: str


@dataclass(frozen=True, slots=True)
class AgentRow:
    """One agent that registered."""

    agent: Agent
    detail: AgentDetail
    link: int
    """Number of the connection that it registered over: an older one has no say any more."""
    given_up: bool = False
    """Its link has been down for so long that it is not expected back."""


@dataclass(frozen=True, slots=True)
class PeerRow:
    """One other daemon that there is or was a mesh link with."""

    node: MeshNode
    link: int
    """Number of the connection; an older one has no say any more."""
    link_ip: str
    """Its address on that connection."""
    dialled: bool
    """This daemon opened the connection."""
    heard_s: float
    """Its last sign of life, on the clock that never jumps."""
    last_seen_ms: int
    """The same in Unix milliseconds."""
    alive: bool = True
    """False once the connection ended."""
    stale: bool = False
    """It has been silent for long."""
    gone_since_ms: int = 0
    """Unix milliseconds since which it is not alive."""
    gpus: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """GPUs in all and GPUs placed, of each of its groups."""
    knows: tuple[Peer, ...] = ()
    """The living peers that it told of."""


@dataclass(frozen=True, slots=True)
class Address:
    """One address that the node announces."""

    address: str
    iface: str = ""
    """Empty where the operator named the address itself."""
    tags: tuple[str, ...] = ()
    """The operator's."""


@dataclass(frozen=True, slots=True)
class Node:
    """What stays the same while the daemon runs."""

    generation: Generation
    """Of what the daemon writes."""
    node_id: str
    node_ip: str
    hostname: str
    control_port: int
    http_port: int
    boot_id: str
    """Changes with the process."""


@dataclass(frozen=True, slots=True)
class State:
    """Everything that the daemon reports."""

    node: Node
    addrs: tuple[str, ...] = ()
    """Addresses of this node, most preferred first."""
    ifaces: Mapping[str, str] = field(default_factory=dict)
    """The interface of each address that has one."""
    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The operator's tags of each address that has any, such as `rdma`."""
    agents: Mapping[AgentKey, AgentRow] = field(default_factory=dict)
    peers: Mapping[str, PeerRow] = field(default_factory=dict)
    """By node id."""
    registrations: int = 0
    """Since the start."""
    seq: int = 0
    """Of the last change."""


@dataclass(frozen=True, slots=True)
class Change:
    """One event, before it is written."""

    kind: str
    """`agent_register`, `agent_lost`, `agent_degraded`, `agent_dead`, `agent_swept`, `service_note`; `node_join`,
    `node_leave`, `peer_stale`, `peer_recovered`, `peer_addrs_changed`, `peer_forgotten`; `addrs_changed`."""
    seq: int
    key: AgentKey | None = None
    """The agent whose row changed or went."""
    why: str = ""
    """For a log."""
    peer: str = ""
    """The node id of the peer whose row changed or went. Neither: the node's own addresses changed."""


Step = tuple[State, tuple[Change, ...]]
"""The next state, and what changed."""


def register(state: State, said: AgentRegister, peer: str, link: int) -> Step:
    """An agent registered over connection number `link` from address `peer`; one of the same key is replaced.

    An empty `node_ip` means this node when the link came from this box, and otherwise the address that it
    came from (wire.md section 4). Nothing changes when there are too many agents for another.
    """
    key = AgentKey(said.group, said.agent_id)
    if key not in state.agents and len(state.agents) >= MAX_AGENTS:
        return state, ()
    node = state.node
    own = {node.node_ip, *state.addrs}
    at_home = peer in own or peer.startswith("127.") or peer == "::1"
    node_ip = said.node_ip or (node.node_ip if at_home else peer)
    agent = Agent(
        id=said.agent_id,
        node_ip=node_ip,
        node_id=node.node_id if node_ip in own else node_ip,
        container=said.container,
        alive=True,
        degraded=False,
        gpus=len(said.machine.gpus),
        provider=said.provider,
        services=said.services,
        notes=said.notes,
    )
    row = AgentRow(agent, AgentDetail(machine=said.machine, pid=said.pid), link)
    state = replace(state, registrations=state.registrations + 1)
    return _put(state, "agent_register", key, row)


def lose(state: State, key: AgentKey, link: int, now_ms: int) -> Step:
    """Connection number `link` ended. Nothing changes when the agent has registered again over another."""
    row = _held(state, key, link)
    if row is None:
        return state, ()
    lost = replace(row.agent, alive=False)
    row = replace(row, agent=lost, detail=replace(row.detail, gone_since_ms=now_ms))
    return _put(state, "agent_lost", key, row, why="link closed")


def note(state: State, key: AgentKey, link: int, service: str, text: str) -> Step:
    """The agent's finding about one of the services that it announces; an empty text clears it."""
    row = _held(state, key, link)
    if row is None or service not in row.agent.services or row.agent.notes.get(service, "") == text:
        return state, ()
    notes = {name: kept for name, kept in row.agent.notes.items() if name != service}
    if text:
        notes[service] = text
    return _put(state, "service_note", key, replace(row, agent=replace(row.agent, notes=notes)), why=text)


def age(state: State, now_ms: int, *, degraded_ms: int, dead_ms: int) -> Step:
    """Say of agents whose link has been down for `degraded_ms` that they are degraded, and for `dead_ms` dead.

    Either is said once: a dead agent's row stays as it is until it is swept.
    """
    changes: tuple[Change, ...] = ()
    for key, row in state.agents.items():
        if row.detail.gone_since_ms is None:
            continue
        down_ms = now_ms - row.detail.gone_since_ms
        why = f"link down for {down_ms / 1000:.0f} s"
        if down_ms >= degraded_ms and not row.agent.degraded:
            row = replace(row, agent=replace(row.agent, degraded=True))
            state, told = _put(state, "agent_degraded", key, row, why)
            changes += told
        if down_ms >= dead_ms and not row.given_up:
            state, told = _put(state, "agent_dead", key, replace(row, given_up=True), why)
            changes += told
    return state, changes


def sweep(state: State, before_ms: int) -> Step:
    """Forget the agents whose link ended before `before_ms`."""
    gone = [
        key
        for key, row in state.agents.items()
        if row.detail.gone_since_ms is not None and row.detail.gone_since_ms < before_ms
    ]
    kept = {key: row for key, row in state.agents.items() if key not in gone}
    changes = tuple(Change("agent_swept", state.seq + n, key) for n, key in enumerate(gone, 1))
    return replace(state, agents=kept, seq=state.seq + len(gone)), changes


def move(state: State, addrs: Sequence[Address]) -> Step:
    """The node's addresses are now these, in order of preference.

    A node without any answers on what it calls itself.
    """
    moved = replace(
        state,
        addrs=tuple(each.address for each in addrs) or (state.node.node_ip,),
        ifaces={each.address: each.iface for each in addrs if each.iface},
        tags={each.address: each.tags for each in addrs if each.tags},
        seq=state.seq + 1,
    )
    if replace(moved, seq=state.seq) == state:
        return state, ()
    return moved, (Change("addrs_changed", moved.seq, why=",".join(moved.addrs)),)


def _held(state: State, key: AgentKey, link: int) -> AgentRow | None:
    """The row, as long as `link` is the connection that holds it."""
    row = state.agents.get(key)
    return row if row is not None and row.link == link else None


def _put(state: State, kind: str, key: AgentKey, row: AgentRow, why: str = "") -> Step:
    state = replace(state, agents={**state.agents, key: row}, seq=state.seq + 1)
    return state, (Change(kind, state.seq, key, why),)
