"""The report says what the rows say: medians, dashes with their reasons, what is kept, and a picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path

import pytest
from bench.budget import goals, ranks
from bench.chart import panels, scale
from bench.figures import Table
from bench.report import absence, main, page, tables, write
from bench.rows import START, Facts, Listed, Row, write_facts, write_row

from bench import chart

NO_CLUSTER = {"W8": "reads no mentat cluster"}
FACTS = Facts(
    "2026-11-30 10:00",
    {"kernel": "Linux 6"},
    (
        Listed("direct", "no program", "–", NO_CLUSTER),
        Listed("nginx", "C", "1.22", NO_CLUSTER),
        Listed("mentatd-serve", "Python", "0.1"),
        Listed("litellm", "Python & more", "1.0", NO_CLUSTER | {"W4k": "too slow"}, loose=True),
        Listed("olla", "Go", ""),
    ),
)


def rows(program: str, workload: str, *figures: Mapping[str, float]) -> list[Row]:
    return [Row(program, workload, number, figure) for number, figure in enumerate(figures, start=1)]


ROWS = [
    *rows("nginx", START, {"idle_mib": 14.0, "start_s": 0.02}),
    *rows("nginx", "W1", {"cpu_us": 10.0}, {"cpu_us": 20.0}),
    *rows("nginx", "W4k", {"cpu_us": 10.0, "memory_kib": 17.0}),
    *rows("mentatd-serve", START, {"idle_mib": 34.0, "start_s": 0.71}),
    *rows("mentatd-serve", "W1", {"cpu_us": 12.0}, {"cpu_us": 24.0}),
    *rows("mentatd-serve", "W4", {"cpu_us": 10.0}),
    *rows("mentatd-serve", "W4k", {"cpu_us": 13.0, "memory_kib": 8.0}),
    *rows("mentatd-serve", "W8", {"cpu_us": 10.5, "rest_ms_per_s": 30.0}),
    *rows("mentatd-serve", "W9-10", {"cpu_us": 30.0}),
    *rows("mentatd-serve", "rebuild-10", {"apart_one_ms": 0.5}),
    *rows("litellm", "W1", {"cpu_us": 8000.0}),
    Row("litellm", "W1", 2, {}, "500, a | b"),
    *rows("direct", "W1", {"per_s": 50_000.0}),
]
TABLE = Table(ROWS)


def verdicts() -> dict[str, str]:
    return {goal.what.partition(":")[0]: goal.verdict for goal in goals(TABLE)}


def test_what_is_kept_is_said() -> None:
    said = verdicts()
    assert said["W1"] == "kept, the stretch too"
    assert said["W4k"] == "kept", "the last goal of W4k is its memory"
    assert said["W0"] == "not measured"
    assert said["W8"] == "kept"
    (chunk,) = [goal for goal in goals(TABLE) if goal.what.startswith("W4k: CPU")]
    assert chunk.verdict == "**missed**"
    (start,) = [goal for goal in goals(TABLE) if goal.what.startswith("start")]
    assert start.verdict == "**missed**"


def test_ranks_leave_the_near_limit_out() -> None:
    (rank,) = [rank for rank in ranks(TABLE) if rank.workload == "W1"]
    assert (rank.ours, rank.next_best, rank.name) == (18.0, 8000.0, "litellm")


@pytest.mark.parametrize(
    ("program", "workload", "expected"),
    [
        (3, "W4k", "too slow"),
        (3, "W1", "failed in 1 of 2 rounds: 500, a \\| b"),
        (2, "W1", ""),
        (2, "W7", ""),
    ],
)
def test_an_absence_has_its_reason(program: int, workload: str, expected: str) -> None:
    assert absence(FACTS.programs[program], TABLE, workload) == expected


def test_the_page_says_all_of_it() -> None:
    text = page([FACTS], ROWS, "report")
    assert "| olla | Go | not installed |" in text
    assert "Checked loosely, for they rewrite answers: litellm." in text
    assert "| mentatd-serve | 18.0 (12.0–24.0) |" in text
    assert "- (1) failed in 1 of 2 rounds: 500, a \\| b" in text
    assert "- without litellm: too slow" in text
    assert "![The programs beside each other](report.svg)" in text
    assert "| 10 | 0.50 | – |" in text
    for line in text.splitlines():
        assert line.count("| ") < 2 or line.startswith("|"), "a table's line is whole"


def test_tables_are_the_figures_alone() -> None:
    text = tables([FACTS], ROWS)
    assert "### W1: small POSTs" in text
    assert "report.svg" not in text


def test_the_files_are_written_beside_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "run.jsonl"
    file.write_text("\n".join([write_facts(FACTS), *map(write_row, ROWS)]))
    write(file)
    assert (tmp_path / "run.md").read_text() == page([FACTS], ROWS, "run")
    assert (tmp_path / "run.svg").read_text() == chart.draw(TABLE)
    monkeypatch.setattr("sys.argv", ["report", str(file)])
    assert main() == 0


@pytest.mark.parametrize("content", ["", "nonsense", '{"row": {}}'])
def test_what_is_no_run_is_a_clear_error(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.jsonl"
    file.write_text(content)
    monkeypatch.setattr("sys.argv", ["report", str(file)])
    assert main() == 1
    assert capsys.readouterr().err.count("\n") == 1
    monkeypatch.setattr("sys.argv", ["report"])
    assert main() == 2


def test_the_picture_has_every_program_and_every_panel() -> None:
    root = ET.fromstring(chart.draw(TABLE))
    said = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert said.count("nginx") == 2, "a name for each line of panels"
    assert "direct" not in said
    assert [panel.title.partition(":")[0] for panel in panels(TABLE)] == [
        "W1",
        "W4",
        "W4k",
        "the idle program",
    ]
    # litellm has no figure for W4, W4k and the start, nginx none for W4
    assert said.count("–") == 4
    dots = list(root.iter("{http://www.w3.org/2000/svg}circle"))
    assert len(dots) == sum(len(panel.values) for panel in panels(TABLE))


def test_nothing_to_show_is_a_picture_too() -> None:
    ET.fromstring(chart.draw(Table([])))


@pytest.mark.parametrize(
    ("values", "steps"),
    [
        ([11.0, 19.0], (10, 20)),
        ([10.0], (10, 20)),
        ([0.0, 0.7], (0.1, 0.2, 0.5, 1)),
        ([0.0], (0.1, 0.2)),
        ([12.0, 90.0], (10, 20, 50, 100)),
    ],
)
def test_an_axis_is_the_narrowest_that_holds_all(values: list[float], steps: tuple[float, ...]) -> None:
    axis = scale(values, left=100, width=200)
    assert axis.steps == steps
    assert axis.x(steps[0]) == 100
    assert axis.x(steps[-1]) == 300
    assert 100 <= axis.x(min(values)) <= axis.x(max(values)) <= 300


def test_a_wide_axis_has_lines_at_powers_of_ten_only() -> None:
    assert scale([1.0, 9_000.0], 0, 1).lines == [1, 10, 100, 1000, 10_000]
