"""Every way in which the state of a lite daemon changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.lite.samples import NODE, agent, state

from mentatd.lite.state import (
    MAX_AGENTS,
    Address,
    AgentKey,
    Change,
    State,
    age,
    lose,
    move,
    note,
    register,
    sweep,
)

KEY = AgentKey("glm", "glm@c0@")
FABRIC, LAN = Address("10.0.0.1", "eth0"), Address("192.168.1.11", "eth1")


def registered(link: int = 1) -> State:
    return register(state(), agent(gpus=2), "127.0.0.1", link)[0]


def test_registering() -> None:
    after, changes = register(state(), agent(gpus=2), "127.0.0.1", 1)
    assert changes == (Change("agent_register", 1, KEY),)
    row = after.agents[KEY]
    assert row.agent.alive
    assert not row.agent.degraded
    assert (row.agent.gpus, row.agent.provider, row.agent.container) == (2, "vllm", "c0")
    assert row.agent.services == agent().services
    assert (row.detail.pid, row.detail.machine.cpus, row.detail.gone_since_ms) == (412, 20, None)
    assert (after.seq, after.registrations) == (1, 1)


@pytest.mark.parametrize(
    ("said", "peer", "node_ip", "node_id"),
    [
        ("", "127.0.0.1", "10.0.0.1", "n1"),
        ("", "127.0.0.7", "10.0.0.1", "n1"),
        ("", "::1", "10.0.0.1", "n1"),
        ("", "192.168.1.11", "10.0.0.1", "n1"),
        ("", "10.0.0.9", "10.0.0.9", "10.0.0.9"),
        ("192.168.1.11", "10.0.0.9", "192.168.1.11", "n1"),
        ("10.0.0.9", "127.0.0.1", "10.0.0.9", "10.0.0.9"),
    ],
)
def test_which_node_an_agent_belongs_to(said: str, peer: str, node_ip: str, node_id: str) -> None:
    after, _ = register(state(), agent(node_ip=said), peer, 1)
    row = after.agents[KEY].agent
    assert (row.node_ip, row.node_id) == (node_ip, node_id)


def test_registering_again_takes_the_place() -> None:
    lost, _ = lose(registered(1), KEY, 1, 5000)
    after, changes = register(lost, replace(agent(), container="c1"), "127.0.0.1", 2)
    assert [change.kind for change in changes] == ["agent_register"]
    assert len(after.agents) == 1
    row = after.agents[KEY]
    assert (row.link, row.agent.container, row.agent.alive, row.detail.gone_since_ms) == (2, "c1", True, None)
    assert after.registrations == 2


def test_one_name_in_two_groups_is_two_agents() -> None:
    after, _ = register(registered(), agent(group="other"), "127.0.0.1", 2)
    assert set(after.agents) == {KEY, AgentKey("other", "glm@c0@")}


def test_too_many_agents() -> None:
    row = registered().agents[KEY]
    full = replace(state(), agents={AgentKey("glm", str(n)): row for n in range(MAX_AGENTS)})
    assert register(full, agent("new"), "127.0.0.1", 2) == (full, ())
    assert register(full, agent("0"), "127.0.0.1", 2)[1] != ()


def test_losing() -> None:
    after, changes = lose(registered(), KEY, 1, 5000)
    assert changes == (Change("agent_lost", 2, KEY, "link closed"),)
    row = after.agents[KEY]
    assert (row.agent.alive, row.detail.gone_since_ms) == (False, 5000)
    assert row.agent.services == agent().services


def test_an_older_link_has_no_say() -> None:
    before = registered(2)
    assert lose(before, KEY, 1, 5000) == (before, ())
    assert note(before, KEY, 1, "openai", "x") == (before, ())


def test_an_unknown_agent_changes_nothing() -> None:
    before = state()
    assert lose(before, KEY, 1, 5000) == (before, ())
    assert note(before, KEY, 1, "openai", "x") == (before, ())


def test_notes() -> None:
    noted, changes = note(registered(), KEY, 1, "openai", "bound to 10.0.0.1 only")
    assert changes == (Change("service_note", 2, KEY, "bound to 10.0.0.1 only"),)
    assert noted.agents[KEY].agent.notes == {"openai": "bound to 10.0.0.1 only"}
    assert note(noted, KEY, 1, "openai", "bound to 10.0.0.1 only") == (noted, ())
    cleared, changes = note(noted, KEY, 1, "openai", "")
    assert changes == (Change("service_note", 3, KEY),)
    assert cleared.agents[KEY].agent.notes == {}
    assert note(cleared, KEY, 1, "openai", "") == (cleared, ())


def test_a_note_on_what_is_not_announced_is_dropped() -> None:
    before = registered()
    assert note(before, KEY, 1, "metrics", "x") == (before, ())


@pytest.mark.parametrize(("before_ms", "left"), [(5000, 2), (5001, 1)])
def test_sweeping(before_ms: int, left: int) -> None:
    both, _ = register(registered(), agent("glm@c1@"), "127.0.0.1", 2)
    lost, _ = lose(both, KEY, 1, 5000)
    after, changes = sweep(lost, before_ms)
    assert len(after.agents) == left
    assert [(c.kind, c.key, c.seq) for c in changes] == [("agent_swept", KEY, 4)] * (2 - left)
    assert after.seq == lost.seq + len(changes)


def aged(state: State, now_ms: int) -> tuple[State, list[str]]:
    after, changes = age(state, now_ms, degraded_ms=30_000, dead_ms=60_000)
    assert after.seq == state.seq + len(changes)
    assert all(change.key == KEY and change.why for change in changes)
    return after, [change.kind for change in changes]


def test_a_lost_agent_is_degraded_and_then_dead_and_each_is_said_once() -> None:
    lost, _ = lose(registered(), KEY, 1, 5000)
    assert aged(lost, 34_999) == (lost, [])
    degraded, said = aged(lost, 35_000)
    assert said == ["agent_degraded"]
    assert degraded.agents[KEY].agent.degraded
    assert aged(degraded, 64_999) == (degraded, [])
    dead, said = aged(degraded, 65_000)
    assert said == ["agent_dead"]
    assert aged(dead, 1 << 60) == (dead, [])
    back, _ = register(dead, agent(), "127.0.0.1", 2)
    assert back.agents[KEY].agent.alive
    assert not back.agents[KEY].agent.degraded
    assert not back.agents[KEY].given_up


def test_a_pause_over_both_times_says_both() -> None:
    lost, _ = lose(registered(), KEY, 1, 5000)
    assert aged(lost, 1 << 60)[1] == ["agent_degraded", "agent_dead"]


def test_a_living_agent_does_not_age() -> None:
    before = registered()
    assert aged(before, 1 << 60) == (before, [])


def test_a_living_agent_is_never_swept() -> None:
    before = registered()
    assert sweep(before, 1 << 60) == (before, ())


def test_moving() -> None:
    before = state()
    assert move(before, [FABRIC, LAN]) == (before, ())
    after, changes = move(before, [LAN])
    assert (after.addrs, after.ifaces) == (("192.168.1.11",), {"192.168.1.11": "eth1"})
    assert changes == (Change("addrs_changed", 1, why="192.168.1.11"),)


def test_the_order_of_addresses_is_a_change() -> None:
    assert move(state(), [LAN, FABRIC])[0].addrs[0] == "192.168.1.11"


def test_a_tag_is_a_change() -> None:
    after, changes = move(state(), [replace(FABRIC, tags=("rdma",)), LAN])
    assert after.tags == {"10.0.0.1": ("rdma",)}
    assert [change.kind for change in changes] == ["addrs_changed"]


def test_an_address_that_the_operator_named_has_no_interface() -> None:
    assert move(state(), [Address("10.0.0.9")])[0].ifaces == {}


def test_a_node_without_addresses_answers_on_its_own() -> None:
    assert move(State(NODE), [])[0].addrs == ("10.0.0.1",)
