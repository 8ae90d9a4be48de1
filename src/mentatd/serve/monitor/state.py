"""What `/metrics` shows, gathered in one moment.

The counters themselves are not copied: they go on counting while a page is written, of which each piece is made at
once and so is true in itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from mentatd.cluster.routes import RouteTable
from mentatd.serve.daemon import Daemon
from mentatd.serve.inflight import Inflight
from mentatd.serve.monitor.lag import Lag
from mentatd.serve.monitor.stats import carried
from mentatd.serve.monitor.timeline import ProbeCount, Timeline
from mentatd.serve.monitor.traffic import Distribution, Line, Traffic
from mentatd.serve.status import Published


@dataclass(frozen=True, slots=True)
class DaemonState:
    """One watched daemon."""

    address: str
    up: bool
    """Its last poll succeeded."""
    age_s: float | None
    """Since it was last read; None before the first time."""


@dataclass(frozen=True, slots=True)
class State:
    """Everything that `/metrics` shows."""

    at: float
    """Monotonic seconds."""
    started: float
    """Unix seconds."""
    lines: tuple[tuple[tuple[str, str], Line], ...]
    """By model and group."""
    refusals: Mapping[tuple[str, str, str], int]
    """By model, group and code."""
    in_flight: Mapping[tuple[str, str], int]
    """By model and group."""
    table: RouteTable
    probes_of: Callable[[str], ProbeCount]
    """By group name."""
    daemons: tuple[DaemonState, ...]
    announcements: Mapping[str, int]
    """By what became of them."""
    connections: Mapping[str, int]
    """Open ones by side, `client` and `engine`."""
    lag: Distribution


@dataclass(frozen=True, slots=True)
class Sources:
    """Who keeps the counters."""

    cluster: Published
    inflight: Inflight
    traffic: Traffic
    timeline: Timeline
    lag: Lag
    daemons: Callable[[], Iterable[Daemon]]
    announcements: Callable[[], Mapping[str, int]]
    """Datagrams so far, by what became of them."""
    connections: Callable[[], Mapping[str, int]]
    """Open connections by side."""
    started: float
    """Unix seconds."""


def take(sources: Sources, now: float) -> State:
    """Everything as it is at `now`, monotonic seconds."""
    return State(
        at=now,
        started=sources.started,
        lines=tuple(sources.traffic.lines.items()),
        refusals=dict(sources.traffic.refusals),
        in_flight=carried(sources.inflight.rows()),
        table=sources.cluster.table,
        probes_of=sources.timeline.probes_of,
        daemons=tuple(
            DaemonState(
                daemon.claim.address,
                daemon.connected,
                None if daemon.read_at is None else now - daemon.read_at,
            )
            for daemon in sources.daemons()
        ),
        announcements=dict(sources.announcements()),
        connections=sources.connections(),
        lag=sources.lag.seen,
    )
