"""Who held the event loop up: what is told, how often, and that it is the right one."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.support.deadlines import DEADLINE_S, until, wait_until, within

import mentatd
from mentatd.serve.monitor import guard as module
from mentatd.serve.monitor.guard import (
    LIMIT_S,
    NO_PYTHON,
    NOT_RUN,
    QUIET_S,
    STUCK_S,
    Culprit,
    Episodes,
    Guard,
    Look,
    Report,
    find_culprit,
)
from mentatd.serve.monitor.lag import Lag

A, B = Culprit("a.py:a:1", "a.py:b:2"), Culprit("b.py:b:1", "")
OURS = str(Path(mentatd.__file__).parent / "slow.py")


def ours(source: str) -> dict[str, Any]:
    """What a module of the package would have, whose file is called slow.py."""
    names: dict[str, Any] = {}
    exec(compile(source, OURS, "exec"), names)
    return names


class Story:
    """One guard's looks, one after the other."""

    def __init__(self) -> None:
        self._episodes = Episodes()
        self.found = 0

    def look(
        self,
        now: float,
        *,
        due: float,
        culprit: Culprit = A,
        last_late: float = 0.0,
        overslept: float = 0.0,
        cpu: float = 0.0,
    ) -> Report | None:
        def find() -> Culprit:
            self.found += 1
            return culprit

        return self._episodes.take(Look(now, due, last_late, overslept, cpu), find)


def test_a_loop_in_time_is_not_looked_at() -> None:
    story = Story()
    for now, due in ((10.0, 10.1), (10.1, 10.1), (10.1 + LIMIT_S / 2, 10.1), (10.3, 10.4)):
        assert story.look(now, due=due) is None
    assert story.found == 0


def test_a_hold_up_is_told_once_when_it_is_over() -> None:
    story = Story()
    assert story.look(10.11, due=10.0) is None
    assert story.look(10.16, due=10.0, culprit=B) is None
    assert story.look(10.32, due=10.4, last_late=0.21) == Report(A, 0.21, over=True, unsaid=0)
    assert story.look(10.5, due=10.6) is None
    assert story.found == 1


def test_one_that_does_not_end_is_told_and_not_told_again() -> None:
    story = Story()
    assert story.look(10.2, due=10.0) is None
    assert story.look(10.0 + STUCK_S, due=10.0) == Report(A, STUCK_S, over=False, unsaid=0)
    assert story.look(100.0, due=10.0) is None
    assert story.look(100.1, due=100.2, last_late=90.0) is None


def test_those_close_to_one_another_are_counted() -> None:
    story = Story()
    for number, due in enumerate((10.0, 11.0, 12.0)):
        story.look(due + 0.2, due=due)
        assert (story.look(due + 0.3, due=due + 0.4, last_late=0.25) is not None) is (number == 0)
    later = 12.0 + QUIET_S
    story.look(later + 0.2, due=later, culprit=B)
    report = story.look(later + 0.3, due=later + 0.4, last_late=0.25)
    assert report == Report(B, 0.25, over=True, unsaid=2)


@pytest.mark.parametrize(("cpu", "stopped"), [(0.0, True), (0.4, True), (0.6, False), (2.0, False)])
def test_a_process_that_did_not_run_is_told_from_one_whose_interpreter_was_not_to_be_had(
    cpu: float, stopped: bool
) -> None:
    story = Story()
    report = story.look(11.1, due=10.0, overslept=1.0, cpu=cpu)
    assert report == (Report(NOT_RUN, 1.0, over=True, unsaid=0) if stopped else None)
    assert story.found == (not stopped)
    report = story.look(11.15, due=10.0)
    assert report is None, "the same hold-up"
    assert story.found == (not stopped)


def test_a_thread_that_is_a_little_late_says_nothing_of_the_process() -> None:
    assert Story().look(10.0, due=10.1, overslept=LIMIT_S / 2) is None


class Parked:
    """A thread that stands still, in what `run` calls; the block gets its id."""

    def __init__(self, run: Callable[[Callable[[], object]], object]) -> None:
        self._go = threading.Lock()
        self._thread = threading.Thread(target=run, args=(self._wait,))

    def _wait(self) -> None:
        self._go.acquire(timeout=DEADLINE_S)

    def _stands(self) -> bool:
        frame = sys._current_frames().get(self._thread.ident or 0)
        return frame is not None and frame.f_code is Parked._wait.__code__

    def __enter__(self) -> int:
        self._go.acquire()
        self._thread.start()
        wait_until(self._stands)
        assert self._thread.ident is not None
        return self._thread.ident

    def __exit__(self, *_: object) -> None:
        self._go.release()
        self._thread.join(DEADLINE_S)


def waits(then: Callable[[], object]) -> None:
    then()


def depth(frame: FrameType | None) -> int:
    return 0 if frame is None else 1 + depth(frame.f_back)


INNER = """
class Table:
    def build(self, then):
        then()

def rebuild(then):
    Table().build(then)
"""


OWN = 3
"""Frames of `threading` in which every thread begins."""


def test_the_innermost_function_of_ours_is_named_and_what_was_called() -> None:
    with Parked(ours(INNER)["rebuild"]) as thread:
        found = find_culprit({thread: sys._current_frames()[thread]}, thread, OWN)
    assert found == Culprit("mentatd/slow.py:Table.build:4", "mentatd/slow.py:rebuild:7")


def test_where_nothing_of_ours_runs_the_innermost_function_is_named() -> None:
    with Parked(waits) as thread:
        found = find_culprit({thread: sys._current_frames()[thread]}, thread, OWN)
    assert "test_guard.py:Parked._wait:" in found.by
    assert "test_guard.py:waits:" in found.callback


def test_where_the_loop_waits_another_thread_of_ours_is_named() -> None:
    with Parked(waits) as loop, Parked(ours(INNER)["rebuild"]) as busy, Parked(waits) as idle:
        current = sys._current_frames()
        base = depth(current[loop])
        found = find_culprit({thread: current[thread] for thread in (loop, idle, busy)}, loop, base)
        alone = find_culprit({loop: current[loop]}, loop, base)
        del current
    assert found == Culprit("mentatd/slow.py:Table.build:4", "")
    assert alone == NO_PYTHON


SLOW = """
import time

def spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass

def callback(work):
    work()

async def task(work):
    work()
    await later()

async def later():
    pass

def one_long_call():
    sum(range(20_000_000))
"""


@pytest.mark.parametrize(
    ("by", "callback"),
    [
        ("spin", "callback"),
        ("spin", "task"),
        ("one_long_call", "callback"),
    ],
)
async def test_a_loop_that_is_held_up_is_told_with_what_ran(
    by: str, callback: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "QUIET_S", 0.0)
    slow = ours(SLOW)
    lag = Lag()
    guard = Guard(lag, cpu=time.monotonic)  # as if this process had the machine for itself
    lag.start()
    guard.start()
    await until(lambda: sum(lag.seen.counts))
    work = slow[by] if by != "spin" else lambda: slow["spin"](0.4)
    told = ""

    def said() -> bool:
        nonlocal told
        told += capsys.readouterr().err
        return f"by=mentatd/slow.py:{by}:" in told

    if callback == "task":
        async with within():
            await asyncio.gather(slow["task"](work))
    else:
        asyncio.get_running_loop().call_soon(slow["callback"], work)
    await until(said)
    (line,) = [line for line in told.splitlines() if "slow.py" in line]
    assert re.search(r"event=loop_held_up late_s=\d", line)
    assert f"callback=mentatd/slow.py:{callback}:" in line
    await guard.close()
    lag.close()


async def test_its_thread_ends_with_it() -> None:
    guard = Guard(Lag())
    guard.start()
    await guard.close()
    assert not guards()
    guard.start()
    await until(guards)
    await guard.close()
    assert not guards()
    await guard.close()


def guards() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "guard"]
