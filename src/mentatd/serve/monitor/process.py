"""What the process uses of its machine."""

from __future__ import annotations

import resource
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class Process:
    """This process, now."""

    started: float
    """Unix seconds."""
    cpu_s: float
    """User and system time so far."""
    virtual_bytes: int
    resident_bytes: int
    open_fds: int
    max_fds: float
    """How many it may have open."""


def read_process() -> Process | None:
    """Reads some files, for about 0.2 ms; None where the system does not tell."""
    process = psutil.Process()
    try:
        with process.oneshot():
            cpu, memory = process.cpu_times(), process.memory_info()
            return Process(
                started=process.create_time(),
                cpu_s=cpu.user + cpu.system,
                virtual_bytes=memory.vms,
                resident_bytes=memory.rss,
                open_fds=process.num_fds(),
                max_fds=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            )
    except (psutil.Error, OSError):
        return None
