"""The watch set: which daemons are followed, what of theirs reaches the cluster, and what ends a watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from tests.support.clock import Clock
from tests.support.daemons import ScriptedDaemon
from tests.support.deadlines import until
from tests.support.ports import free_port
from tests.support.scripted import answering, scripted
from tests.support.views import SOURCES, agent, group_view, peer, view

from mentatd.cluster.sources import AllowedSources
from mentatd.cluster.watchset import WatchSet, choose
from mentatd.http.client import Client
from mentatd.http.pool import Pool
from mentatd.serve import watch as module
from mentatd.serve.cluster import Cluster
from mentatd.serve.networks import Networks
from mentatd.serve.watch import Watches
from mentatd.wire.snapshot import Peer, View


class World:
    """A cluster, the watches that feed it, and a clock for what takes an hour."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.networks = Networks(dict)
        self.pool = Pool()
        self.cluster = Cluster(self.networks, SOURCES, stale_after=30.0, fresh_s=18.0, clock=self.clock)
        self.watches: list[Watches] = []

    def watch(
        self,
        *seeds: ScriptedDaemon | int,
        peers: bool = True,
        sources: AllowedSources = SOURCES,
        every: float = 0.05,
    ) -> Watches:
        """Start with these seeds: a daemon, or a port of loopback."""
        places = [("127.0.0.1", s) if isinstance(s, int) else (s.host, s.port) for s in seeds]
        watches = Watches(
            self.cluster,
            self.networks,
            Client(self.pool),
            seeds=places,
            sources=sources,
            discover_peers=peers,
            poll_interval=every,
            clock=self.clock,
        )
        self.watches.append(watches)
        watches.start()
        return watches

    async def close(self) -> None:
        for watches in self.watches:
            await watches.close()
        self.cluster.close()
        await self.pool.close()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    await world.close()


def addresses(watches: Watches) -> list[str]:
    return [daemon.claim.address for daemon in watches.daemons()]


def named(node: str, *peers: Peer, group: str = "") -> View:
    groups = {group: group_view(agent(f"{group}@c0@10.0.0.1"))} if group else {}
    return replace(view(groups=groups, peers=peers), node_id=node)


def mate(daemon: ScriptedDaemon, node: str, *, alive: bool = True) -> Peer:
    """How another daemon reports this one."""
    return replace(peer(daemon.host, http_port=daemon.port, alive=alive), node_id=node)


async def test_a_seed_is_watched_and_its_view_reaches_the_table(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    async with ScriptedDaemon(named("a", group="glm")) as seed:
        watches = world.watch(seed)
        await until(lambda: "glm" in world.cluster.table.groups)
        assert world.cluster.table.groups["glm"].group.trusted
        assert addresses(watches) == [seed.address]
    assert f"event=daemon_watch daemon={seed.address} source=seed\n" in capsys.readouterr().err


async def test_peers_of_a_watched_daemon_are_followed_and_share_its_trust(world: World) -> None:
    async with ScriptedDaemon(named("b", group="qwen")) as other, ScriptedDaemon() as seed:
        seed.view = named(
            "a", mate(other, "b"), mate(ScriptedDaemon(port=1), "dead", alive=False), group="glm"
        )
        watches = world.watch(seed)
        await until(lambda: set(world.cluster.table.groups) == {"glm", "qwen"})
        assert world.cluster.table.groups["qwen"].group.trusted
        assert addresses(watches) == sorted([seed.address, other.address])


async def test_peers_are_followed_only_where_that_is_wanted_and_allowed(world: World) -> None:
    async with ScriptedDaemon(named("b")) as other, ScriptedDaemon() as seed:
        seed.view = named("a", mate(other, "b"))
        off = world.watch(seed, peers=False)
        elsewhere = world.watch(seed, sources=AllowedSources(("10.",)))
        await until(lambda: seed.reads >= 6)
        assert addresses(off) == addresses(elsewhere) == [seed.address]


async def test_an_announced_daemon_is_watched_and_trusted_only_when_signed(world: World) -> None:
    async with ScriptedDaemon(named("b", group="qwen")) as daemon:
        watches = world.watch()
        watches.announced("b", ["127.0.0.1"], daemon.port, False)
        await until(lambda: "qwen" in world.cluster.table.groups)
        assert not world.cluster.table.groups["qwen"].group.trusted
        watches.announced("b", ["127.0.0.1"], daemon.port, True)
        await until(lambda: world.cluster.table.groups["qwen"].group.trusted)


async def test_the_old_watch_ends_when_a_nodes_announced_address_moves(world: World) -> None:
    async with (
        ScriptedDaemon(named("b", group="qwen")) as old,
        ScriptedDaemon(named("b")) as new,
        ScriptedDaemon(named("b", group="glm")) as newer,
    ):
        watches = world.watch()
        watches.announced("b", ["127.0.0.1"], old.port, True)
        await until(lambda: "qwen" in world.cluster.table.groups)
        new.answer = new.never
        watches.announced("b", ["127.0.0.1"], new.port, True)
        assert addresses(watches) == [new.address]
        await until(lambda: not old.listeners and new.reads)
        assert "qwen" in world.cluster.table.groups, "until the new watch has a view, the old one stands"
        watches.announced("b", ["127.0.0.1"], newer.port, True)
        await until(lambda: world.cluster.table.groups and "glm" in world.cluster.table.groups)
        assert "qwen" not in world.cluster.table.groups


async def test_the_next_announced_address_is_watched_while_the_first_fails(world: World) -> None:
    """The link that is cut need not be the only one, and no model is gone in between."""

    async def broken() -> tuple[int, bytes]:
        return 500, b""

    here = named("b", group="qwen")
    async with (
        ScriptedDaemon(here) as first,
        ScriptedDaemon(here, host="127.0.0.2", port=first.port) as second,
    ):
        watches = world.watch()
        watches.announced("b", [first.host, second.host], first.port, True)
        await until(lambda: "qwen" in world.cluster.table.groups)
        assert addresses(watches) == [first.address]
        first.answer = broken
        seen: list[bool] = []

        def moved() -> bool:
            seen.append("qwen" in world.cluster.table.groups)
            return addresses(watches) == [second.address]

        await until(moved)
        assert all(seen)
        watches.announced("b", [first.host, second.host], first.port, True)
        assert addresses(watches) == [second.address], "the same announcement moves nothing"
        first.answer, second.answer = None, broken
        await until(lambda: addresses(watches) == [first.address])


async def test_a_node_is_watched_once_and_on_the_seed(world: World) -> None:
    async with ScriptedDaemon(named("a")) as one, ScriptedDaemon(named("a")) as two:
        watches = world.watch(one)
        watches.announced("a", ["127.0.0.1"], two.port, True)
        await until(lambda: addresses(watches) == [one.address])
        watches.announced("a2", ["127.0.0.1"], two.port, True)  # the same daemon under an older name
        reads = one.reads
        await until(lambda: one.reads > reads + 2)
        assert addresses(watches) == [one.address], "which node answers there is remembered"
        reads = two.reads
        world.clock.now += module.REMEMBER_S + 1
        await until(lambda: two.reads > reads)


async def test_another_address_of_a_node_takes_over_while_the_seed_fails(world: World) -> None:
    async with ScriptedDaemon(named("a", group="glm")) as two:
        one = ScriptedDaemon(named("a"))
        await one.start()
        watches = world.watch(one)
        await until(lambda: watches.daemons()[0].connected)
        watches.announced("a", ["127.0.0.1"], two.port, True)
        assert addresses(watches) == [one.address]
        await one.stop()
        await until(lambda: "glm" in world.cluster.table.groups)
        assert addresses(watches) == sorted([one.address, two.address])
        await one.start()
        await until(lambda: addresses(watches) == [one.address])
        await one.stop()


async def test_polls_that_show_nothing_new_lead_to_no_choice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    choices: list[int] = []

    def counted(*args: Any, **kwargs: Any) -> WatchSet:
        choices.append(1)
        return choose(*args, **kwargs)

    monkeypatch.setattr(module, "choose", counted)
    async with (
        ScriptedDaemon(named("a")) as one,
        ScriptedDaemon(named("b")) as two,
        ScriptedDaemon(named("c")) as three,
    ):
        one.view, two.view = named("a", mate(two, "b")), named("b", mate(one, "a"))
        watches = world.watch(one)
        await until(lambda: one.reads >= 4 and two.reads >= 4)
        settled, reads = len(choices), one.reads
        one.view = replace(one.view, groups={"glm": group_view(agent())})
        await until(lambda: one.reads >= reads + 4 and "glm" in world.cluster.table.groups)
        assert len(choices) == settled
        one.view = named("a", mate(two, "b"), mate(three, "c"))
        await until(lambda: three.address in addresses(watches))


async def test_one_bad_daemon_harms_no_other(world: World) -> None:
    async with (
        ScriptedDaemon(named("a", group="glm")) as good,
        ScriptedDaemon() as slow,
        scripted(answering(b"\x00garbage\r\n\r\n")) as garbage,
    ):
        slow.answer = slow.never
        world.watch(slow, garbage.port, free_port(), good)
        await until(lambda: "glm" in world.cluster.table.groups)
        reads = good.reads
        await until(lambda: good.reads > reads + 3)


async def test_a_peer_that_no_one_names_any_more_stays_while_it_can_be_reached(world: World) -> None:
    async with ScriptedDaemon(named("b", group="qwen")) as other, ScriptedDaemon() as seed:
        seed.view = named("a", mate(other, "b"))
        watches = world.watch(seed)
        await until(lambda: "qwen" in world.cluster.table.groups)
        seed.view = named("a")
        await until(lambda: watches.daemons() and all(not d.view.peers for d in watches.daemons() if d.view))
        world.clock.now += 2 * module.RETIRE_S
        reads = other.reads
        await until(lambda: other.reads > reads + 2)
        assert other.address in addresses(watches)


async def test_an_unreachable_peer_is_dropped_after_an_hour_until_it_is_announced(world: World) -> None:
    gone = ScriptedDaemon(port=free_port())
    async with ScriptedDaemon(named("a", mate(gone, "b"))) as seed:
        watches = world.watch(seed)
        await until(lambda: gone.address in addresses(watches))
        world.clock.now += module.RETIRE_S + 1
        await until(lambda: gone.address not in addresses(watches))
        reads = seed.reads
        await until(lambda: seed.reads > reads + 2)
        assert addresses(watches) == [seed.address], "though it is still named"
        watches.announced("b", [gone.host], gone.port, True)
        assert gone.address in addresses(watches)


async def test_an_unreachable_announced_daemon_is_dropped_after_an_hour_and_returns(world: World) -> None:
    port = free_port()
    watches = world.watch()
    watches.announced("b", ["127.0.0.1"], port, True)
    await until(lambda: watches.daemons()[0].error)
    world.clock.now += module.RETIRE_S + 1
    await until(lambda: not watches.daemons())
    watches.announced("b", ["127.0.0.1"], port, True)
    assert addresses(watches) == [f"127.0.0.1:{port}"]


async def test_an_unreachable_seed_is_never_dropped(world: World) -> None:
    watches = world.watch(free_port())
    await until(lambda: watches.daemons()[0].error)
    world.clock.now += module.RETIRE_S + 1
    await asyncio.sleep(0.2)
    assert watches.daemons()


async def test_a_flood_of_announcements_meets_a_bound_that_is_said_once(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BOUND", 4)
    async with ScriptedDaemon(named("a")) as seed:
        watches = world.watch(seed)
        for number in (0, *range(50)):
            watches.announced(f"n{number}", ["127.0.0.1"], 1 + number, False)
        assert len(watches.daemons()) == 4
        assert seed.address in addresses(watches)
    assert capsys.readouterr().err.count("event=watch_set_full bound=4") == 1


async def test_peers_beyond_the_bound_are_said_too(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BOUND", 3)
    peers = [mate(ScriptedDaemon(port=free_port()), f"p{number}") for number in range(3)]
    async with ScriptedDaemon(named("a", *peers)) as seed:
        watches = world.watch(seed)
        await until(lambda: len(watches.daemons()) == 3)
    assert "event=watch_set_full" in capsys.readouterr().err


async def test_a_change_of_this_boxs_networks_chooses_the_peers_addresses_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ScriptedDaemon(named("b")) as other, ScriptedDaemon() as seed:
        there = replace(mate(other, "b"), link_ip="10.255.255.1", addrs=("127.0.0.1",))
        seed.view = named("a", there)
        monkeypatch.setattr(module, "peer_claims", lambda *args, **kwargs: ())
        watches = world.watch(seed, every=60.0)
        await until(lambda: watches.daemons()[0].connected)
        monkeypatch.undo()
        assert addresses(watches) == [seed.address]
        watches.networks_changed()
        assert addresses(watches) == sorted([seed.address, other.address])


async def test_what_comes_after_the_end_changes_nothing(world: World) -> None:
    async with ScriptedDaemon(named("a")) as seed:
        watches = world.watch(seed)
        await until(lambda: watches.daemons()[0].connected)
        await watches.close()
        watches.announced("b", ["127.0.0.1"], 1, True)
        assert addresses(watches) == [seed.address]
