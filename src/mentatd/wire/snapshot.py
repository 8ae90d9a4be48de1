"""A daemon's `/status` document, of either generation, as one typed `View` (wire.md section 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from mentatd.errors import WireError
from mentatd.wire.fields import Fields, Problem
from mentatd.wire.hostport import join
from mentatd.wire.rawjson import decode_object, show
from mentatd.wire.service import Service, read_services
from mentatd.wire.version import Generation, is_spoken

__all__ = ["Actor", "ActorState", "Agent", "GroupView", "Peer", "Problem", "Reading", "View", "read_snapshot"]

MAX_ADDRS = 64
"""Addresses read of one node, the most preferred: each may become a candidate to probe."""

ActorState = Literal["spawning", "running", "dead", "other"]
"""`other` is any further word: a minor version of the protocol may add one."""

MAX_GPUS = 65535
"""GPUs of one agent that are believed; more than any machine has."""


@dataclass(frozen=True, slots=True)
class Agent:
    """One model container, as its daemon knows it."""

    id: str
    """Unique in its group: `<group>@<container>@<node_ip>` by custom."""
    node_ip: str
    node_id: str
    container: str
    alive: bool
    """False announces nothing. Only a daemon that says so makes it false."""
    degraded: bool
    gpus: int
    """GPUs that it offers (A: `gpus`, B: the length of `machine.gpus`)."""
    provider: str
    """The engine behind its OpenAI endpoint, trimmed and lower-cased; empty when not said."""
    services: Mapping[str, Service]
    """By name, `openai` and `mcp`; where both forms are present, the URL."""
    notes: Mapping[str, str]
    """The agent's own bind finding for a service name; empty notes are left out."""


@dataclass(frozen=True, slots=True)
class Actor:
    """One placed worker process."""

    id: str
    name: str
    node_id: str
    state: ActorState
    reason: str
    """Why it is `dead`; the daemon's own word for `other`; else empty."""


@dataclass(frozen=True, slots=True)
class GroupView:
    """One model deployment as one daemon sees it."""

    agents: tuple[Agent, ...]
    """Ordered by id."""
    actors: tuple[Actor, ...]
    """Ordered by id."""
    gpus_used: int = 0
    """GPUs of the group that are placed, as the daemon counts them."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Another daemon that this daemon has in its mesh."""

    node_id: str
    node_ip: str
    link_ip: str
    """Address of the mesh link in use; empty when not said."""
    addrs: tuple[str, ...]
    http_port: int
    """0: it did not say its HTTP address."""
    alive: bool
    stale: bool
    control_addr: str = ""
    """Where other daemons dial it, `10.0.0.2:6379`; empty when not said."""


@dataclass(frozen=True, slots=True)
class View:
    """Everything that one daemon reports at one time."""

    generation: Generation
    node_id: str
    node_ip: str
    hostname: str
    addrs: tuple[str, ...]
    """Reachable addresses in the node's own order of preference."""
    peers: tuple[Peer, ...]
    """Ordered by node_id."""
    groups: Mapping[str, GroupView]


@dataclass(frozen=True, slots=True)
class Reading:
    """What `read_snapshot` made of a document."""

    view: View
    problems: tuple[Problem, ...]


def read_snapshot(raw: bytes) -> Reading:
    """Read a `/status` document of either generation.

    One bad row is left out and reported; absent optional fields read as empty. Tables are taken as arrays or
    as objects in both generations; of two rows with one id the last wins.
    Raises WireError when it is no JSON object, or its `proto` major is neither 0 nor 1.
    """
    document = decode_object(raw)
    proto = document.get("proto")
    if proto is not None and not is_spoken(proto):
        raise WireError(f"its proto is {show(proto)}; majors 0 and 1 are understood")
    fields = Fields(document)
    peers = fields.rows("peers", "node_id")
    groups = fields.rows("groups", "name")
    view = View(
        generation="A" if proto is None else "B",
        node_id=fields.text("node_id"),
        node_ip=fields.text("node_ip"),
        hostname=fields.text("hostname"),
        addrs=fields.texts("addrs", limit=MAX_ADDRS),
        peers=tuple(_read_peer(node_id, peers[node_id]) for node_id in sorted(peers)),
        groups={name: _read_group(groups[name]) for name in sorted(groups)},
    )
    return Reading(view=view, problems=fields.problems())


def read_control(row: Fields) -> str:
    """A daemon's control address: `control_addr`, or generation B's `control_port` of its `node_ip`."""
    if port := row.integer("control_port", high=65535):
        return join(row.text("node_ip"), port)
    return row.text("control_addr")


def _read_peer(node_id: str, row: Fields) -> Peer:
    return Peer(
        node_id=node_id,
        node_ip=row.text("node_ip"),
        link_ip=row.text("link_ip"),
        addrs=row.texts("addrs", limit=MAX_ADDRS),
        http_port=row.integer("http_port", high=65535),
        alive=row.flag("alive", absent=True),
        stale=row.flag("stale"),
        control_addr=read_control(row),
    )


def _read_group(row: Fields) -> GroupView:
    agents = row.rows("agents", "id")
    actors = row.rows("actors", "id")
    return GroupView(
        agents=tuple(_read_agent(id_, agents[id_]) for id_ in sorted(agents)),
        actors=tuple(_read_actor(id_, actors[id_]) for id_ in sorted(actors)),
        gpus_used=row.integer("gpus_used"),
    )


def _read_agent(id_: str, row: Fields) -> Agent:
    announced = read_services(row)
    return Agent(
        id=id_,
        node_ip=row.text("node_ip"),
        node_id=row.text("node_id"),
        container=row.text("container"),
        alive=row.flag("alive", absent=True),
        degraded=row.flag("degraded"),
        gpus=(row.child("machine") if "machine" in row else row).count("gpus", high=MAX_GPUS),
        provider=announced.provider,
        services=announced.services,
        notes=announced.notes,
    )


def _read_actor(id_: str, row: Fields) -> Actor:
    state, reason = _read_state(row.text("state"), row.text("reason"))
    return Actor(id=id_, name=row.text("name"), node_id=row.text("node_id"), state=state, reason=reason)


def _read_state(text: str, reason: str) -> tuple[ActorState, str]:
    """Generation A puts the reason of a death in brackets behind the word, B into a field of its own."""
    match text:
        case "spawning" | "running":
            return text, ""
        case "dead":
            return "dead", reason
        case _ if text.startswith("dead (") and text.endswith(")"):
            return "dead", reason or text[len("dead (") : -1]
    return "other", text
