"""A daemon's `/status` document, written in either generation (wire.md section 1); `snapshot` reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mentatd.wire.machine import Machine
from mentatd.wire.snapshot import Agent, View
from mentatd.wire.version import Generation


@dataclass(frozen=True, slots=True)
class AgentDetail:
    """What a daemon knows of an agent beside `Agent`."""

    machine: Machine = field(default_factory=Machine)
    pid: int = 0
    gone_since_ms: int | None = None
    """Unix milliseconds since which its link is down; None while it is up. Generation B only."""


@dataclass(frozen=True, slots=True)
class DaemonDetail:
    """What a daemon says of itself beside its `View`."""

    control_addr: str = ""
    """`10.0.0.1:6379`."""
    addr_tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    addr_ifaces: Mapping[str, str] = field(default_factory=dict)
    """Interface of each address. Generation B only."""
    seq: int = 0
    """Of the last event that the view contains. Generation B only."""
    boot_id: str = ""
    """Changes with the process. Generation B only."""
    counters: Mapping[str, int] = field(default_factory=dict)
    agents: Mapping[str, AgentDetail] = field(default_factory=dict)
    """By agent id."""


def write_snapshot(view: View, detail: DaemonDetail | None = None) -> bytes:
    """The document as JSON, in the generation that `view` names; `read_snapshot` gives back the same view.

    Generation B says a URL form only as `http://host:port/path`: a service that has no such form is left out.
    """
    raise NotImplementedError


def agent_row(agent: Agent, detail: AgentDetail, generation: Generation) -> dict[str, Any]:
    """One agent's row, with its `id` in generation A and without in B (the `value` of an event's patch)."""
    raise NotImplementedError
