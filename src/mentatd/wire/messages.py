"""The messages of the control port as typed values, both generations (wire.md section 4).

Those of a mesh link are in `mesh`.

Each message is a small frozen value; `read_message` makes one from a frame's header and `write_message` the
header from one. Where the generations differ in a message, it carries its own `generation`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec

from mentatd.wire import mesh
from mentatd.wire.fields import Fields
from mentatd.wire.machine import Machine, read_machine, write_machine
from mentatd.wire.mesh import PeerEvent, PeerHello, PeerHelloOk, PeerStatus
from mentatd.wire.rawjson import show
from mentatd.wire.service import Announced, Service, read_services, write_services
from mentatd.wire.version import PROTO, Generation, is_spoken


@dataclass(frozen=True, slots=True)
class AgentRegister:
    """Opens an agent link."""

    generation: Generation
    req: int
    agent_id: str
    """`<group>@<container>@<node_ip>` by custom; never empty."""
    group: str
    """Never empty."""
    node_ip: str = ""
    """Empty leaves it to the daemon."""
    container: str = ""
    pid: int = 0
    machine: Machine = field(default_factory=Machine)
    services: Mapping[str, Service] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    """By service name; empty ones are left out."""
    provider: str = ""
    """Of the `openai` service; trimmed and lower-cased. Generation B cannot carry it without that service."""


@dataclass(frozen=True, slots=True)
class AgentRegisterOk:
    generation: Generation
    req: int
    node_id: str


@dataclass(frozen=True, slots=True)
class ServiceNote:
    """The agent's own finding about one of its services. An empty note clears it."""

    service: str
    note: str


@dataclass(frozen=True, slots=True)
class Ping:
    req: int = 0


@dataclass(frozen=True, slots=True)
class Pong:
    req: int = 0


@dataclass(frozen=True, slots=True)
class Hello:
    """Opens a client link."""

    generation: Generation
    req: int
    client_id: str
    group: str = ""
    session: bool = False
    """True for the one connection of a driver whose end reaps the group."""
    kind: str = "cli"


@dataclass(frozen=True, slots=True)
class HelloOk:
    generation: Generation
    req: int
    node_id: str
    node_ip: str = ""
    control_addr: str = ""
    head_node_id: str = ""


@dataclass(frozen=True, slots=True)
class Status:
    req: int
    group: str | None = None
    """None: every group."""


@dataclass(frozen=True, slots=True)
class StatusOk:
    generation: Generation
    req: int
    snapshot: bytes
    """The snapshot's JSON."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Opens a connection of its own to ask who answers there."""

    generation: Generation
    req: int
    node_id: str = ""
    """Of the asking daemon."""


@dataclass(frozen=True, slots=True)
class ProbeOk:
    generation: Generation
    req: int
    node_id: str


@dataclass(frozen=True, slots=True)
class Err:
    """The answer to what was refused or not understood."""

    req: int
    error: str
    code: str = ""
    """`proto_mismatch`, `bad_first_frame`, `agent_refused`, `unknown_message`, `no_head`, …; may be empty."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A message that this project does not read; a newer one, or one of placement. The link stays open."""

    type: str
    req: int


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A known message with a part that is wrong."""

    type: str
    req: int
    error: str
    """Which field is wrong and how; fit to be sent back as `Err.error`."""
    code: str = ""
    """Fit to be sent back as `Err.code`."""


Message = (
    AgentRegister
    | AgentRegisterOk
    | ServiceNote
    | Ping
    | Pong
    | Hello
    | HelloOk
    | Status
    | StatusOk
    | Probe
    | ProbeOk
    | PeerHello
    | PeerHelloOk
    | PeerStatus
    | PeerEvent
    | Err
)


def read_message(header: Mapping[str, Any]) -> Message | Unknown | Unreadable:
    """The message that a frame's header holds. Never raises."""
    fields = Fields(header)
    type_, req = fields.text("t"), fields.integer("req")
    reader = _READERS.get(type_)
    if reader is None:
        return Unknown(type_, req)
    proto = fields.peek("proto")
    if type_ in _OPENING and proto is not None and not is_spoken(proto):
        error = f"proto {show(proto)} is not spoken here, only {PROTO} and majors 0 and 1"
        return Unreadable(type_, req, error, "proto_mismatch")
    message = reader(fields, req, "A" if proto is None else "B")
    if problems := fields.problems():
        error = f"{type_}: {problems[0].path}: {problems[0].message}"
        return Unreadable(type_, req, error, "agent_refused" if type_ == "agent_register" else "")
    return message


def write_message(message: Message) -> dict[str, Any]:
    """The header for `frames.encode`. Raises ValueError for a service that generation B cannot say."""
    type_ = _TYPES[type(message)]
    header = {"t": type_, **_body(message)}
    if type_ in _OPENING and header.pop("generation", "A") == "B":
        header["proto"] = PROTO
    return header


def _body(message: Message) -> dict[str, Any]:
    match message:
        case AgentRegister():
            return _register_body(message)
        case HelloOk(generation="A"):
            body = asdict(message)
            body["gcs_address"] = body.pop("control_addr")
            return body
        case StatusOk():
            key = "data" if message.generation == "A" else "snapshot"
            return {"req": message.req, key: msgspec.Raw(message.snapshot)}
        case PeerHello() | PeerHelloOk() | PeerStatus() | PeerEvent():
            return mesh.body(message)
        case Err():
            code = {"code": message.code} if message.code else {}
            proto = {"proto": PROTO} if message.code == "proto_mismatch" else {}
            return {"req": message.req, "error": message.error, **code, **proto}
    return asdict(message)


def _register_body(message: AgentRegister) -> dict[str, Any]:
    announced = Announced(message.services, message.notes, message.provider)
    return {
        "generation": message.generation,
        "req": message.req,
        "agent_id": message.agent_id,
        "group": message.group,
        "node_ip": message.node_ip,
        "container": message.container,
        "pid": message.pid,
        **write_machine(message.machine, message.generation),
        **write_services(announced, message.generation),
        "resume": [],
        "unacked_refs": [],
    }


def _read_register(fields: Fields, req: int, generation: Generation) -> AgentRegister:
    announced = read_services(fields)
    return AgentRegister(
        generation=generation,
        req=req,
        agent_id=fields.required_text("agent_id"),
        group=fields.required_text("group"),
        node_ip=fields.text("node_ip"),
        container=fields.text("container"),
        pid=fields.integer("pid"),
        machine=read_machine(fields),
        services=announced.services,
        notes=announced.notes,
        provider=announced.provider,
    )


def _read_hello(fields: Fields, req: int, generation: Generation) -> Hello:
    return Hello(
        generation=generation,
        req=req,
        client_id=fields.text("client_id"),
        group=fields.text("group"),
        session=fields.flag("session"),
        kind=fields.text("kind"),
    )


def _read_hello_ok(fields: Fields, req: int, generation: Generation) -> HelloOk:
    return HelloOk(
        generation=generation,
        req=req,
        node_id=fields.text("node_id"),
        node_ip=fields.text("node_ip"),
        control_addr=fields.text("control_addr") or fields.text("gcs_address"),
        head_node_id=fields.text("head_node_id"),
    )


def _read_status_ok(fields: Fields, req: int, _generation: Generation) -> StatusOk:
    """Its generation shows in the name of the member alone: only opening frames carry `proto`."""
    generation: Generation = "B" if "snapshot" in fields else "A"
    return StatusOk(generation, req, fields.as_json("snapshot" if generation == "B" else "data"))


_READERS: dict[str, Callable[[Fields, int, Generation], Message]] = {
    "agent_register": _read_register,
    "agent_register_ok": lambda f, req, generation: AgentRegisterOk(generation, req, f.text("node_id")),
    "service_note": lambda f, _req, _: ServiceNote(f.required_text("service"), f.text("note")),
    "ping": lambda _f, req, _: Ping(req),
    "pong": lambda _f, req, _: Pong(req),
    "hello": _read_hello,
    "hello_ok": _read_hello_ok,
    "status": lambda f, req, _: Status(req, f.text("group") or None),
    "status_ok": _read_status_ok,
    "probe": lambda f, req, generation: Probe(generation, req, f.text("node_id")),
    "probe_ok": lambda f, req, generation: ProbeOk(generation, req, f.text("node_id")),
    "peer_hello": lambda f, req, generation: PeerHello(generation, req, mesh.read_node(f)),
    "peer_hello_ok": lambda f, req, generation: PeerHelloOk(generation, req, mesh.read_node(f)),
    "peer_status": lambda f, _req, _: mesh.read_status(f),
    "peer_event": lambda f, _req, _: mesh.read_event(f),
    "err": lambda f, req, _: Err(req, f.text("error"), f.text("code")),
}

_TYPES: dict[type[Message], str] = {
    AgentRegister: "agent_register",
    AgentRegisterOk: "agent_register_ok",
    ServiceNote: "service_note",
    Ping: "ping",
    Pong: "pong",
    Hello: "hello",
    HelloOk: "hello_ok",
    Status: "status",
    StatusOk: "status_ok",
    Probe: "probe",
    ProbeOk: "probe_ok",
    PeerHello: "peer_hello",
    PeerHelloOk: "peer_hello_ok",
    PeerStatus: "peer_status",
    PeerEvent: "peer_event",
    Err: "err",
}

_OPENING = frozenset(
    {
        *("agent_register", "agent_register_ok", "hello", "hello_ok", "probe", "probe_ok"),
        *("peer_hello", "peer_hello_ok"),
    }
)
"""The first frame of each side of a link: these say the generation by `proto`."""
