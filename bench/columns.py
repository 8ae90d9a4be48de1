"""What each workload is judged by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.figures import Summary, Table
from bench.rows import START
from bench.workloads import WORKLOADS, Workload


@dataclass(frozen=True, slots=True)
class Column:
    """One figure, as a table shows it."""

    head: str
    figure: str
    digits: int = 1
    scale: float = 1.0
    """What the raw figure is multiplied by."""
    beside: str = ""
    """Not the figure, but its ratio to the one of this workload in the same round."""

    def summary(self, table: Table, program: str, workload: str) -> Summary | None:
        """None: not measured."""
        if self.beside:
            return table.ratio((program, workload), (program, self.beside), self.figure)
        found = table.summary(program, workload, self.figure)
        if found is None:
            return None
        return Summary(found.median * self.scale, found.least * self.scale, found.most * self.scale)

    def text(self, found: Summary) -> str:
        return format(found, f".{self.digits}f")


_POST = (Column("p50 µs", "request_p50_us", 0), Column("p99 µs", "request_p99_us", 0))
_CHUNK = (
    Column("chunk p50 ms", "chunk_p50_us", 2, 1e-3),
    Column("chunk p99 ms", "chunk_p99_us", 2, 1e-3),
)
_REST = Column("CPU ms/s without requests", "rest_ms_per_s")
_BESIDE: Mapping[str, Sequence[str]] = {"W8": ["W4"], "W9-100": ["W9-10"], "W9-1000": ["W9-10"]}
STARTED = (Column("idle MiB", "idle_mib"), Column("start s", "start_s", 2))


def columns(workload: Workload) -> Sequence[Column]:
    """The first is what the workload is about."""
    match workload.kind:
        case "single":
            return *_POST, Column("CPU µs/request", "cpu_us")
        case "large":
            return (
                Column("growth MiB", "growth_mib"),
                Column("longest stall ms", "chunk_max_us", 1, 1e-3),
                Column("the same before ms", "quiet_max_us", 1, 1e-3),
                Column("answered ms", "large_ms", 0),
                Column("CPU ms", "cpu_ms", 0),
            )
        case "idle":
            return (
                Column("KiB/connection", "memory_kib"),
                Column("CPU ms/s at rest", "cpu_ms_per_s", 2),
                *_POST,
            )
        case "slow":
            return (Column("growth MiB", "growth_mib"), *_POST)
        case "loop":
            return _loop(workload)


def _loop(workload: Workload) -> Sequence[Column]:
    cost = Column(f"CPU µs/{workload.unit}", "cpu_us")
    rate = Column(f"{workload.unit}s/s", "per_s", 0)
    beside = [Column(f"× {other}", "cpu_us", 2, beside=other) for other in _BESIDE.get(workload.name, ())]
    if workload.fleet and not workload.chunks:
        return cost, *beside, rate, *_POST, _REST
    if not workload.chunks:
        return cost, rate, *_POST
    if not workload.pause_ms:
        return cost, rate
    if workload.fleet:
        return cost, *beside, *_CHUNK, _REST
    return cost, *_CHUNK, Column("KiB/stream", "memory_kib")


def key(name: str) -> Column:
    """What the workload, or the start, is about."""
    return STARTED[0] if name == START else columns(WORKLOADS[name])[0]
