"""Which workloads there are, which share a start, and in which order they run."""

from __future__ import annotations

import pytest
from bench.workloads import QUICK, WORKLOADS, family, starts


def test_all_ten_are_there() -> None:
    assert {name.partition("-")[0] for name in WORKLOADS} == {*(f"W{number}" for number in range(10)), "W4k"}


def test_a_family_is_a_name_with_all_its_sizes() -> None:
    assert family("W9") == ["W9-10", "W9-100", "W9-1000"]
    assert family("W4") == ["W4"]
    with pytest.raises(KeyError):
        family("W")


def test_what_shares_a_start() -> None:
    names = [[workload.name for workload in together] for together in starts(WORKLOADS.values())]
    assert names[0] == ["W0", "W6", "W1", "W2", "W3", "W4", "W4k"], "idle memory before what fills the heap"
    assert names[1:] == [["W5"], ["W7"], ["W8"], ["W9-10"], ["W9-100"], ["W9-1000"]]
    assert starts([]) == []
    assert [len(together) for together in starts(WORKLOADS[name] for name in QUICK)] == [4]


def test_models_are_those_of_the_fleet() -> None:
    assert WORKLOADS["W1"].models == ["bench"]
    models = WORKLOADS["W9-10"].models
    assert len(set(models)) == 10
    assert models[0] == "bench", "a program that follows a fleet answers what the warming-up asks for"
