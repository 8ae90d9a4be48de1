"""A daemon's `/status` document, of either generation, as one typed `View` (wire.md section 1).

Of a daemon that is read again, what has not changed is the same object in the new view: a group whose row is the
same JSON is not even decoded. A snapshot of 1000 groups takes 45 ms of work the first time and 4 ms after that, and
whoever compares two views sees at once what they share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Literal, TypeVar

import msgspec

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

T = TypeVar("T")
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_DIGEST_SIZE = 16
"""Bytes: no two rows have one digest, not even by design."""


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
    actors_running: int = field(init=False, repr=False, compare=False)
    agents_alive: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # counted once: every merge asks, and a view outlives many
        object.__setattr__(self, "actors_running", [actor.state for actor in self.actors].count("running"))
        object.__setattr__(self, "agents_alive", [agent.alive for agent in self.agents].count(True))


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
    digests: Mapping[str, bytes] = field(default_factory=dict, repr=False, compare=False)
    """Of the JSON of each group that had no problem, by name."""


def read_snapshot(raw: bytes, before: Reading | None = None) -> Reading:
    """Read a `/status` document of either generation; `before` is what the same daemon said earlier.

    One bad row is left out and reported; absent optional fields read as empty. Tables are taken as arrays or
    as objects in both generations; of two rows with one id the last wins. `before` changes no value and no problem:
    what is equal in both views is the same object.
    Raises WireError when it is no JSON object, or its `proto` major is neither 0 nor 1.
    """
    old = _NOTHING if before is None else before
    opened = _open(raw, old)
    proto = opened.document.get("proto")
    if proto is not None and not is_spoken(proto):
        raise WireError(f"its proto is {show(proto)}; majors 0 and 1 are understood")
    fields = Fields(opened.document)
    peers = fields.rows("peers", "node_id")
    rows = fields.rows("groups", "name")
    without_groups = View(
        generation="A" if proto is None else "B",
        node_id=fields.text("node_id"),
        node_ip=fields.text("node_ip"),
        hostname=fields.text("hostname"),
        addrs=fields.texts("addrs", limit=MAX_ADDRS),
        peers=_shared(
            old.view.peers, tuple(_read_peer(node_id, peers[node_id]) for node_id in sorted(peers))
        ),
        groups={},
    )
    groups, digests = _read_groups(fields, rows, opened, old.view.groups)
    view = _shared(old.view, replace(without_groups, groups=groups))
    return Reading(view, fields.problems(), digests)


@dataclass(frozen=True, slots=True)
class _Opened:
    """A document with the rows of its groups told apart."""

    document: dict[str, Any]
    """Its groups are those that have to be read."""
    kept: Mapping[str, GroupView]
    """The other groups, which the reading before has."""
    digests: Mapping[str, bytes]
    """Of every group's row; empty where the document could not be taken apart."""


def _open(raw: bytes, before: Reading) -> _Opened:
    """Raises WireError."""
    try:
        members = _MEMBERS.decode(raw)
        rows = _MEMBERS.decode(members.pop("groups"))
        digests = {name: blake2b(row, digest_size=_DIGEST_SIZE).digest() for name, row in rows.items()}
        groups = before.view.groups
        kept = {
            n: groups[n] for n, digest in digests.items() if n in groups and digest == before.digests.get(n)
        }
        changed = {name: decode_object(bytes(row)) for name, row in rows.items() if name not in kept}
        document = decode_object(msgspec.json.encode(members))
    except (KeyError, RecursionError, msgspec.MsgspecError, WireError):
        return _Opened(decode_object(raw), {}, {})  # it is read whole, and each of its problems reported
    return _Opened(document | {"groups": changed}, kept, digests)


def _read_groups(
    document: Fields, rows: Mapping[str, Fields], opened: _Opened, before: Mapping[str, GroupView]
) -> tuple[dict[str, GroupView], dict[str, bytes]]:
    """The groups by name, and the digests to know them by: a row with a problem is read each time, to report it."""
    groups, digests = {}, dict(opened.digests)
    for name in sorted({*rows, *opened.kept}):
        reported = document.problem_count
        groups[name] = opened.kept.get(name) or _shared(before.get(name), _read_group(rows[name]))
        if document.problem_count > reported:
            digests.pop(name, None)
    return groups, digests


def _shared(old: T | None, new: T) -> T:
    """The old one, if it is equal."""
    return old if old is not None and old == new else new


_NOTHING = Reading(View("A", "", "", "", (), (), {}), ())


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
