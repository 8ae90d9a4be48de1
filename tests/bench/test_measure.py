"""What the program used is attributed to the units and the phases of each kind of workload."""

from __future__ import annotations

import pytest
from bench.measure import AFTER, BEFORE, figures
from bench.seen import Seen
from bench.usage import Moment
from bench.workloads import WORKLOADS

NOTHING_YET = Moment(at=0.0, cpu_ns=0, rss_kib=10_240, peak_kib=10_240)


def moments(**phases: Moment) -> dict[str, Moment]:
    after = Moment(at=10.0, cpu_ns=2_000_000, rss_kib=20_480, peak_kib=30_720)
    return {BEFORE: NOTHING_YET, AFTER: after} | phases


@pytest.mark.parametrize(
    ("name", "seen", "expected"),
    [
        ("W0", {"requests": 100.0}, {"cpu_us": 20.0}),
        ("W1", {"requests": 1000.0, "chunks": 5.0}, {"cpu_us": 2.0}),
        ("W4", {"requests": 2.0, "chunks": 200.0}, {"cpu_us": 10.0, "memory_kib": 107.52}),
        ("W1", {"requests": 0.0}, {"cpu_us": 2000.0}),
    ],
)
def test_cpu_is_divided_by_the_units(name: str, seen: dict[str, float], expected: dict[str, float]) -> None:
    found = figures(WORKLOADS[name], Seen(seen), moments(), idle_kib=9_216)
    assert expected.items() <= found.items()
    assert seen.items() <= found.items()


def test_a_large_body_is_counted_from_its_start() -> None:
    start = Moment(at=1.0, cpu_ns=500_000, rss_kib=11_264, peak_kib=11_264)
    end = Moment(at=2.0, cpu_ns=1_500_000, rss_kib=20_480, peak_kib=30_720)
    found = figures(WORKLOADS["W5"], Seen(), moments(large=start, answered=end), idle_kib=0)
    assert found == {"growth_mib": 19.0, "cpu_ms": 1.0}


def test_idle_connections_are_counted_at_rest() -> None:
    start = Moment(at=1.0, cpu_ns=500_000, rss_kib=15_000, peak_kib=15_000)
    end = Moment(at=3.0, cpu_ns=1_500_000, rss_kib=12_240, peak_kib=15_000)
    found = figures(WORKLOADS["W6"], Seen(), moments(rest=start, rested=end), idle_kib=0)
    assert found == {"memory_kib": 2.0, "cpu_ms_per_s": 0.5}


def test_a_slow_reader_is_counted_before_it_reads() -> None:
    unread = Moment(at=2.0, cpu_ns=0, rss_kib=11_000, peak_kib=12_288)
    assert figures(WORKLOADS["W7"], Seen(), moments(unread=unread), idle_kib=0) == {"growth_mib": 2.0}


def test_without_a_program_there_is_only_what_was_seen() -> None:
    assert figures(WORKLOADS["W1"], Seen({"requests": 1.0}), {}, idle_kib=0) == {"requests": 1.0}
