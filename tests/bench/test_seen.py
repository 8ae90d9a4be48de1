"""What the load generator says is read as it was meant, and percentiles are those of their name."""

from __future__ import annotations

import pytest
from bench.seen import Seen, heard, latencies, mark, percentile, tell
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("values", "part", "expected"),
    [
        ([], 0.5, 0.0),
        ([3.0], 0.5, 3.0),
        ([1.0, 2.0, 3.0], 0.5, 2.0),
        ([4.0, 1.0, 3.0, 2.0], 0.99, 4.0),
        (list(map(float, range(100))), 0.99, 99.0),
        ([1.0, 9.0], 1.0, 9.0),
    ],
)
def test_percentile(values: list[float], part: float, expected: float) -> None:
    assert percentile(values, part) == expected


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 1))
def test_a_percentile_is_one_of_the_values(values: list[float], part: float) -> None:
    assert percentile(values, part) in {round(value, 1) for value in values}


def test_latencies_of_nothing_are_no_figures() -> None:
    assert latencies("chunk", []) == {}
    assert latencies("chunk", [5.0]) == {"chunk_p50_us": 5.0, "chunk_p99_us": 5.0, "chunk_max_us": 5.0}


def test_what_is_told_is_heard(capsys: pytest.CaptureFixture[str]) -> None:
    seen = Seen({"requests": 3.0}, 1, "502")
    mark("rest")
    tell(seen)
    assert [heard(line) for line in capsys.readouterr().out.splitlines()] == ["rest", seen]


@pytest.mark.parametrize("line", ["", "[]", '{"figures": 1}', "Traceback"])
def test_anything_else_is_refused(line: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the text is the parser's
        heard(line)
