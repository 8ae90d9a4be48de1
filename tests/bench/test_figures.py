"""Medians, spreads, and ratios that compare only what was measured in one round."""

from __future__ import annotations

from bench.figures import Summary, Table, summary
from bench.rows import Row


def row(program: str, round_: int, cpu: float | None, workload: str = "W1") -> Row:
    return Row(program, workload, round_, {} if cpu is None else {"cpu_us": cpu}, "" if cpu else "502")


TABLE = Table(
    [
        row("a", 1, 10.0),
        row("b", 1, 20.0),
        row("a", 2, 30.0),
        row("b", 2, None),
        row("a", 3, 40.0),
        row("b", 3, 40.0),
    ]
)


def test_a_summary_is_the_median_with_the_ends() -> None:
    assert summary([3.0, 1.0, 2.0]) == Summary(2.0, 1.0, 3.0)
    assert summary([]) is None


def test_a_summary_is_written_with_its_spread() -> None:
    assert f"{Summary(2.04, 1.0, 3.0):.1f}" == "2.0 (1.0–3.0)"
    assert f"{Summary(2.04, 2.0, 2.01):.1f}" == "2.0", "no spread that can be seen"


def test_a_failed_round_does_not_count() -> None:
    assert TABLE.summary("b", "W1", "cpu_us") == Summary(30.0, 20.0, 40.0)
    assert TABLE.summary("c", "W1", "cpu_us") is None


def test_ratios_are_of_one_round() -> None:
    assert TABLE.pairs(("a", "W1"), ("b", "W1"), "cpu_us") == [(10.0, 20.0), (40.0, 40.0)]
    assert TABLE.ratio(("a", "W1"), ("b", "W1"), "cpu_us") == Summary(0.75, 0.5, 1.0)
    assert TABLE.difference(("a", "W1"), ("b", "W1"), "cpu_us") == Summary(-5.0, -10.0, 0.0)
    assert TABLE.ratio(("a", "W1"), ("a", "W8"), "cpu_us") is None


def test_programs_and_workloads_are_those_measured() -> None:
    assert TABLE.programs == ["a", "b"]
    assert TABLE.workloads == {"W1"}
