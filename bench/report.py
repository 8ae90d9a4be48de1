"""Rows of measurements to a table."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.load import Load
from bench.workloads import Workload


@dataclass(frozen=True, slots=True)
class Row:
    """One workload through one program, once."""

    program: str
    workload: str
    load: Load
    cpu_us: float
    """Of the program, for each unit of the workload."""
    idle_kib: int
    """Resident before any work."""
    peak_kib: int
    """Resident at most during this workload."""


def median(rows: Sequence[Row], value: Callable[[Row], float]) -> float:
    return statistics.median(value(row) for row in rows)


def spread(rows: Sequence[Row], value: Callable[[Row], float], digits: int = 1) -> str:
    """The median, and the least and the most beside it."""
    values = [value(row) for row in rows]
    least, most = min(values), max(values)
    return f"{statistics.median(values):.{digits}f} ({least:.{digits}f}–{most:.{digits}f})"


def table(rows: Sequence[Row], workloads: Sequence[Workload]) -> str:
    """Markdown: one line a program, medians over the rounds with their spread."""
    programs = list(dict.fromkeys(row.program for row in rows))
    heads = ["program", "idle MiB"]
    lines = {program: [program] for program in programs}
    for program in programs:
        mine = [row for row in rows if row.program == program]
        lines[program].append(f"{median(mine, lambda row: row.idle_kib) / 1024:.0f}")
    for workload in workloads:
        heads += _heads(workload)
        for program in programs:
            mine = [row for row in rows if (row.program, row.workload) == (program, workload.name)]
            lines[program] += _cells(workload, mine)
    out = [heads, ["---"] * len(heads), *lines.values()]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in out)


def _heads(workload: Workload) -> list[str]:
    name = workload.name
    if workload.connections == 1:
        return [f"{name} p50 µs", f"{name} p99 µs"]
    cpu = f"{name} CPU µs/{workload.unit}"
    return (
        [cpu, f"{name} p50 µs from engine", f"{name} KiB/stream"]
        if workload.chunks
        else [cpu, f"{name} requests/s"]
    )


def _cells(workload: Workload, rows: Sequence[Row]) -> list[str]:
    if workload.connections == 1:
        return [
            spread(rows, lambda row: row.load.request_p50, 0),
            spread(rows, lambda row: row.load.request_p99, 0),
        ]
    cpu = spread(rows, _cpu)
    if workload.chunks:
        return [
            cpu,
            spread(rows, lambda row: row.load.chunk_p50, 0),
            f"{median(rows, lambda row: row.peak_kib - row.idle_kib) / workload.connections:.1f}",
        ]
    return [cpu, f"{median(rows, lambda row: row.load.requests / row.load.seconds):.0f}"]


def ratios(rows: Sequence[Row], workloads: Sequence[Workload], ours: str, limit: str) -> str:
    """One line for each workload: our cost in units of the near-limit's."""
    out = []
    for workload in workloads:
        alone = workload.connections == 1
        cost, least = (
            median(
                [row for row in rows if (row.program, row.workload) == (program, workload.name)],
                _latency if alone else _cpu,
            )
            for program in (ours, limit)
        )
        beside = f"{cost - least:+.0f} µs at the median beside" if alone else f"{cost / least:.2f} ×"
        out.append(f"{workload.name}: {beside} {limit}")
    return "\n".join(out)


def _latency(row: Row) -> float:
    return row.load.request_p50


def _cpu(row: Row) -> float:
    return row.cpu_us
