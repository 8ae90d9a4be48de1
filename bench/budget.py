"""What the router was asked to keep, and whether it did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.columns import key
from bench.figures import Summary, Table
from bench.reference import DIRECT, NGINX
from bench.router import OURS, ROUTER
from bench.rows import REBUILD, START
from bench.workloads import WORKLOADS


@dataclass(frozen=True, slots=True)
class Goal:
    """One figure to keep."""

    what: str
    limit: float
    measured: Summary | None
    """None: not in this run."""
    unit: str
    digits: int = 1
    stretch: float | None = None
    """What would be better still."""

    @property
    def text(self) -> str:
        """What was measured."""
        return "–" if self.measured is None else f"{format(self.measured, f'.{self.digits}f')} {self.unit}"

    @property
    def verdict(self) -> str:
        """The median is what counts, as it is written."""
        if self.measured is None:
            return "not measured"
        value = round(self.measured.median, self.digits)
        if value > self.limit:
            return "**missed**"
        return "kept, the stretch too" if self.stretch is not None and value <= self.stretch else "kept"


def goals(table: Table, program: str = ROUTER.name) -> list[Goal]:
    """All of them, for one build of the router; docs/design.md has the first four."""

    def beside(workload: str) -> Summary | None:
        return table.ratio((program, workload), (NGINX.name, workload), "cpu_us")

    def ours(workload: str, figure: str) -> Summary | None:
        return table.summary(program, workload, figure)

    def of_itself(workload: str, other: str) -> Summary | None:
        return table.ratio((program, workload), (program, other), "cpu_us")

    stall = ours("W5", "chunk_max_us")
    in_ms = Summary(stall.median / 1e3, stall.least / 1e3, stall.most / 1e3) if stall else None
    above = table.difference((program, "W0"), (NGINX.name, "W0"), "request_p50_us")
    return [
        Goal("W1: CPU of a small POST", 1.5, beside("W1"), "× nginx", 2, 1.25),
        Goal("W4: CPU of a chunk, 200 streams", 1.5, beside("W4"), "× nginx", 2, 1.25),
        Goal("W4k: CPU of a chunk, 1000 streams", 1.25, beside("W4k"), "× nginx", 2, 1.1),
        Goal("W0: latency at the median above nginx's", 60, above, "µs", 0),
        Goal("memory, idle", 40, ours(START, "idle_mib"), "MiB"),
        Goal("W4k: memory of an open stream", 16, ours("W4k", "memory_kib"), "KiB"),
        Goal("W5: memory for a body of 64 MiB", 80, ours("W5", "growth_mib"), "MiB"),
        Goal("W5: longest stall of other streams", 50, in_ms, "ms"),
        Goal("W7: memory for a client that does not read", 1, ours("W7", "growth_mib"), "MiB"),
        Goal("W8: CPU of a chunk while the cluster churns", 1.1, of_itself("W8", "W4"), "× W4", 2),
        Goal("W9: CPU of a request, 1000 groups", 1.1, of_itself("W9-1000", "W9-10"), "× 10 groups", 2),
        Goal(
            "W9: a new table for 1000 groups that 20 daemons all report, all changed",
            20,
            ours(f"{REBUILD}-1000", "shared_every_ms"),
            "ms",
        ),
        Goal("W9: new tables in a second of changes", 10, ours(f"{REBUILD}-1000", "tables_per_s"), "", 0),
        Goal("start to the first routed request", 0.7, ours(START, "start_s"), "s", 2),
    ]


def goal_table(table: Table) -> str:
    builds = [name for name in OURS if name in table.programs]
    lines = [
        f"| what | at most | stretch |{''.join(f' {name} | |' for name in builds)}",
        f"| --- | --- | --- |{' --- | --- |' * len(builds)}",
    ]
    for same in zip(*(goals(table, name) for name in builds), strict=True):
        goal = same[0]
        stretch = f"{goal.stretch:g} {goal.unit}" if goal.stretch is not None else ""
        found = "".join(f" {each.text} | {each.verdict} |" for each in same)
        lines.append(f"| {goal.what} | {goal.limit:g} {goal.unit} | {stretch} |{found}")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Rank:
    """The router's place among LLM routers in what one workload is about."""

    workload: str
    figure: str
    ours: float
    next_best: float
    name: str
    """Whose the next best figure is, nginx left out."""


def ranks(table: Table, program: str = ROUTER.name) -> list[Rank]:
    """One for each workload that both this build of the router and another LLM router have done."""
    others = [name for name in table.programs if name not in (*OURS, NGINX.name, DIRECT.name)]
    found = []
    for workload in (START, *WORKLOADS):
        column = key(workload)
        mine = column.summary(table, program, workload)
        medians = [
            (theirs.median, name) for name in others if (theirs := column.summary(table, name, workload))
        ]
        if mine and medians:
            best, name = min(medians)
            found.append(Rank(workload, column.head, mine.median, best, name))
    return found


def rank_table(ranks: Sequence[Rank], program: str) -> str:
    lines = [f"| | figure | {program} | the best other router | |", "| --- | --- | --- | --- | --- |"]
    for rank in ranks:
        place = "ahead" if rank.ours < rank.next_best else "**behind**"
        best = f"{rank.next_best:z.1f} ({rank.name})"
        lines.append(f"| {rank.workload} | {rank.figure} | {rank.ours:z.1f} | {best} | {place} |")
    return "\n".join(lines)
