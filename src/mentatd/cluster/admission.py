"""The gates between a group and the route table, and the words for the first one shut (wire.md section 6)."""

from __future__ import annotations

from dataclasses import dataclass

from mentatd.cluster.groups import Group
from mentatd.wire.openai import ModelEntry
from mentatd.wire.service import PortService, Service

ERROR_LIMIT = 200
"""A quoted error is cut at this many characters."""

WIRE_LIMIT = 500
"""A text that came over the wire (an address, a note) is cut at this many characters."""

STALE = "endpoint probe stale"


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one candidate answered to its last probe."""

    url: str
    """The base URL tried."""
    error: str | None
    """None when it answered well."""
    seconds: float
    """How long the answer took."""
    at: float
    """When it ended, monotonic seconds."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The newest result of probing one group."""

    at: float
    """When it ended, monotonic seconds."""
    url: str | None
    """The candidate that answered and is in use; None when all failed."""
    attempts: tuple[Attempt, ...]
    """What this round tried, in order."""
    models: tuple[ModelEntry, ...]
    """What the engine lists, in its order; empty when all failed."""
    candidates: tuple[str, ...]
    """The group's candidates that the round was for; see `concerns`."""
    duration_s: float = 0.0
    """From the round's start to `at`."""

    def concerns(self, candidates: tuple[str, ...]) -> bool:
        """Whether the result says something of a group that has `candidates` now.

        Candidates are addresses of one service. An answer holds while any of the list is left, also where its own
        address is gone, so that a link which comes or goes takes no model away until the next result. A failure
        holds for the very list that failed.
        """
        if self.url is None or self.candidates is candidates:
            return self.candidates == candidates
        return not set(candidates).isdisjoint(self.candidates)


def why_not(group: Group, probe: Probe | None, *, now: float, fresh_s: float) -> str | None:
    """The first gate that fails, in wire.md's order and words; None: the group is admitted.

    `fresh_s` is how long a probe result stays valid (PROBE_FRESH_S).
    """
    if group.openai is None:
        return "no announced OpenAI endpoint"
    if not group.candidates:
        what = _announced(group, group.openai)
        return f"announced {what}, and no address of that node passes ALLOWED_SOURCES"
    if not group.actors_running and (group.gpus or group.actors):
        return "no running actors"
    if probe is None or not probe.concerns(group.candidates):
        return "not probed yet"
    if probe.url is None:
        return _failure(probe, group.openai_note)
    if now > probe.at + fresh_s:
        return STALE
    return None


def _announced(group: Group, service: Service) -> str:
    """In the published router's words, which tell the node to look at."""
    if isinstance(service, PortService):
        node = next((agent.node_ip for agent in group.agents if agent.id == group.openai_agent), "")
        return f"port {service.port}{service.path[:WIRE_LIMIT]} on node {node[:WIRE_LIMIT]}"
    return service.url[:WIRE_LIMIT]


def _failure(probe: Probe, note: str | None) -> str:
    tried = "; ".join(
        f"{attempt.url[:WIRE_LIMIT]}: {attempt.error[:ERROR_LIMIT]}"
        for attempt in probe.attempts
        if attempt.error is not None
    )
    reported = f" (agent reports: {note[:WIRE_LIMIT]})" if note else ""
    return f"endpoint probe failed: {tried}{reported}"
