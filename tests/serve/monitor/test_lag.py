"""How late the loop is: sampled in time, and nothing below zero."""

from __future__ import annotations

import itertools
import math

import pytest
from tests.support.clock import Clock
from tests.support.deadlines import until

from mentatd.serve.monitor import lag as module
from mentatd.serve.monitor.lag import BUCKETS, Lag


async def test_a_sample_is_how_much_later_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY_S", 0.0)
    clock = Clock()
    lag = Lag(clock=clock)
    lag.start()
    clock.now += 0.03  # while the loop was held up
    await until(lambda: lag.seen.counts[0])
    assert lag.seen.counts[BUCKETS.index(0.05)] == 1
    clock.now -= 1
    before = lag.seen.counts[0]
    await until(lambda: lag.seen.counts[0] > before)
    assert lag.seen.total == pytest.approx(0.03)
    lag.close()
    lag.close()


async def test_the_newest_sample_and_the_next_one_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY_S", 0.0)
    seconds = itertools.count(100.0, 0.03)
    lag = Lag(clock=lambda: next(seconds))
    assert lag.due == math.inf
    lag.start()
    assert lag.due == 100.0
    await until(lambda: lag.seen.counts[BUCKETS.index(0.05)])
    assert lag.late == pytest.approx(0.03)
    assert 100.0 < lag.due < next(seconds)
    lag.close()
    assert lag.due == math.inf


def test_the_end_without_a_beginning_does_no_harm() -> None:
    Lag().close()
