"""One workload through one program: what the load generator saw, and what the program used meanwhile."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Mapping

from bench.clients import GRACE_S
from bench.programs import Running
from bench.seen import Seen, heard
from bench.usage import Moment, family, forget_peak, moment
from bench.workloads import Workload

LIMIT_S = 60.0
"""For one run of the load generator beyond its own time, after which it is ended."""
BEFORE, AFTER = "before", "after"


def run(
    running: Running, workload: Workload, cores: str, *, loose: bool = False
) -> tuple[Seen, dict[str, Moment]]:
    """The load generator on these cores; what the program had used at the start, at each mark and at the end.

    Raises OSError when the program is gone, RuntimeError when the load generator failed.
    """
    pids = family(running.pid) if running.pid else []
    forget_peak(pids)
    moments = {BEFORE: moment(pids)}
    seen = Seen(errors=1, first_error="the load generator did not say what it saw")
    argv = [sys.executable, "-m", "bench.load", str(running.port), workload.name]
    argv = [
        "taskset",
        "--cpu-list",
        cores,
        *argv,
        "--prefix",
        running.prefix,
        *(["--loose"] if loose else []),
    ]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as load:
        limit = threading.Timer(workload.seconds + GRACE_S + LIMIT_S, load.kill)
        limit.start()
        try:
            for line in load.stdout or ():
                match heard(line):
                    case str(phase):
                        moments[phase] = moment(pids)
                    case Seen() as told:
                        seen = told
        finally:
            limit.cancel()
            load.kill()
    moments[AFTER] = moment(pids)
    return seen, moments if pids else {}


def figures(workload: Workload, seen: Seen, moments: Mapping[str, Moment], idle_kib: int) -> dict[str, float]:
    """What was seen and what was used, by name. `idle_kib`: resident before the first load."""
    return dict(seen.figures) | (_used(workload, seen, moments, idle_kib) if moments else {})


def _used(workload: Workload, seen: Seen, moments: Mapping[str, Moment], idle_kib: int) -> dict[str, float]:
    before, after = moments[BEFORE], moments[AFTER]
    match workload.kind:
        case "single" | "loop":
            units = max(1.0, seen.figures[f"{workload.unit}s"])
            return {
                "cpu_us": round((after.cpu_ns - before.cpu_ns) / 1e3 / units, 2),
                "memory_kib": round((after.peak_kib - idle_kib) / workload.connections, 2),
            }
        case "large":
            start, end = moments["large"], moments["answered"]
            return {
                "growth_mib": _mib(after.peak_kib - start.rss_kib),
                "cpu_ms": round((end.cpu_ns - start.cpu_ns) / 1e6, 1),
            }
        case "idle":
            start, end = moments["rest"], moments["rested"]
            return {
                "memory_kib": round((end.rss_kib - before.rss_kib) / workload.connections, 2),
                "cpu_ms_per_s": round((end.cpu_ns - start.cpu_ns) / 1e6 / (end.at - start.at), 2),
            }
        case "slow":
            return {"growth_mib": _mib(moments["unread"].peak_kib - before.rss_kib)}


def _mib(kib: int) -> float:
    return round(kib / 1024, 2)
