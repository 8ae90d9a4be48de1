"""`python -m bench.report FILE.jsonl`: the raw rows of a run become FILE.md and FILE.svg."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bench import chart
from bench.budget import goal_table, rank_table, ranks
from bench.columns import STARTED, Column, columns, key
from bench.figures import Table
from bench.reference import DIRECT
from bench.router import OURS
from bench.rows import REBUILD, START, Facts, Listed, Row, programs, read
from bench.workloads import WORKLOADS

FINDINGS = Path(__file__).with_name("findings.md")
"""Written by hand: why what is missed is missed."""
LONGEST = 160
"""Characters of an error that a footnote quotes."""
INTRO = """\
One command wrote this: `make bench-all`. Every program does the same work in front of the same engine, one after
the other, round by round. Each cell is the median of the rounds, with the least and the most beside it. CPU is the
kernel's figure for the program and its children. [README.md](README.md) says how it is measured; [{rows}]({rows})
holds the raw rows, from which `python -m bench.report {rows}` writes this page.
"""
REBUILDS = (
    Column("own groups, one changed", "apart_one_ms", 2),
    Column("own groups, all changed", "apart_every_ms", 2),
    Column("all groups, one changed", "shared_one_ms", 2),
    Column("all groups, all changed", "shared_every_ms", 2),
    Column("tables/s under changes without end", "tables_per_s", 1),
)


class Notes:
    """The footnotes of one table."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def mark(self, text: str) -> str:
        """The number of the footnote with this text."""
        if text not in self._texts:
            self._texts.append(text)
        return f"({self._texts.index(text) + 1})"

    def lines(self) -> list[str]:
        return [f"- ({number}) {text}" for number, text in enumerate(self._texts, start=1)]


def markdown(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table."""
    rows = [heads, ["---"] * len(heads), *lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def absence(listed: Listed, table: Table, workload: str) -> str:
    """Why some or all of the program's rounds of this workload do not count; empty where all do."""
    if workload in listed.cannot:
        return listed.cannot[workload]
    found = table.of(listed.name, workload)
    failed = [row for row in found if row.error]
    if not failed:
        return ""
    error = failed[0].error[:LONGEST].replace("|", "\\|")
    return f"failed in {len(failed)} of {len(found)} rounds: {error}"


def _cell(column: Column, table: Table, listed: Listed, workload: str, notes: Notes, *, short: bool) -> str:
    found = column.summary(table, listed.name, workload)
    why = absence(listed, table, workload)
    mark = f" {notes.mark(why)}" if why else ""
    if found is None:
        return f"–{mark}"
    return (f"{found.median:z.{column.digits}f}" if short else column.text(found)) + mark


def _section(listed: Sequence[Listed], table: Table, workload: str, shown: Sequence[Column]) -> str:
    """One workload's table with its footnotes."""
    notes = Notes()
    lines = [
        [program.name, *(_cell(column, table, program, workload, notes, short=False) for column in shown)]
        for program in listed
    ]
    return "\n".join([markdown(["program", *(column.head for column in shown)], lines), "", *notes.lines()])


def overview(listed: Sequence[Listed], table: Table) -> str:
    """What each workload is about, side by side."""
    notes = Notes()
    names = [name for name in (START, *WORKLOADS) if name in table.workloads]
    heads = ["program", *(f"{name}: {key(name).head}" if name != START else key(name).head for name in names)]
    lines = [
        [program.name, *(_cell(key(name), table, program, name, notes, short=True) for name in names)]
        for program in listed
    ]
    return "\n".join([markdown(heads, lines), "", *notes.lines()])


def details(listed: Sequence[Listed], table: Table) -> str:
    """Every figure of every workload."""
    out = []
    if START in table.workloads:
        real = [program for program in listed if program.name != DIRECT.name]
        out += ["### Start", "", _section(real, table, START, STARTED), ""]
    for name, workload in WORKLOADS.items():
        if name in table.workloads:
            able = [program for program in listed if table.of(program.name, name)]
            out += [f"### {name}: {workload.what}", "", _section(able, table, name, columns(workload))]
            out += [*_unable(listed, name), ""]
    sizes = sorted((name for name in table.workloads if name.startswith(REBUILD)), key=len)
    if sizes:
        out += ["### W9: a new route table, in process", "", _rebuilds(table, sizes)]
    return "\n".join(out)


def _unable(listed: Sequence[Listed], workload: str) -> list[str]:
    """A line for each reason for which programs do not have this workload."""
    reasons: dict[str, list[str]] = {}
    for program in listed:
        if workload in program.cannot:
            reasons.setdefault(program.cannot[workload], []).append(program.name)
    return [f"- without {', '.join(names)}: {reason}" for reason, names in reasons.items()]


def _rebuilds(table: Table, sizes: Sequence[str]) -> str:
    ours = next(row.program for row in table.rows if row.workload in sizes)
    lines = []
    for size in sizes:
        found = [column.summary(table, ours, size) for column in REBUILDS]
        texts = [column.text(each) if each else "–" for column, each in zip(REBUILDS, found, strict=True)]
        lines.append([size.removeprefix(f"{REBUILD}-"), *texts])
    told = (
        "Milliseconds from a changed view of a daemon, already read, to the table that holds it; 20 daemons, each of "
        "which reports its own groups, or all of them."
    )
    return f"{told}\n\n{markdown(['groups', *(column.head for column in REBUILDS)], lines)}\n"


def tables(facts: Sequence[Facts], rows: Sequence[Row]) -> str:
    """The figures alone, as Markdown."""
    table = Table(rows)
    listed = _measured(programs(facts), table)
    return "\n".join([details(listed, table), "", "### Budget", "", goal_table(table)])


def _measured(known: Mapping[str, Listed], table: Table) -> list[Listed]:
    return [known[name] for name in known if name in table.programs]


def page(facts: Sequence[Facts], rows: Sequence[Row], name: str) -> str:
    """The whole report. `name`: of its files, without what follows the dot."""
    table, known = Table(rows), programs(facts)
    listed = _measured(known, table)
    newest = facts[-1]
    rounds = max((row.round for row in rows), default=0)
    loose = [program.name for program in listed if program.loose]
    parts = [
        "# What a router costs",
        INTRO.format(rows=f"{name}.jsonl"),
        f"![The programs beside each other]({name}.svg)",
        "## The run",
        markdown(
            ["", ""],
            [
                ["date", ", ".join(run.date for run in facts)],
                ["rounds", str(rounds)],
                *map(list, newest.machine.items()),
            ],
        ),
        "## The programs",
        markdown(
            ["program", "what", "version"],
            [[program.name, program.what, program.version or "not installed"] for program in known.values()],
        ),
        f"Checked loosely, for they rewrite answers: {', '.join(loose)}." if loose else "",
        "## Overview",
        overview(listed, table),
        "## The budget",
        "Ratios are those within one round; the median of the rounds is what counts.",
        goal_table(table),
        FINDINGS.read_text().strip() if FINDINGS.exists() else "",
        "## Beside other LLM routers",
        *(rank_table(ranks(table, name), name) for name in OURS if name in table.programs),
        "## Every figure",
        details(listed, table),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def write(rows_file: Path) -> None:
    """The report beside its raw rows. Raises OSError, or ValueError for rows that are none."""
    with rows_file.open() as lines:
        facts, rows = read(lines)
    if not facts:
        raise ValueError(f"{rows_file} tells of no run")
    rows_file.with_suffix(".md").write_text(page(facts, rows, rows_file.stem))
    rows_file.with_suffix(".svg").write_text(chart.draw(Table(rows)))


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m bench.report FILE.jsonl\n")
        return 2
    try:
        write(Path(sys.argv[1]))
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
