"""The messages of the control port as typed values, both generations (wire.md section 4).

Each message is a small frozen value; `read_message` makes one from a frame's header and `write_message` the
header from one. Where the generations differ in a message, it carries its own `generation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mentatd.wire.machine import Machine
from mentatd.wire.service import Service
from mentatd.wire.version import Generation


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
    | Err
)


def read_message(header: Mapping[str, Any]) -> Message | Unknown | Unreadable:
    """The message that a frame's header holds. Never raises."""
    raise NotImplementedError


def write_message(message: Message) -> dict[str, Any]:
    """The header for `frames.encode`. Raises ValueError for a service that generation B cannot say."""
    raise NotImplementedError
