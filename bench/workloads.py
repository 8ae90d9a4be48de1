"""The work that every program does in turn."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Workload:
    """One kind of load."""

    name: str
    what: str
    connections: int
    """Held at one time, each with one request in flight."""
    requests: int
    """In all; no more are begun after `seconds`."""
    seconds: float
    body_bytes: int = 1024
    chunks: int = 0
    """Of each answer; 0: the answer is one document."""
    pause_ms: int = 0
    """Between two chunks of one stream."""

    @property
    def unit(self) -> str:
        return "chunk" if self.chunks else "request"


GUARDED = {
    workload.name: workload
    for workload in (
        Workload("I1", "a fixed number of small POSTs", 32, 3_200, 120),
        Workload("I3", "a fixed number of chunks", 20, 20, 120, chunks=100, pause_ms=20),
    )
}
WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("W0", "one small POST at a time", 1, 4_000, 3),
        Workload("W1", "small POSTs, 32 connections", 32, 150_000, 3),
        Workload("W4", "200 streams, a chunk each 20 ms", 200, 400, 12, chunks=100, pause_ms=20),
        Workload("W4k", "1000 streams, a chunk each 20 ms", 1_000, 1_000, 20, chunks=100, pause_ms=20),
    )
}
