"""The raw rows of a run, one JSON line each: what `report.jsonl` holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

START = "start"
"""Stands for a workload in the rows that tell of a program's start."""
REBUILD = "rebuild"
"""Stands for a workload in the rows that tell what a new route table costs."""


@dataclass(frozen=True, slots=True)
class Row:
    """One workload through one program, once."""

    program: str
    workload: str
    round: int
    figures: Mapping[str, float]
    """By name, which ends in the unit."""
    error: str = ""
    """Why the figures do not count; empty where every answer was right."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A program as it was on the day of the run."""

    name: str
    what: str
    version: str
    """Empty: not installed."""
    cannot: Mapping[str, str] = field(default_factory=dict)
    """Workloads that it was not given, each with the reason."""
    loose: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """When and on what a run was made."""

    date: str
    machine: Mapping[str, str]
    """What a reader wants to know, by its name."""
    programs: tuple[Listed, ...]


def write_row(row: Row) -> str:
    return json.dumps({"row": asdict(row)})


def write_facts(facts: Facts) -> str:
    return json.dumps({"run": asdict(facts)})


def read(lines: Iterable[str]) -> tuple[tuple[Facts, ...], tuple[Row, ...]]:
    """Every run and every row of a file. Raises ValueError, with the number of the line that is neither."""
    facts: list[Facts] = []
    rows: list[Row] = []
    for number, line in enumerate(lines, start=1):
        try:
            match json.loads(line):
                case {"run": run}:
                    facts.append(_facts(run))
                case {"row": row}:
                    rows.append(Row(**row))
                case _:
                    raise ValueError("neither a run nor a row")
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"line {number}: {error}") from error
    return tuple(facts), tuple(rows)


def _facts(run: dict[str, Any]) -> Facts:
    return Facts(run["date"], run["machine"], tuple(Listed(**program) for program in run["programs"]))


def programs(facts: Sequence[Facts]) -> dict[str, Listed]:
    """Every program of these runs, as its last one found it."""
    return {program.name: program for run in facts for program in run.programs}
