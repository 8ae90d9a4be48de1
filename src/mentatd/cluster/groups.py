"""The merge: every daemon's newest view into one `Group` per group name (manual "Discovery", wire.md section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mentatd.cluster.sources import AllowedSources, LocalNetworks
from mentatd.wire.service import Service
from mentatd.wire.snapshot import Agent, View


@dataclass(frozen=True, slots=True)
class SeenView:
    """A daemon's newest view and when it was read."""

    daemon: str
    """The watched HTTP address, `10.0.0.1:6380` or `[fd00::1]:6380`."""
    view: View
    at: float
    """Monotonic seconds."""
    trusted: bool = True
    """Learned from a seed or a signed announcement, directly or through peers of such a daemon: its endpoints
    may be sent the engines' key."""


@dataclass(frozen=True, slots=True)
class Group:
    """One model deployment as the router believes it to be."""

    name: str
    daemon: str
    """Whose view won."""
    trusted: bool
    agents: tuple[Agent, ...]
    """The winning view's agents, dead ones too."""
    agents_alive: int
    actors_running: int
    actors: int
    """In any state."""
    gpus: int
    """Offered by living agents."""
    openai: Service | None
    """The announced endpoint: that of the lexically first living agent that announces one."""
    openai_agent: str
    """That agent's id; empty when none announces."""
    openai_note: str | None
    """That agent's bind finding."""
    provider: str
    """That agent's provider; empty when not said."""
    candidates: tuple[str, ...]
    """Base URLs to probe, best first. Empty: none announced, or no address passes ALLOWED_SOURCES."""
    mcp: Service | None
    mcp_candidates: tuple[str, ...]


def merge(
    views: Mapping[str, SeenView],
    *,
    now: float,
    stale_after: float,
    local: LocalNetworks,
    sources: AllowedSources,
) -> dict[str, Group]:
    """Merge the views that are not older than `stale_after` seconds, one entry per group name, ordered by name.

    Two daemons disagree: more running actors wins, then more living agents, then the lower address.
    """
    raise NotImplementedError
