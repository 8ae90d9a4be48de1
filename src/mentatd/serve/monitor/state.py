"""What the counters stand at, copied in one moment, so that a thread can render it while requests go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from mentatd.cluster.routes import verdict
from mentatd.serve.daemon import Daemon
from mentatd.serve.inflight import Inflight
from mentatd.serve.monitor.lag import Lag
from mentatd.serve.monitor.stats import carried
from mentatd.serve.monitor.timeline import Timeline
from mentatd.serve.monitor.traffic import Distribution, Traffic
from mentatd.serve.status import Published


@dataclass(frozen=True, slots=True)
class Durations:
    """A copy of a `Distribution`."""

    counts: tuple[int, ...]
    """By bucket, not accumulated."""
    total: float
    """Seconds."""


@dataclass(frozen=True, slots=True)
class LineState:
    """The counters of one model on one group."""

    model: str
    group: str
    outcomes: Mapping[str, int]
    """Requests by outcome."""
    ttfb: Durations
    duration: Durations
    in_bytes: int
    out_bytes: int


@dataclass(frozen=True, slots=True)
class GroupState:
    """One group and its probes."""

    name: str
    admitted: bool
    probes_ok: int
    probes_failed: int
    probe_duration: Durations


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

    started: float
    """Unix seconds."""
    lines: tuple[LineState, ...]
    refusals: Mapping[tuple[str, str, str], int]
    """By model, group and code."""
    in_flight: Mapping[tuple[str, str], int]
    """By model and group."""
    groups: tuple[GroupState, ...]
    daemons: tuple[DaemonState, ...]
    announcements: Mapping[str, int]
    """By what became of them."""
    connections: Mapping[str, int]
    """Open ones by side, `client` and `engine`."""
    lag: Durations


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
    """Copy everything as it is at `now`, monotonic seconds. About a microsecond for each line."""
    return State(
        started=sources.started,
        lines=tuple(
            LineState(
                model,
                group,
                dict(line.outcomes),
                _copy(line.ttfb),
                _copy(line.duration),
                line.in_bytes,
                line.out_bytes,
            )
            for (model, group), line in sources.traffic.lines.items()
        ),
        refusals=dict(sources.traffic.refusals),
        in_flight=carried(sources.inflight.rows()),
        groups=tuple(_groups(sources, now)),
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
        lag=_copy(sources.lag.seen),
    )


def _groups(sources: Sources, now: float) -> Iterable[GroupState]:
    for name, state in sources.cluster.table.groups.items():
        probes = sources.timeline.probes_of(name)
        yield GroupState(
            name,
            verdict(state, now=now) is None,
            probes.ok,
            probes.failed,
            _copy(probes.duration),
        )


def _copy(distribution: Distribution) -> Durations:
    return Durations(tuple(distribution.counts), distribution.total)
