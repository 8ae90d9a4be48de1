"""The waits between two dials."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mentatd.register.backoff import CAP_S, FIRST_S, wait_s


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 0.5), (2, 1.0), (3, 2.0), (5, 8.0), (6, 10.0), (10_000, 10.0)]
)
def test_waits_double_up_to_the_cap(failures: int, seconds: float) -> None:
    assert wait_s(failures, 0.0) == seconds


@given(st.integers(1, 10**9), st.floats(0, 1, exclude_max=True))
def test_chance_takes_at_most_half(failures: int, chance: float) -> None:
    assert FIRST_S / 2 <= wait_s(failures, chance) <= CAP_S
