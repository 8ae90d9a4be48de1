"""The work that every program does in turn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from bench.answers import MODEL

Kind = Literal["single", "loop", "large", "idle", "slow"]
"""`single`: one request at a time; `loop`: each connection's next request follows its last answer; `large`: one large
body beside streams; `idle`: connections that do nothing; `slow`: a client that does not read."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """A mentat cluster that the program is to follow, each group with a model of its own."""

    daemons: int
    groups: int
    churn: bool = False
    """Each second every daemon reports a change, in a burst, and somebody reads the program's own pages."""

    @property
    def models(self) -> list[str]:
        """Of the groups, which are called like them."""
        return [MODEL, *(f"g{number}" for number in range(1, self.groups))]


@dataclass(frozen=True, slots=True)
class Workload:
    """One kind of load."""

    name: str
    what: str
    kind: Kind
    connections: int
    """Held at one time."""
    seconds: float
    """No more requests are begun after it."""
    body_bytes: int = 1024
    chunks: int = 0
    """Of each answer; 0: the answer is one document."""
    pause_ms: int = 0
    """Between two chunks of one stream."""
    requests: int = 1_000_000
    """In all, at most."""
    fleet: Fleet | None = None
    """None: the program has the one engine."""
    fresh: bool = False
    """For a program that has done nothing yet: what an earlier load has left in its heap would hide growth."""

    @property
    def unit(self) -> str:
        """What CPU is divided by."""
        return "chunk" if self.chunks else "request"

    @property
    def models(self) -> list[str]:
        """Asked in turn."""
        return self.fleet.models if self.fleet else [MODEL]


IDLE_S = 3.0
"""How long W6 rests."""
MIB = 1 << 20
WARM = Workload("warm", "small POSTs before anything is counted", "loop", 32, 0.5)
GUARDED = {
    workload.name: workload
    for workload in (
        Workload("I1", "a fixed number of small POSTs", "loop", 32, 120, requests=3_200),
        Workload("I3", "a fixed number of chunks", "loop", 20, 120, chunks=100, pause_ms=20, requests=20),
    )
}
WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("W0", "one small POST at a time", "single", 1, 1.5),
        Workload("W1", "small POSTs, 32 connections", "loop", 32, 2),
        Workload("W2", "bodies of 64 KiB, 16 connections", "loop", 16, 2, body_bytes=65_536),
        Workload("W3", "16 streams of 200 chunks, as fast as they go", "loop", 16, 2, chunks=200),
        Workload("W4", "200 streams, a chunk each 20 ms", "loop", 200, 3, chunks=100, pause_ms=20),
        Workload("W4k", "1000 streams, a chunk each 20 ms", "loop", 1_000, 1, chunks=100, pause_ms=20),
        Workload(
            "W5",
            "one body of 64 MiB, its `model` last, beside 50 streams",
            "large",
            50,
            1,
            body_bytes=64 * MIB,
            fresh=True,
            chunks=100,
            pause_ms=20,
        ),
        Workload("W6", "1000 idle connections, then one small POST at a time beside them", "idle", 1_000, 1),
        Workload(
            "W7",
            "a fast stream that its client does not read for 2 s, one small POST at a time beside it",
            "slow",
            1,
            2,
            chunks=1_000_000,
            fresh=True,
        ),
        Workload(
            "W8",
            "W4 while 20 daemons with 200 groups churn and `/metrics` and `/status.json` are read each second",
            "loop",
            200,
            3,
            fleet=Fleet(20, 200, churn=True),
            chunks=100,
            pause_ms=20,
        ),
        *(
            Workload(
                f"W9-{groups}",
                f"W1 over {groups} groups of 10 daemons",
                "loop",
                32,
                2,
                fleet=Fleet(10, groups),
            )
            for groups in (10, 100, 1_000)
        ),
    )
}
QUICK = ("W0", "W1", "W4", "W4k")
"""What `make bench` runs."""


def family(name: str) -> list[str]:
    """The workloads of this name, `W9` standing for all its sizes. Raises KeyError where there is none."""
    found = [known for known in WORKLOADS if known == name or known.startswith(f"{name}-")]
    if not found:
        raise KeyError(name)
    return found


def starts(workloads: Iterable[Workload]) -> list[tuple[Workload, ...]]:
    """Which workloads share one start of a program, in the order in which they run.

    W6 measures memory and so comes before what fills the heap, W4k after what it must not disturb.
    """
    order = sorted(workloads, key=lambda workload: (_start(workload), workload.kind == "loop"))
    return [tuple(together) for _, together in groupby(order, key=_start)]


def _start(workload: Workload) -> str:
    return workload.name if workload.fresh or workload.fleet else ""
