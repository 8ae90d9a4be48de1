"""Points of five minutes: rates, quantiles, gaps, and the bounds of what is followed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.serve.monitor.rows import Published, row, table
from tests.serve.monitor.test_stats import Readings
from tests.support.clock import Clock
from tests.support.deadlines import until

from mentatd.cluster.routes import EMPTY
from mentatd.serve.inflight import Inflight, Row
from mentatd.serve.monitor import series as module
from mentatd.serve.monitor.engines import Engines, Reading
from mentatd.serve.monitor.series import (
    COLUMNS,
    GAP_S,
    MODELS_KEPT,
    POINTS,
    Counted,
    Series,
    count_tokens,
    followed,
    quantile,
    rate,
)
from mentatd.serve.monitor.traffic import Traffic
from mentatd.tasks import Tasks
from mentatd.wire.enginemetrics import Figures


@pytest.mark.parametrize(
    ("before", "after", "seconds", "expected"),
    [
        (100, 150, 2.0, 25.0),
        (100, 100, 2.0, 0.0),
        (100, 101, 3.0, 0.33),
        (100, 20, 2.0, None),  # the engine restarted
        (None, 20, 2.0, None),
        (100, None, 2.0, None),
        (100, 150, GAP_S, 5.0),
        (100, 150, GAP_S + 1, None),
        (100, 150, 0.0, None),
    ],
)
def test_the_rate_of_a_counter(
    before: float | None, after: float | None, seconds: float, expected: float | None
) -> None:
    found = rate(before, after, seconds)
    assert found == expected if expected is not None else math.isnan(found)


def test_a_reading_seen_twice_keeps_its_rates() -> None:
    first = count_tokens(None, 10.0, Figures(prompt_tokens=100, generation_tokens=10))
    assert (first.prompt, first.generation) == (100, 10)
    assert math.isnan(first.prompt_tps)
    second = count_tokens(first, 12.0, Figures(prompt_tokens=300, generation_tokens=20))
    assert second == Counted(12.0, 300, 20, 100.0, 5.0)
    assert count_tokens(second, 12.0, Figures(prompt_tokens=300, generation_tokens=20)) is second


@pytest.mark.parametrize(
    ("ordered", "p50", "p95"),
    [([3.0], 3.0, 3.0), ([1.0, 2.0], 1.0, 2.0), ([float(n) for n in range(1, 101)], 50.0, 95.0)],
)
def test_quantiles(ordered: list[float], p50: float, p95: float) -> None:
    assert (quantile(ordered, 0.5), quantile(ordered, 0.95)) == (p50, p95)


def test_the_quantile_of_nothing() -> None:
    assert math.isnan(quantile([], 0.5))


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 1))
def test_a_quantile_is_not_exceeded_by_its_share(values: list[float], share: float) -> None:
    ordered = sorted(values)
    found = quantile(ordered, share)
    assert found in ordered
    assert sum(value <= found for value in ordered) >= share * len(ordered)


def test_what_is_carried_is_followed_first() -> None:
    both = table({"a": ["m", "n"], "b": ["m"]}, failing=["c"])
    assert list(followed(both, {("gone", "c"): 1}, now=1.0)) == [
        ("gone", "c"),
        ("m", "a"),
        ("n", "a"),
        ("m", "b"),
    ]
    assert list(followed(both, {}, now=61.0)) == []


class FakeInflight:
    def __init__(self) -> None:
        self.carried: list[Row] = []

    def rows(self) -> Iterator[Row]:
        return iter(self.carried)


class World:
    def __init__(self) -> None:
        self.published = Published(table({"glm": ["glm-5"]}))
        self.inflight = FakeInflight()
        self.readings = Readings()
        self.traffic = Traffic()
        self.wall = Clock(1_800_000_000.0)
        self.series = Series(
            self.published,
            cast("Inflight", self.inflight),
            cast("Engines", self.readings),
            self.traffic,
            clock=Clock(1.0),
            wall_clock=self.wall,
        )

    def take(self, number: int = 1) -> None:
        for _ in range(number):
            self.wall.now += 2
            self.series.take()

    def point(self) -> dict[str, Any]:
        """The newest of the one model that is followed."""
        (found,) = self.series.newest()
        return {name: None if value != value else value for name, value in found.items()}

    def lists(self) -> dict[str, Any]:
        (found,) = self.series.rows()
        return found


async def test_a_point_while_nobody_looks() -> None:
    w = World()
    since = w.series._since = w.series._since - 10.0
    w.inflight.carried = [row("1", started=since - 5.0), row("2", started=since - 1.0, first=since + 0.5)]
    w.traffic.finished(row("3", started=since - 9.0, first=since - 1.0, ended=since + 1.0, status=200))
    w.traffic.finished(row("4", started=since, first=since + 0.25, ended=since + 1.0, status=200))
    w.take()
    assert w.point() == {
        "model": "glm-5",
        "group": "glm",
        "proxied": 2.0,
        **dict.fromkeys(("running", "waiting", "kv", "prompt_tps", "generation_tps")),
        "ttfb_p50_s": 0.25,
        "ttfb_p95_s": 1.5,
    }
    w.take()
    assert w.point()["ttfb_p50_s"] is None


async def test_a_point_while_somebody_looks() -> None:
    w = World()
    for at, tokens in ((1.0, 100), (2.0, 150)):
        figures = Figures(2, 1, 0.5, prompt_tokens=tokens, generation_tokens=10 * tokens)
        w.readings.groups["glm"] = Reading(at, {"glm-5": figures})
        w.take()
    point = w.point()
    assert [point[name] for name in COLUMNS] == [0.0, 2.0, 1.0, 0.5, 50.0, 500.0, None, None]
    w.readings.groups["glm"] = Reading(2.0, {})
    w.take()
    assert w.lists() == {
        "model": "glm-5",
        "group": "glm",
        "proxied": [0.0, 0.0, 0.0],
        "running": [2.0, 2.0, pytest.approx(math.nan, nan_ok=True)],
        "waiting": [1.0, 1.0, pytest.approx(math.nan, nan_ok=True)],
        "kv": [0.5, 0.5, pytest.approx(math.nan, nan_ok=True)],
        "prompt_tps": pytest.approx([math.nan, 50.0, math.nan], nan_ok=True),
        "generation_tps": pytest.approx([math.nan, 500.0, math.nan], nan_ok=True),
        "ttfb_p50_s": None,
        "ttfb_p95_s": None,
    }


async def test_five_minutes_are_kept_and_the_newest_is_last() -> None:
    w = World()
    for n in range(POINTS + 7):
        w.inflight.carried = [row(str(i)) for i in range(n % 5)]
        w.take()
    assert len(w.series.times) == POINTS
    assert w.series.times[-1] - w.series.times[0] == 2 * (POINTS - 1)
    assert w.lists()["proxied"] == [float(n % 5) for n in range(7, POINTS + 7)]


async def test_a_document_in_the_making_is_of_one_moment() -> None:
    w = World()
    w.take(POINTS)
    rows = w.series.rows()
    w.inflight.carried = [row()]
    w.take()
    assert next(rows)["proxied"] == [0.0] * POINTS


async def test_a_model_that_is_gone_leaves_a_gap_and_then_the_list() -> None:
    w = World()
    w.take(3)
    w.published.table = EMPTY
    w.take()
    assert w.point()["proxied"] is None
    assert w.lists()["proxied"][:3] == [0.0, 0.0, 0.0]
    w.take(POINTS - 1)
    assert list(w.series.rows()) == []
    w.published.table = table({"glm": ["glm-5"]})
    w.take()
    assert w.point()["proxied"] == 0.0


async def test_the_models_that_are_followed_are_bounded() -> None:
    w = World()
    w.published.table = table({"glm": [f"m{n}" for n in range(MODELS_KEPT + 50)]})
    w.take()
    assert len(w.series.newest()) == MODELS_KEPT
    w.inflight.carried = [row(model=f"m{MODELS_KEPT + 7}")]
    w.take()
    followed_now = [r["model"] for r in w.series.newest()]
    assert len(followed_now) == MODELS_KEPT
    assert f"m{MODELS_KEPT + 7}" in followed_now


async def test_points_are_taken_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEP_S", 0.001)
    w, tasks = World(), Tasks("test")
    tasks.start(w.series.run(), "series")
    await until(lambda: len(w.series.times) > 2)
    await tasks.close()
