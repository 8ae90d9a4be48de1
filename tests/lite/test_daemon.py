"""The owner of the state: what subscribers hear."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from tests.lite.samples import agent, state
from tests.support.clock import Clock
from tests.support.deadlines import within

from mentatd.lite.daemon import MAX_BACKLOG, Daemon
from mentatd.lite.settings import Lifetimes
from mentatd.lite.state import MAX_AGENTS, AgentKey
from mentatd.wire.mesh import MeshNode

KEY = AgentKey("glm", "glm@c0@")


@pytest.fixture
def daemon() -> Daemon:
    return Daemon(state(), now_ms=lambda: 7000)


async def test_a_subscriber_hears_everything_after_its_snapshot(daemon: Daemon) -> None:
    daemon.register(agent(), "127.0.0.1", daemon.new_link())
    heard = daemon.subscribe()
    assert json.loads(heard.first)["seq"] == 1
    daemon.note(KEY, 1, "openai", "narrow")
    daemon.note(KEY, 1, "openai", "narrow")
    daemon.lose(KEY, 1)
    daemon.sweep(Lifetimes(history_keep_ms=-1))
    daemon.move([])
    events = [json.loads(await heard.next() or "") for _ in range(4)]
    assert [(e["type"], e["seq"], e["ts_ms"]) for e in events] == [
        ("service_note", 2, 7000),
        ("agent_lost", 3, 7000),
        ("agent_swept", 4, 7000),
        ("addrs_changed", 5, 7000),
    ]


async def test_a_subscriber_that_leaves_hears_nothing(daemon: Daemon) -> None:
    heard = daemon.subscribe()
    assert daemon.subscribers == 1
    daemon.unsubscribe(heard)
    daemon.unsubscribe(heard)
    assert daemon.subscribers == 0
    daemon.register(agent(), "127.0.0.1", 1)
    heard.end()
    assert await heard.next() is None


async def test_a_subscriber_that_falls_behind_is_ended_and_harms_no_other(daemon: Daemon) -> None:
    slow, quick = daemon.subscribe(), daemon.subscribe()
    for n in range(MAX_BACKLOG + 1):
        daemon.register(agent(), "127.0.0.1", n)
        async with within():
            assert await quick.next() is not None
    async with within():
        assert await slow.next() is None


async def test_what_a_peer_tells_goes_to_listeners_and_to_no_other_peer(daemon: Daemon) -> None:
    listener, mesh_link = daemon.subscribe(), daemon.subscribe(own=True)
    daemon.relay(b'{"type":"agent_lost","node":"n2"}')
    daemon.register(agent(), "127.0.0.1", 1)
    async with within():
        assert json.loads(await listener.next() or "")["node"] == "n2"
        assert json.loads(await listener.next() or "")["node"] == "n1"
        assert json.loads(await mesh_link.next() or "")["node"] == "n1"


def test_what_is_away_or_silent_for_long_is_said_in_one_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock(100.0)
    daemon = Daemon(state(), now_ms=lambda: int(clock.now * 1000), now_s=clock)
    daemon.register(agent(), "127.0.0.1", 1)
    daemon.lose(KEY, 1)
    for link, node_id in enumerate(("n2", "n3"), 2):
        assert daemon.join_mesh(MeshNode(node_id), link=link, link_ip="10.0.0.2", dialled=True)
    daemon.leave("n3", 3, "link closed")
    capsys.readouterr()
    said = []
    for later in (29.9, 30.1, 59.9, 60.1, 600.1):
        clock.now = 100.0 + later
        daemon.sweep(Lifetimes())
        said.append(re.findall(r"event=(\w+)", capsys.readouterr().err))
    assert said == [
        [],
        ["agent_degraded", "peer_stale"],
        [],
        ["agent_dead"],
        ["agent_swept", "peer_forgotten"],
    ]
    assert set(daemon.state.peers) == {"n2"}


async def test_ending_wakes_who_waits(daemon: Daemon) -> None:
    heard = daemon.subscribe()
    asyncio.get_running_loop().call_soon(heard.end)
    async with within():
        assert await heard.next() is None


def test_a_history_is_kept_for_its_time(daemon: Daemon) -> None:
    daemon.register(agent(), "127.0.0.1", 1)
    daemon.lose(KEY, 1)
    daemon.sweep(Lifetimes(history_keep_ms=0))
    assert KEY in daemon.state.agents
    daemon.sweep(Lifetimes(history_keep_ms=-1))
    assert KEY not in daemon.state.agents


def test_too_many_agents_are_refused(daemon: Daemon) -> None:
    assert all(daemon.register(agent(str(n)), "127.0.0.1", n) for n in range(MAX_AGENTS))
    assert not daemon.register(agent("one more"), "127.0.0.1", 1)


def test_changes_are_logged(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    daemon.register(agent(), "127.0.0.1", 1)
    daemon.lose(KEY, 1)
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("event=agent_register group=glm agent=glm@c0@")
    assert second.endswith('event=agent_lost group=glm agent=glm@c0@ why="link closed"')
