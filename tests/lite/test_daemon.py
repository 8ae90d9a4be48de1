"""The owner of the state: what subscribers hear."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.lite.samples import agent, state
from tests.support.deadlines import within

from mentatd.lite.daemon import MAX_BACKLOG, Daemon
from mentatd.lite.state import MAX_AGENTS, AgentKey

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
    daemon.sweep(-1)
    daemon.move({})
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


async def test_ending_wakes_who_waits(daemon: Daemon) -> None:
    heard = daemon.subscribe()
    asyncio.get_running_loop().call_soon(heard.end)
    async with within():
        assert await heard.next() is None


def test_a_history_is_kept_for_its_time(daemon: Daemon) -> None:
    daemon.register(agent(), "127.0.0.1", 1)
    daemon.lose(KEY, 1)
    daemon.sweep(0)
    assert KEY in daemon.state.agents
    daemon.sweep(-1)
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
