"""A daemon's `/status` document, of either generation, as one typed `View` (wire.md section 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from mentatd.wire.service import Service

ActorState = Literal["spawning", "running", "dead"]


@dataclass(frozen=True, slots=True)
class Agent:
    """One model container, as its daemon knows it."""

    id: str
    """Unique in its group: `<group>@<container>@<node_ip>` by custom."""
    node_ip: str
    node_id: str
    container: str
    alive: bool
    """False announces nothing."""
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
    """Why it is dead, else empty."""


@dataclass(frozen=True, slots=True)
class GroupView:
    """One model deployment as one daemon sees it."""

    agents: tuple[Agent, ...]
    """Ordered by id."""
    actors: tuple[Actor, ...]
    """Ordered by id."""


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


@dataclass(frozen=True, slots=True)
class View:
    """Everything that one daemon reports at one time."""

    generation: Literal["A", "B"]
    node_id: str
    node_ip: str
    hostname: str
    addrs: tuple[str, ...]
    """Reachable addresses in the node's own order of preference."""
    peers: tuple[Peer, ...]
    """Ordered by node_id."""
    groups: Mapping[str, GroupView]


@dataclass(frozen=True, slots=True)
class Problem:
    """One part of a document that could not be understood and was left out."""

    path: str
    """Where, such as `groups.glm.agents[3].services_ports.openai.port`."""
    message: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What `read_snapshot` made of a document."""

    view: View
    problems: tuple[Problem, ...]


def read_snapshot(raw: bytes) -> Reading:
    """Read a `/status` document of either generation.

    One bad row is left out and reported; absent optional fields read as empty.
    Raises WireError when it is no JSON object, or its `proto` major is neither 0 nor 1.
    """
    raise NotImplementedError
