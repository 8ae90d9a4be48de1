"""From raw rows to what is said of them: medians, spreads, ratios within one round."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.rows import Row


@dataclass(frozen=True, slots=True)
class Summary:
    """Several measurements of one thing."""

    median: float
    least: float
    most: float

    def __format__(self, spec: str) -> str:
        """The median, and the least and the most beside it where they differ; `spec` is that of each number."""
        median, least, most = (format(value, f"z{spec}") for value in (self.median, self.least, self.most))
        return median if least == most else f"{median} ({least}–{most})"


def summary(values: Iterable[float]) -> Summary | None:
    """None of nothing."""
    found = list(values)
    return Summary(statistics.median(found), min(found), max(found)) if found else None


class Table:
    """The rows of one or more runs, looked up by program, workload and figure."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows
        self._found: dict[tuple[str, str], list[Row]] = {}
        for row in rows:
            self._found.setdefault((row.program, row.workload), []).append(row)

    @property
    def programs(self) -> list[str]:
        """Those that were measured, in order."""
        return list(dict.fromkeys(row.program for row in self.rows))

    @property
    def workloads(self) -> set[str]:
        return {row.workload for row in self.rows}

    def of(self, program: str, workload: str) -> list[Row]:
        return self._found.get((program, workload), [])

    def summary(self, program: str, workload: str, figure: str) -> Summary | None:
        """Over all rounds in which every answer was right."""
        return summary(row.figures[figure] for row in self.of(program, workload) if figure in row.figures)

    def pairs(self, one: tuple[str, str], other: tuple[str, str], figure: str) -> list[tuple[float, float]]:
        """The figure of one program and workload and that of the other, of each round that has both.

        Both were measured within a minute or two, under what else the machine did then.
        """
        others = {row.round: row.figures[figure] for row in self.of(*other) if figure in row.figures}
        return [
            (row.figures[figure], others[row.round])
            for row in self.of(*one)
            if figure in row.figures and row.round in others
        ]

    def ratio(self, one: tuple[str, str], other: tuple[str, str], figure: str) -> Summary | None:
        """How many times the other's each round's figure is."""
        return summary(mine / theirs for mine, theirs in self.pairs(one, other, figure) if theirs)

    def difference(self, one: tuple[str, str], other: tuple[str, str], figure: str) -> Summary | None:
        return summary(mine - theirs for mine, theirs in self.pairs(one, other, figure))
