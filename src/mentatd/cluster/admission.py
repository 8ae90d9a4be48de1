"""The gates between a group and the route table, and the words for the first one that is shut (wire.md section 6)."""

from __future__ import annotations

from dataclasses import dataclass

from mentatd.cluster.groups import Group


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One entry of an engine's `/v1/models`."""

    id: str
    """Any non-empty string; compared exactly."""
    json: bytes
    """The engine's own object, every field kept byte for byte, with `owned_by` set to the group."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one candidate answered to its last probe."""

    url: str
    """The base URL tried."""
    error: str | None
    """None when it answered well; cut at 200 characters."""
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
    """The group's candidates that the round was for: a result for other candidates admits nothing."""
    duration_s: float = 0.0


def why_not(group: Group, probe: Probe | None, *, now: float, fresh_s: float) -> str | None:
    """The first gate that fails, in wire.md's order and words; None: the group is admitted.

    `fresh_s` is how long a probe result stays valid (PROBE_FRESH_S).
    """
    raise NotImplementedError
