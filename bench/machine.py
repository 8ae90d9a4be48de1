"""What a reader must know of the machine and of the day to judge a figure."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from bench.programs import Peer
from bench.rows import Facts, Listed
from bench.workloads import WORKLOADS, family

PARTS = ("uvloop", "httptools", "msgspec")
"""What the router's speed depends on beside Python."""
NO_CLUSTER = "reads no mentat cluster"


def cores() -> tuple[str, str]:
    """One core for the program under test, the rest for the engine, the daemons and the load generator."""
    first, *rest = sorted(os.sched_getaffinity(0))
    return str(first), ",".join(map(str, rest or [first]))


def facts(peers: Iterable[Peer]) -> Facts:
    """Of now, of this machine, of these programs."""
    ours, others = cores()
    machine = {
        "processor": _line(Path("/proc/cpuinfo"), "model name"),
        "cores": f"{os.cpu_count()}; the program under test has core {ours}, all else {others}",
        "memory": f"{int(_line(Path('/proc/meminfo'), 'MemTotal').split()[0]) / (1 << 20):.1f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        **{part: version(part) for part in PARTS},
        "load before": " ".join(f"{load:.2f}" for load in os.getloadavg()),
    }
    return Facts(time.strftime("%Y-%m-%d %H:%M"), machine, tuple(_listed(peer) for peer in peers))


def _listed(peer: Peer) -> Listed:
    found = peer.version() if peer.installed() else ""
    return Listed(peer.name, peer.what, found, reasons(peer), peer.loose)


def reasons(peer: Peer) -> dict[str, str]:
    """Workloads that the program is not given, each with the reason."""
    left_out = {
        workload.name: NO_CLUSTER for workload in WORKLOADS.values() if workload.fleet and not peer.cluster
    }
    return left_out | {member: why for name, why in peer.cannot.items() for member in family(name)}


def _line(file: Path, key: str) -> str:
    """The value of the first `key: value` line; empty where there is none."""
    for line in file.read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""
