"""The messages of a mesh link, which two daemons hold between them (wire.md section 4).

`messages` reads and writes them among all the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec

from mentatd.wire.announcement import MAX_TAGS
from mentatd.wire.fields import Fields
from mentatd.wire.hostport import split
from mentatd.wire.snapshot import MAX_ADDRS, read_control
from mentatd.wire.version import Generation


@dataclass(frozen=True, slots=True)
class MeshNode:
    """What a daemon says of itself when a mesh link opens."""

    node_id: str
    """Never empty."""
    node_ip: str = ""
    control_addr: str = ""
    """`10.0.0.1:6379`. Generation B says the port alone, of its `node_ip`."""
    http_port: int = 0
    """0: it does not say."""
    addrs: tuple[str, ...] = ()
    """Reachable addresses in its own order of preference."""
    addr_tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Operator's tags of each address, such as `rdma`."""
    addr_ifaces: Mapping[str, str] = field(default_factory=dict)
    """Interface of each address."""
    probes: bool = False
    """It answers `probe`."""


@dataclass(frozen=True, slots=True)
class PeerHello:
    """Opens a mesh link."""

    generation: Generation
    req: int
    node: MeshNode


@dataclass(frozen=True, slots=True)
class PeerHelloOk:
    generation: Generation
    req: int
    node: MeshNode


@dataclass(frozen=True, slots=True)
class PeerStatus:
    """The sender's own snapshot, and its sign of life."""

    generation: Generation
    snapshot: bytes
    """JSON, as `snapshot.read_snapshot` reads it."""


@dataclass(frozen=True, slots=True)
class PeerEvent:
    """One event of the sender; it goes no further than to those who listen at the receiver."""

    generation: Generation
    origin: str
    """`node_id` of the daemon whose event it is."""
    event: bytes
    """JSON, an object."""


def body(message: PeerHello | PeerHelloOk | PeerStatus | PeerEvent) -> dict[str, Any]:
    """The members of a message, an opening frame's `generation` among them."""
    older = message.generation == "A"
    if isinstance(message, PeerStatus):
        return {"req": 0, "data" if older else "snapshot": msgspec.Raw(message.snapshot)}
    if isinstance(message, PeerEvent):
        event = {"line": message.event.decode()} if older else {"event": msgspec.Raw(message.event)}
        return {"req": 0, "origin": message.origin} | event
    said = {"generation": message.generation, "req": message.req} | asdict(message.node)
    if not older:
        said["control_port"] = split(said.pop("control_addr"))[1]
    return said


def read_node(fields: Fields) -> MeshNode:
    """The node in an opening frame of either generation."""
    addrs = fields.texts("addrs", limit=MAX_ADDRS)
    tags, ifaces = fields.child("addr_tags"), fields.child("addr_ifaces")
    return MeshNode(
        node_id=fields.required_text("node_id"),
        node_ip=fields.text("node_ip"),
        control_addr=read_control(fields),
        http_port=fields.integer("http_port", high=65535),
        addrs=addrs,
        addr_tags={addr: tags.texts(addr, limit=MAX_TAGS) for addr in addrs if addr in tags},
        addr_ifaces={addr: ifaces.text(addr) for addr in addrs if addr in ifaces},
        probes=fields.flag("probes"),
    )


def read_status(fields: Fields) -> PeerStatus:
    """Its generation shows in the name of the member."""
    generation: Generation = "B" if "snapshot" in fields else "A"
    return PeerStatus(generation, fields.as_json("snapshot" if generation == "B" else "data"))


def read_event(fields: Fields) -> PeerEvent:
    """An event of either generation: A has it as text in `line`."""
    origin = fields.required_text("origin")
    if "event" in fields:
        return PeerEvent("B", origin, fields.as_json("event"))
    return PeerEvent("A", origin, fields.json_text("line"))
