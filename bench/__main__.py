"""`python -m bench`: every workload through every program in turn, then one table on standard output."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from bench.load import Load
from bench.programs import PROGRAMS, Running, engine
from bench.report import Row, ratios, table
from bench.usage import cpu_ns, family, forget_peak, memory_kib
from bench.workloads import WORKLOADS, Workload

WARM_S = 0.5
SETTLE_S = 0.5
"""After the start, before the memory of an idle program is read."""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("-r", "--rounds", type=int, default=3)
    parser.add_argument("-w", "--workloads", default=",".join(WORKLOADS), help="default: %(default)s")
    parser.add_argument("-p", "--programs", default=",".join(PROGRAMS), help="default: %(default)s")
    parser.add_argument(
        "-o", "--output", type=Path, help="append every measurement to this file, a JSON line each"
    )
    return parser.parse_args()


def cores() -> tuple[str, str]:
    """One core for the program under test, the rest for the engine and the load generator."""
    first, *rest = sorted(os.sched_getaffinity(0))
    return str(first), ",".join(map(str, rest or [first]))


def load(port: int, workload: Workload, seconds: float, on: str) -> Load:
    """One run of the load generator, a process of its own."""
    argv = [
        "taskset",
        "--cpu-list",
        on,
        sys.executable,
        "-m",
        "bench.load",
        str(port),
        workload.name,
        str(seconds),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=seconds + 60)
    return Load(**json.loads(done.stdout))


def measure(name: str, running: Running, workload: Workload, idle_kib: int, on: str) -> Row:
    """One workload through one program."""
    pids = family(running.pid)
    forget_peak(pids)
    before = cpu_ns(pids)
    result = load(running.port, workload, workload.seconds, on)
    used = cpu_ns(pids) - before
    units = result.chunks if workload.chunks else result.requests
    return Row(
        name, workload.name, result, round(used / 1e3 / max(1, units), 2), idle_kib, memory_kib(pids, "VmHWM")
    )


def rounds(chosen: argparse.Namespace, folder: Path) -> list[Row]:
    """Every measurement, told as it comes."""
    ours, others = cores()
    rows = []
    for number in range(chosen.rounds):
        for name in chosen.programs.split(","):
            with engine(folder, others) as port, PROGRAMS[name].start(folder, port, ours) as running:
                time.sleep(SETTLE_S)
                idle_kib = memory_kib(family(running.pid))
                load(running.port, WORKLOADS["W1"], WARM_S, others)
                for workload in chosen.workloads.split(","):
                    row = measure(name, running, WORKLOADS[workload], idle_kib, others)
                    rows.append(row)
                    told = row.load.first_error or f"{row.cpu_us} µs, {row.load.requests} requests"
                    print(f"round {number + 1}: {name} {workload}: {told}", file=sys.stderr)
                    if chosen.output:
                        with chosen.output.open("a") as out:
                            out.write(json.dumps(asdict(row)) + "\n")
    return rows


def main() -> int:
    chosen = options()
    if "nginx" in chosen.programs and not shutil.which("nginx"):
        sys.stderr.write(
            "nginx is not installed (apt-get install nginx-light), or leave it out: -p mentatd-serve\n"
        )
        return 1
    with tempfile.TemporaryDirectory(prefix="mentatd-bench-") as folder:
        rows = rounds(chosen, Path(folder))
    workloads = [WORKLOADS[name] for name in chosen.workloads.split(",")]
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}\n")
    for workload in workloads:
        print(f"{workload.name}: {workload.what}")
    print(f"\n{table(rows, workloads)}\n")
    if set(chosen.programs.split(",")) >= {"nginx", "mentatd-serve"}:
        print(ratios(rows, workloads, "mentatd-serve", "nginx"))
    return 1 if any(row.load.errors for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
