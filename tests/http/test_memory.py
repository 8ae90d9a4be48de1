"""Who may go on, who waits and who is cut."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.support.deadlines import until

from mentatd.http.memory import SLOW_BYTES_PER_S, BodyMemory, Share, is_slow, to_go_on

LONG = 1000.0


@dataclass
class Body:
    """A filler that notes what it is told."""

    memory: BodyMemory
    received: int | None = 0
    told: list[str] = field(default_factory=list)
    share: Share = field(init=False)

    def __post_init__(self) -> None:
        self.share = self.memory.join(self)

    def ask(self, size: int) -> bool:
        return self.memory.ask(self.share, size)

    def leave(self) -> None:
        self.memory.leave(self.share)

    def go_on(self) -> None:
        self.told.append("go on")

    def bytes_received(self) -> int | None:
        return self.received

    def cut_slow(self) -> None:
        self.told.append("cut")
        self.leave()


def shares(*pairs: tuple[int, int]) -> list[Share]:
    filler = Body(BodyMemory(0, LONG))
    return [Share(filler, held, wanted) for held, wanted in pairs]


@pytest.mark.parametrize(
    ("pairs", "going"),
    [
        ([], []),
        ([(0, 0)], []),
        ([(0, 100)], [0]),
        ([(60, 0), (0, 40)], [1]),
        ([(60, 0), (0, 41)], []),
        # first come, first served: the small one behind does not pass
        ([(60, 0), (0, 41), (0, 1)], []),
        ([(60, 0), (0, 20), (0, 20), (0, 1)], [1, 2]),
        # an older body that grows comes before younger ones
        ([(60, 30), (0, 40)], [0]),
        # one that is larger than all of it goes alone
        ([(0, 101)], [0]),
        ([(0, 101), (0, 1)], [0]),
        ([(1, 0), (0, 101)], []),
        # all that hold something wait: the oldest goes past the limit
        ([(50, 20), (50, 20)], [0]),
        ([(50, 20), (50, 0)], []),
        ([(50, 20), (50, 20), (0, 5)], [0]),
        ([(130, 20), (0, 20)], [0]),
    ],
)
def test_who_goes_on(pairs: list[tuple[int, int]], going: list[int]) -> None:
    asked = shares(*pairs)
    assert [asked.index(share) for share in to_go_on(asked, 100)] == going


def test_a_client_is_slow_below_64_kib_a_second() -> None:
    assert is_slow(1000, 1000 + 5 * SLOW_BYTES_PER_S - 1, 5)
    assert not is_slow(1000, 1000 + 5 * SLOW_BYTES_PER_S, 5)


async def test_a_share_that_comes_back_lets_the_next_ones_go_on() -> None:
    memory = BodyMemory(100, LONG)
    first, second, third = Body(memory), Body(memory), Body(memory)
    assert first.ask(100)
    assert not second.ask(60)
    assert not third.ask(40)
    first.leave()
    first.leave()
    assert (first.told, second.told, third.told) == ([], ["go on"], ["go on"])
    assert memory.held == 100
    second.leave()
    third.leave()
    assert memory.held == 0


async def test_a_share_that_shrinks_lets_the_next_ones_go_on() -> None:
    memory = BodyMemory(100, LONG)
    first, second = Body(memory), Body(memory)
    assert first.ask(100)
    assert not second.ask(60)
    assert first.ask(40)
    assert second.told == ["go on"]
    second.leave()


async def test_one_that_leaves_while_it_waits_is_in_nobodys_way() -> None:
    memory = BodyMemory(100, LONG)
    first, second, third = Body(memory), Body(memory), Body(memory)
    assert first.ask(60)
    assert not second.ask(60)
    assert not third.ask(40)
    second.leave()
    assert third.told == ["go on"]


async def test_bodies_that_all_wait_for_more_end_one_after_the_other() -> None:
    memory = BodyMemory(100, LONG)
    first, second = Body(memory), Body(memory)
    assert first.ask(50)
    assert second.ask(50)
    assert not second.ask(60)
    assert first.ask(90)  # now every holder would wait
    assert memory.held == 140
    assert second.told == []
    first.leave()
    assert second.told == ["go on"]


WINDOW = 0.02


async def test_a_slow_client_is_cut_while_others_wait() -> None:
    memory = BodyMemory(100, WINDOW)
    slow, waiting = Body(memory), Body(memory)
    assert slow.ask(60)
    assert not waiting.ask(60)
    await until(lambda: waiting.told == ["go on"])
    assert slow.told == ["cut"]


async def test_nobody_is_cut_who_is_not_in_the_way() -> None:
    memory = BodyMemory(100, WINDOW)
    quick, whole, growing, waiting = (Body(memory) for _ in range(4))
    whole.received = None
    assert quick.ask(30)
    assert whole.ask(30)
    assert growing.ask(30)
    assert not growing.ask(60)
    assert not waiting.ask(60)
    windows = 0

    def window_ends() -> bool:
        nonlocal windows
        windows += 1
        assert quick.received is not None
        quick.received += 1 << 20
        return windows > 50

    await until(window_ends)
    assert [body.told for body in (quick, whole, growing, waiting)] == [[], [], [], []]
    for body in (quick, whole, growing, waiting):
        body.leave()


async def test_slow_clients_are_cut_only_as_long_as_others_wait() -> None:
    memory = BodyMemory(100, WINDOW)
    slow, slow_too, waiting = Body(memory), Body(memory), Body(memory)
    assert slow.ask(50)
    assert slow_too.ask(50)
    assert not waiting.ask(50)
    await until(lambda: waiting.told == ["go on"])
    assert (slow.told, slow_too.told) == (["cut"], [])


async def test_a_client_has_a_whole_window_once_it_may_go_on() -> None:
    loop = asyncio.get_running_loop()
    memory = BodyMemory(100, 0.2)
    first, second, third = Body(memory), Body(memory), Body(memory)
    assert first.ask(100)
    assert not second.ask(100)
    assert not third.ask(100)
    first.leave()
    went = loop.time()
    await until(lambda: second.told == ["go on", "cut"])
    assert loop.time() - went >= 0.2
    third.leave()


async def test_without_waiters_no_timer_runs() -> None:
    memory = BodyMemory(100, LONG)
    first, second = Body(memory), Body(memory)
    assert first.ask(100)
    timers = [memory._window]
    assert not second.ask(1)
    timers.append(memory._window)
    second.leave()
    timers.append(memory._window)
    assert [timer is not None for timer in timers] == [False, True, False]


LIMIT, LARGEST = 100, 60


class Shares(RuleBasedStateMachine):
    """Any bodies in any order: the limit holds, and nobody waits while nobody can end."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.memory = BodyMemory(LIMIT, LONG)
        self.bodies: list[Body] = []

    def teardown(self) -> None:
        async def leave() -> None:
            for body in self.bodies:
                body.leave()

        self.loop.run_until_complete(leave())
        self.loop.close()
        assert self.memory.held == 0

    def run(self, body: Body, size: int) -> None:
        async def ask() -> None:
            if not body.share.wanted:
                body.ask(size)

        self.loop.run_until_complete(ask())

    @rule(size=st.integers(1, LARGEST))
    def comes(self, size: int) -> None:
        self.bodies.append(Body(self.memory))
        self.run(self.bodies[-1], size)

    @rule(which=st.integers(0), size=st.integers(1, LARGEST))
    def asks(self, which: int, size: int) -> None:
        if self.bodies:
            self.run(self.bodies[which % len(self.bodies)], size)

    @rule(which=st.integers(0))
    def leaves(self, which: int) -> None:
        async def leave(body: Body) -> None:
            body.leave()

        if self.bodies:
            self.loop.run_until_complete(leave(self.bodies.pop(which % len(self.bodies))))

    @invariant()
    def the_limit_is_passed_by_one_body_at_most(self) -> None:
        assert self.memory.held <= LIMIT + LARGEST

    @invariant()
    def somebody_can_end(self) -> None:
        waiting = [body for body in self.bodies if body.share.wanted]
        assert not waiting or any(not body.share.wanted for body in self.bodies if body.share.held)


TestShares = Shares.TestCase


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=8), st.integers(0, 200))
def test_those_that_go_on_are_the_first_that_wait(pairs: list[tuple[int, int]], limit: int) -> None:
    asked = shares(*pairs)
    waiting = [share for share in asked if share.wanted]
    going = to_go_on(asked, limit)
    assert going == waiting[: len(going)]
