"""What a program uses, as the kernel counts it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


def family(pid: int) -> list[int]:
    """The process and all its descendants."""
    children: dict[int, list[int]] = {}
    for stat in PROC.glob("[0-9]*/stat"):
        try:
            # the name stands in brackets and may hold anything
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = [pid]
    for member in found:
        found += children.get(member, [])
    return found


def cpu_ns(pids: list[int]) -> int:
    """Nanoseconds on a processor so far, user and kernel, all threads."""
    return sum(
        int(schedstat.read_text().split()[0])
        for pid in pids
        for schedstat in (PROC / str(pid) / "task").glob("*/schedstat")
    )


def memory_kib(pids: list[int], key: str = "VmRSS") -> int:
    """Resident memory now, or with `VmHWM` at its highest since `forget_peak`; shared pages count for each."""
    total = 0
    for pid in pids:
        for line in (PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith(f"{key}:"):
                total += int(line.split()[1])
    return total


def forget_peak(pids: list[int]) -> None:
    """Let `VmHWM` begin anew."""
    for pid in pids:
        (PROC / str(pid) / "clear_refs").write_text("5")


@dataclass(frozen=True, slots=True)
class Moment:
    """What a program has used until now."""

    at: float
    """Monotonic seconds."""
    cpu_ns: int
    rss_kib: int
    """Resident now."""
    peak_kib: int
    """Resident at most since `forget_peak`."""


def moment(pids: list[int]) -> Moment:
    """Raises OSError when one of them is gone."""
    return Moment(time.monotonic(), cpu_ns(pids), memory_kib(pids), memory_kib(pids, "VmHWM"))
