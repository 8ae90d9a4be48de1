"""A program that fails fails alone: its rows say why, the rest of the run goes on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from bench.programs import Peer, Program, Running
from bench.rounds import rounds
from bench.rows import Row
from bench.seen import Seen
from bench.usage import Moment
from bench.workloads import WARM, WORKLOADS, Workload

from bench import rounds as module

WORK = [WORKLOADS["W0"], WORKLOADS["W1"]]
Run = Callable[..., tuple[Seen, dict[str, Moment]]]


@contextmanager
def engine(_folder: Path, _cores: str) -> Iterator[int]:
    yield 1


@contextmanager
def works(_folder: Path, _engine: int, _cores: str) -> Iterator[Running]:
    yield Running(os.getpid(), 2, start_s=0.5)


def does_not_start(_folder: Path, _engine: int, _cores: str) -> AbstractContextManager[Running]:
    raise RuntimeError("does not answer")


def peer(name: str, start: Program = works, **cannot: str) -> Peer:
    return Peer(name, "", lambda: "", start, lambda: True, cannot)


def result(
    _running: Running, workload: Workload, _cores: str, *, loose: bool
) -> tuple[Seen, dict[str, Moment]]:
    """What the load generator and the kernel say of any workload."""
    return Seen({"requests": 10.0}), {
        "before": Moment(0.0, 0, 1_024, 1_024),
        "after": Moment(1.0, 50_000, 1_024, 1_024),
    }


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[Row]]:
    """Run rounds in which nothing is started."""
    monkeypatch.setattr(module, "engine", engine)
    monkeypatch.setattr(module, "SETTLE_S", 0.0)

    def make(peers: Sequence[Peer], number: int = 1, run: Run = result) -> list[Row]:
        monkeypatch.setattr(module, "run", run)
        return list(rounds(peers, WORK, number, tmp_path))

    return make


def test_programs_take_turns_within_a_round(made: Callable[..., list[Row]]) -> None:
    rows = made([peer("a"), peer("b")], 2)
    assert [(row.round, row.program, row.workload) for row in rows] == [
        (number, name, workload) for number in (1, 2) for name in "ab" for workload in ("start", "W0", "W1")
    ]
    assert rows[0].figures["start_s"] == 0.5
    assert rows[0].figures["idle_mib"] > 1
    assert rows[2].figures["cpu_us"] == 5.0


def test_one_that_does_not_start(made: Callable[..., list[Row]]) -> None:
    rows = made([peer("a", does_not_start), peer("b")])
    assert [(row.program, row.error) for row in rows[:2]] == [("a", "does not answer")] * 2
    assert [row.error for row in rows[2:]] == ["", "", ""]


def test_a_wrong_answer_is_no_figure(made: Callable[..., list[Row]]) -> None:
    def wrong(
        running: Running, workload: Workload, cores: str, *, loose: bool
    ) -> tuple[Seen, dict[str, Moment]]:
        seen, moments = result(running, workload, cores, loose=loose)
        return (Seen(errors=1, first_error="502"), moments) if workload.name == "W0" else (seen, moments)

    start, first, second = made([peer("a")], 1, wrong)
    assert (first.figures, first.error) == ({}, "502")
    assert (second.error, start.error) == ("", "")


def test_one_that_dies(made: Callable[..., list[Row]]) -> None:
    def dies(
        running: Running, workload: Workload, cores: str, *, loose: bool
    ) -> tuple[Seen, dict[str, Moment]]:
        if workload is WARM:
            return result(running, workload, cores, loose=loose)
        raise ProcessLookupError("no such process")

    rows = made([peer("a"), peer("b")], 1, dies)
    assert [(row.program, row.workload, row.error) for row in rows if row.error] == [
        (name, workload, "no such process") for name in "ab" for workload in ("W0", "W1")
    ]


def test_what_it_cannot_do_is_left_out(made: Callable[..., list[Row]]) -> None:
    rows = made([peer("a", W0="no")])
    assert [row.workload for row in rows] == ["start", "W1"]
