"""The owner of views and probes: when it rebuilds, what it publishes, whom it wakes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from tests.support.clock import Clock
from tests.support.deadlines import until, within
from tests.support.views import SOURCES, agent, group_view, probe, seen, view

from mentatd.cluster.admission import Probe
from mentatd.cluster.groups import SeenView
from mentatd.serve import cluster as module
from mentatd.serve.cluster import Changes, Cluster
from mentatd.serve.networks import Networks

DAEMON = "10.0.0.1:6380"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cluster(clock: Clock) -> Iterator[Cluster]:
    owner = Cluster(Networks(dict), SOURCES, stale_after=30.0, fresh_s=18.0, clock=clock)
    yield owner
    owner.close()


def glm(clock: Clock, running: int = 1, daemon: str = DAEMON) -> SeenView:
    return seen(view(groups={"glm": group_view(agent(), running=running)}), daemon, at=clock.now)


async def built(cluster: Cluster, number: int) -> None:
    async with within():
        await cluster.changes.after(number - 1)


async def test_the_first_view_is_in_the_table_on_the_next_turn_of_the_loop(
    cluster: Cluster, clock: Clock
) -> None:
    cluster.put_view(glm(clock))
    assert not cluster.table.groups
    await asyncio.sleep(0)
    assert cluster.table.groups["glm"].why_not == "not probed yet"


async def test_a_burst_of_views_costs_two_rebuilds(cluster: Cluster, clock: Clock) -> None:
    cluster.put_view(glm(clock, running=1))
    await asyncio.sleep(0)
    for running in range(2, 60):
        cluster.put_view(glm(clock, running=running))
        await asyncio.sleep(0)
    assert cluster.changes.number == 1
    await built(cluster, 2)
    assert cluster.table.groups["glm"].group.actors_running == 59
    await asyncio.sleep(0)
    assert cluster.changes.number == 2


class Timer:
    """One call that is due."""

    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at = at
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class Timers:
    """An event loop's timers by the test's clock, which `pass_until` moves."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timers: list[Timer] = []

    def call_later(self, delay: float, call: Callable[[], None]) -> Timer:
        self._timers.append(Timer(self._clock.now + delay, call))
        return self._timers[-1]

    def call_soon(self, call: Callable[[], None]) -> Timer:
        return self.call_later(0.0, call)

    def pass_until(self, end: float) -> None:
        """Make the calls that are due until then, each at its time."""
        while due := [timer for timer in self._timers if timer.at <= end]:
            timer = min(due, key=lambda timer: timer.at)
            self._timers.remove(timer)
            if timer.call is not None:
                self._clock.now = max(self._clock.now, timer.at)
                timer.call()
        self._clock.now = end


@pytest.fixture
def loop(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Timers:
    timers = Timers(clock)
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: timers)
    return timers


def test_whatever_comes_there_are_ten_tables_a_second_the_first_at_once_the_last_in_time(
    cluster: Cluster, clock: Clock, loop: Timers
) -> None:
    start = clock.now
    built_at: list[float] = []
    for step in range(2000):
        at = start + step / 1000
        loop.pass_until(at)
        cluster.put_view(glm(clock, running=1 + step))
        if step % 7 == 0 and cluster.table.groups:
            cluster.put_probe("glm", probe(cluster.table.groups["glm"].group, f"m{step}", at=at))
        loop.pass_until(at + 0.0005)
        if cluster.changes.number > len(built_at):
            built_at.append(clock.now)
    assert built_at[0] < start + 0.001
    assert len([at for at in built_at if at < start + 1]) == 10
    assert cluster.changes.number == 20
    loop.pass_until(clock.now + 0.1)
    assert cluster.table.groups["glm"].group.actors_running == 2000
    loop.pass_until(clock.now + 10)
    assert cluster.changes.number == 21


def test_results_that_only_confirm_wait_for_each_other_and_no_longer(
    cluster: Cluster, clock: Clock, loop: Timers
) -> None:
    names = [f"g{number}" for number in range(50)]
    cluster.put_view(
        seen(view(groups={name: group_view(agent(f"{name}@c0@10.0.0.1")) for name in names}), at=clock.now)
    )
    loop.pass_until(clock.now + 1)
    groups = {name: state.group for name, state in cluster.table.groups.items()}
    for name in names:
        cluster.put_probe(name, probe(groups[name], name, at=clock.now))
    loop.pass_until(clock.now + 1)
    assert set(cluster.table.models) == set(names)
    before = cluster.changes.number
    for name in names:
        cluster.put_probe(name, probe(groups[name], name, at=clock.now))
        loop.pass_until(clock.now + 0.005)
    assert cluster.changes.number == before
    loop.pass_until(clock.now + module.CONFIRM_S)
    assert cluster.changes.number == before + 1
    # news does not wait, and takes along what does
    again = probe(groups["g0"], "g0", at=clock.now)
    cluster.put_probe("g0", again)
    cluster.put_probe("g1", probe(groups["g1"], "other", at=clock.now))
    loop.pass_until(clock.now + module.REBUILD_S)
    assert cluster.table.groups["g0"].probe is again
    assert "other" in cluster.table.models
    assert cluster.changes.number == before + 2
    loop.pass_until(clock.now + 1)
    assert cluster.changes.number == before + 2


def test_no_route_goes_stale_for_a_result_that_waits(cluster: Cluster, clock: Clock, loop: Timers) -> None:
    cluster.put_view(glm(clock))
    loop.pass_until(clock.now + 1)
    group = cluster.table.groups["glm"].group
    began = clock.now
    cluster.put_probe("glm", probe(group, "glm-5", at=began))
    loop.pass_until(began + cluster.fresh_s - module.CONFIRM_S)
    cluster.put_probe("glm", probe(group, "glm-5", at=clock.now))
    loop.pass_until(clock.now)
    route = cluster.table.groups["glm"].route
    assert route is not None
    assert route.fresh_until > began + cluster.fresh_s


async def test_a_view_that_says_nothing_new_rebuilds_nothing_and_keeps_the_daemon_fresh(
    cluster: Cluster, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REBUILD_S", 0.0)
    cluster.put_view(glm(clock))
    await built(cluster, 1)
    clock.now += 20
    cluster.put_view(glm(clock))
    clock.now += 20
    await asyncio.sleep(0)
    assert cluster.changes.number == 1
    cluster.refresh()
    await built(cluster, 2)
    assert "glm" in cluster.table.groups
    clock.now += 20
    cluster.refresh()
    await built(cluster, 3)
    assert not cluster.table.groups
    cluster.put_view(glm(clock))
    await built(cluster, 4)
    assert "glm" in cluster.table.groups


async def test_the_same_view_with_another_standing_is_merged_again(cluster: Cluster, clock: Clock) -> None:
    cluster.put_view(replace(glm(clock), trusted=False))
    await built(cluster, 1)
    assert not cluster.table.groups["glm"].group.trusted
    cluster.put_view(glm(clock))
    await built(cluster, 2)
    assert cluster.table.groups["glm"].group.trusted


async def test_a_daemon_that_is_dropped_takes_its_groups_along(cluster: Cluster, clock: Clock) -> None:
    cluster.put_view(glm(clock))
    await built(cluster, 1)
    cluster.drop_daemon("10.0.0.9:6380")
    cluster.drop_daemon(DAEMON)
    await built(cluster, 2)
    assert not cluster.table.groups


async def test_a_probe_admits_its_group_and_is_forgotten_with_it(
    cluster: Cluster, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REBUILD_S", 0.0)
    cluster.put_view(glm(clock))
    await built(cluster, 1)
    found = probe(cluster.table.groups["glm"].group, "glm-5", at=clock.now)
    cluster.put_probe("glm", found)
    cluster.put_probe("gone", found)
    await built(cluster, 2)
    assert [route.group for route in cluster.table.models["glm-5"]] == ["glm"]
    cluster.drop_daemon(DAEMON)
    await built(cluster, 3)
    cluster.put_view(glm(clock))
    await built(cluster, 4)
    assert cluster.table.groups["glm"].why_not == "not probed yet"


async def test_each_result_of_a_known_group_goes_to_the_observer(cluster: Cluster, clock: Clock) -> None:
    cluster.put_view(glm(clock))
    await built(cluster, 1)
    found = probe(cluster.table.groups["glm"].group, "glm-5", at=clock.now)
    heard: list[tuple[str, Probe]] = []
    cluster.on_probe(lambda group, probe: heard.append((group, probe)))
    cluster.put_probe("glm", found)
    cluster.put_probe("gone", found)
    assert heard == [("glm", found)]


async def test_a_rebuild_keeps_what_did_not_change(cluster: Cluster, clock: Clock) -> None:
    cluster.put_view(glm(clock))
    await built(cluster, 1)
    before = cluster.table.groups["glm"]
    other = view("10.0.0.2", groups={"qwen": group_view(agent("qwen@c0@10.0.0.2"))})
    cluster.put_view(seen(other, "10.0.0.2:6380", at=clock.now))
    await built(cluster, 2)
    assert list(cluster.table.groups) == ["glm", "qwen"]
    assert cluster.table.groups["glm"] is before


async def test_a_view_that_goes_stale_leaves_the_table_by_itself() -> None:
    cluster = Cluster(Networks(dict), SOURCES, stale_after=0.2, fresh_s=18.0)
    cluster.put_view(seen(view(groups={"glm": group_view(agent())}), at=asyncio.get_running_loop().time()))
    await built(cluster, 1)
    assert cluster.table.groups
    await until(lambda: not cluster.table.groups)
    cluster.close()


async def test_a_stale_view_waits_for_those_that_are_not(cluster: Cluster, clock: Clock) -> None:
    cluster.put_view(glm(clock))
    await built(cluster, 1)
    clock.now += 20
    cluster.put_view(glm(clock))
    cluster._expired()
    await asyncio.sleep(0)
    assert cluster.changes.number == 1


async def test_a_probe_that_expires_takes_its_route_out_by_itself() -> None:
    cluster = Cluster(Networks(dict), SOURCES, stale_after=30.0, fresh_s=0.2)
    now = asyncio.get_running_loop().time()
    cluster.put_view(seen(view(groups={"glm": group_view(agent())}), at=now))
    await built(cluster, 1)
    cluster.put_probe("glm", probe(cluster.table.groups["glm"].group, "glm-5", at=now))
    await until(lambda: cluster.table.models)
    await until(lambda: not cluster.table.models)
    assert cluster.table.groups["glm"].why_not == "endpoint probe stale"
    cluster.close()


async def test_a_suspicion_goes_to_the_observer(cluster: Cluster) -> None:
    heard: list[tuple[str, str]] = []
    cluster.suspect("glm", "http://10.0.0.1:8000/v1")
    cluster.on_suspect(lambda group, url: heard.append((group, url)))
    cluster.suspect("glm", "http://10.0.0.1:8000/v1")
    assert heard == [("glm", "http://10.0.0.1:8000/v1")]


async def test_every_waiter_is_woken_and_none_waits_for_what_has_been() -> None:
    changes = Changes()
    changes.announce()
    async with within():
        assert await changes.after(0) == 1
        waiters = asyncio.gather(changes.after(1), changes.after(1), changes.after(2))
        await asyncio.sleep(0)
        changes.announce()
        await asyncio.sleep(0)
        assert not waiters.done()
        changes.announce()
        assert list(await waiters) == [2, 2, 3]
