"""The sweep: who is called, and that it can be started and stopped."""

from __future__ import annotations

import asyncio

from tests.support.deadlines import within

from mentatd.http.timers import EACH_SWEEP, Sweep


class _Member:
    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.calls: list[float] = []
        self.called = asyncio.Event()

    def expired(self, now: float) -> None:
        self.calls.append(now)
        self.called.set()
        self.deadline = now + 100


async def test_only_those_whose_deadline_passed_are_called() -> None:
    early, due, late = _Member(1.0), _Member(2.0), _Member(2.1)
    sweep = Sweep([early, due, late], 1.0)
    sweep.sweep(2.0)
    sweep.sweep(2.0)
    assert [m.calls for m in (early, due, late)] == [[2.0], [2.0], []]


async def test_one_that_wants_each_sweep_gets_it() -> None:
    member = _Member(EACH_SWEEP)
    sweep = Sweep([member], 1.0)
    sweep.sweep(0.0)
    member.deadline = EACH_SWEEP
    sweep.sweep(0.0)
    assert member.calls == [0.0, 0.0]


async def test_a_member_may_leave_during_a_pass() -> None:
    members: set[_Member] = set()

    class Leaving(_Member):
        def expired(self, now: float) -> None:
            members.discard(self)

    members |= {Leaving(0.0), Leaving(0.0)}
    Sweep(members, 1.0).sweep(1.0)
    assert not members


async def test_one_whose_deadline_another_moved_is_not_called() -> None:
    second = _Member(EACH_SWEEP)

    class Freeing(_Member):
        def expired(self, now: float) -> None:
            second.deadline = now + 100

    Sweep([Freeing(0.0), second], 1.0).sweep(1.0)
    assert second.calls == []


async def test_it_runs_until_it_is_stopped() -> None:
    member = _Member(0.0)
    sweep = Sweep([member], 0.001)
    sweep.start()
    async with within():
        await member.called.wait()
    sweep.stop()
    sweep.stop()
    member.deadline = 0.0
    calls = len(member.calls)
    await asyncio.sleep(0.01)
    assert len(member.calls) == calls
