"""What holds the event loop up: a thread looks when the loop is late, and tells what it finds.

The loop beats (`lag.py`), and the thread sleeps until the next beat would be late by `LIMIT_S`: it is woken some ten
times a second, for a few microseconds. Nothing is done for each request or callback: what runs is read from the
stacks of that moment. Where the thread itself was not woken in time, either the interpreter was not to be had (one
long call into C), which costs processor time, or the process did not run at all (it was stopped, its machine paused
or overloaded), which costs none.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType

import mentatd
from mentatd.log import log
from mentatd.serve.monitor.lag import Lag

LIMIT_S = 0.1
"""A beat that is later is told of."""
LOOK_S = 0.05
"""Between two looks at a loop that is held up."""
STUCK_S = 5.0
"""A hold-up is told of when it is over, for it is known then how long it was; after this time at the latest."""
QUIET_S = 10.0
"""Between two lines: a loop that is always late does not fill the log."""
_JOIN_S = 1.0
"""For the thread's end; it may be writing a line that nobody reads."""

_PACKAGE = os.path.dirname(mentatd.__file__) + os.sep
_ROOT = os.path.dirname(os.path.dirname(mentatd.__file__)) + os.sep


@dataclass(frozen=True, slots=True)
class Culprit:
    """What ran while the loop was held up."""

    by: str
    """The innermost function, of this package if there is one: `file:function:line`."""
    callback: str
    """What the loop had called, in the same form; empty where it was not the loop that ran."""


NOT_RUN = Culprit("the process did not run", "")
NO_PYTHON = Culprit("no Python code", "")
"""The loop's own code in C, or the system, which gave the processor to others."""


@dataclass(frozen=True, slots=True)
class Look:
    """What the thread sees when it wakes. Seconds."""

    now: float
    due: float
    """When the loop's next beat was or is to be; another one than before: the loop goes on."""
    last_late: float
    """How late the last beat was."""
    overslept: float
    """How much longer this thread slept than it wanted."""
    cpu: float
    """Processor time that the process took meanwhile, all threads together."""


@dataclass(frozen=True, slots=True)
class Report:
    """One hold-up of the loop."""

    culprit: Culprit
    late: float
    """Seconds; so far, where it is not over."""
    over: bool
    unsaid: int
    """Hold-ups since the report before that were too close to it to be told."""


class Episodes:
    """Which looks lead to a report: one a hold-up, and none within `QUIET_S` of another. Pure."""

    def __init__(self) -> None:
        self._due = 0.0
        self._culprit: Culprit | None = None
        self._late = 0.0
        self._quiet_until = float("-inf")
        self._unsaid = 0

    def take(self, look: Look, find: Callable[[], Culprit]) -> Report | None:
        """The report that is due, if any. `find` is called once a hold-up, for the one who is at work now."""
        if look.overslept >= LIMIT_S and look.cpu < look.overslept / 2:
            self._due = look.due
            return self._report(look, NOT_RUN, look.overslept, over=True)
        culprit, late = self._culprit, look.now - look.due
        if culprit is not None and look.due != self._due:
            self._culprit = None
            return self._report(look, culprit, max(self._late, look.last_late), over=True)
        if late >= LIMIT_S and look.due != self._due:
            self._due, self._culprit = look.due, find()
        self._late = late
        if culprit is not None and late >= STUCK_S:
            self._culprit = None
            return self._report(look, culprit, late, over=False)
        return None

    def _report(self, look: Look, culprit: Culprit, late: float, *, over: bool) -> Report | None:
        if look.now < self._quiet_until:
            self._unsaid += 1
            return None
        self._quiet_until = look.now + QUIET_S
        unsaid, self._unsaid = self._unsaid, 0
        return Report(culprit, late, over, unsaid)


def find_culprit(frames: Mapping[int, FrameType], loop_thread: int, base: int) -> Culprit:
    """Who is at work. `frames`: of the threads that count, by id; `base`: how deep the loop itself stands in its own.

    Where the loop has called nothing it waits for the interpreter, which another thread may hold.
    """
    stack = _stack(frames[loop_thread])
    called = stack[: len(stack) - base]
    if called:
        return Culprit(_place(_ours(called) or called[0]), _place(called[-1]))
    others = (_ours(_stack(frame)) for thread, frame in frames.items() if thread != loop_thread)
    busy = next((frame for frame in others if frame is not None), None)
    return NO_PYTHON if busy is None else Culprit(_place(busy), "")


def _stack(frame: FrameType | None) -> list[FrameType]:
    """The frames from the innermost out."""
    stack = []
    while frame is not None:
        stack.append(frame)
        frame = frame.f_back
    return stack


def _ours(stack: Sequence[FrameType]) -> FrameType | None:
    return next((frame for frame in stack if frame.f_code.co_filename.startswith(_PACKAGE)), None)


def _place(frame: FrameType) -> str:
    code = frame.f_code
    return f"{code.co_filename.removeprefix(_ROOT)}:{code.co_qualname}:{frame.f_lineno}"


class Guard:
    """`start` on the running loop, then `close`."""

    def __init__(
        self,
        lag: Lag,
        *,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.process_time,
    ) -> None:
        """`clock` is that of `lag`; `cpu` tells the processor time that the process has taken."""
        self._lag = lag
        self._clock = clock
        self._cpu = cpu
        self._episodes = Episodes()
        self._loop_thread = 0
        self._base = 0
        self._running = threading.Lock()
        self._beginning: asyncio.Handle | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin with the loop's next turn."""
        self._beginning = asyncio.get_running_loop().call_soon(self._begin)

    async def close(self) -> None:
        """End the thread; harmless when it was not started."""
        if self._beginning is not None:
            self._beginning.cancel()
        if self._thread is not None:
            thread, self._thread = self._thread, None
            self._running.release()
            await asyncio.to_thread(thread.join, _JOIN_S)

    def _begin(self) -> None:
        # called by the loop, as every callback is: what stands below it stands below all of them
        self._base = len(_stack(sys._getframe())) - 1
        self._loop_thread = threading.get_ident()
        self._running.acquire()
        self._thread = threading.Thread(target=self._watch, name="guard", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while True:
            asleep, cpu = self._clock(), self._cpu()
            wake = max(self._lag.due + LIMIT_S, asleep + LOOK_S)
            if self._running.acquire(timeout=min(wake - asleep, STUCK_S)):
                return
            now = self._clock()
            look = Look(now, self._lag.due, self._lag.late, now - wake, self._cpu() - cpu)
            report = self._episodes.take(look, self._find)
            if report is not None:
                _say(report)

    def _find(self) -> Culprit:
        own = threading.get_ident()
        frames = {thread: frame for thread, frame in sys._current_frames().items() if thread != own}
        return find_culprit(frames, self._loop_thread, self._base)


def _say(report: Report) -> None:
    more: dict[str, object] = {} if report.over else {"over": False}
    if report.culprit.callback:
        more["callback"] = report.culprit.callback
    if report.unsaid:
        more["unsaid"] = report.unsaid
    log("loop_held_up", late_s=f"{report.late:.3f}", by=report.culprit.by, **more)
