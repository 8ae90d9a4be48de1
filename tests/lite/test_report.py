"""What a lite daemon says: readers of both generations understand it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.lite.samples import agent, state

from mentatd.lite import report
from mentatd.lite.peers import forget, join_mesh, leave, notice_silence
from mentatd.lite.state import Address, AgentKey, Change, State, Step, lose, move, note, register
from mentatd.wire.announcement import Announcement, ReplayWindow, judge, write_announcement
from mentatd.wire.mesh import MeshNode
from mentatd.wire.snapshot import read_snapshot
from mentatd.wire.version import Generation

KEY = AgentKey("glm", "glm@c0@")
PEER = MeshNode(
    node_id="n2",
    node_ip="10.0.0.2",
    control_addr="10.0.0.2:6379",
    http_port=6380,
    addrs=("10.0.0.2", "192.168.1.12"),
    addr_tags={"10.0.0.2": ("rdma",)},
    addr_ifaces={"10.0.0.2": "eth0"},
)
BOTH: list[Generation] = ["A", "B"]


def cluster(generation: Generation) -> State:
    """Two groups, three agents, one of them lost; two peers, one of them lost."""
    now = state(generation)
    for link, (id_, group, gpus) in enumerate((("b", "glm", 1), ("glm@c0@", "glm", 2), ("q", "qwen", 0)), 1):
        now, _ = register(now, agent(id_, group, gpus=gpus), "127.0.0.1", link)
    now, _ = note(now, KEY, 2, "openai", "bound to 10.0.0.1 only")
    now, _ = lose(now, AgentKey("qwen", "q"), 3, 7000)
    now, _ = join_mesh(now, PEER, link=4, link_ip="192.168.1.12", dialled=True, now_ms=6000, now_s=1.0)
    other = replace(PEER, node_id="n3")
    now, _ = join_mesh(now, other, link=5, link_ip="10.0.0.3", dialled=False, now_ms=6000, now_s=1.0)
    return leave(now, "n3", 5, "link closed", 7000)[0]


@pytest.mark.parametrize("generation", BOTH)
def test_the_snapshot_is_read_back(generation: Generation) -> None:
    now = cluster(generation)
    reading = read_snapshot(report.snapshot(now))
    assert reading.problems == ()
    assert reading.view == report.view(now)
    assert reading.view.generation == generation
    assert (reading.view.node_id, reading.view.addrs) == ("n1", ("10.0.0.1", "192.168.1.11"))
    assert [a.id for a in reading.view.groups["glm"].agents] == ["b", "glm@c0@"]
    assert not reading.view.groups["qwen"].agents[0].alive


def test_one_group_only() -> None:
    now = cluster("A")
    assert set(read_snapshot(report.snapshot(now, "glm")).view.groups) == {"glm"}
    assert read_snapshot(report.snapshot(now, "none")).view.groups == {}


def test_what_only_a_daemon_says_of_itself() -> None:
    older = json.loads(report.snapshot(cluster("A")))
    assert (older["gcs_address"], older["counters"]["agents_registered"]) == ("10.0.0.1:6379", 3)
    newer = json.loads(report.snapshot(cluster("B")))
    assert (newer["proto"], newer["boot_id"], newer["seq"]) == ("0.99", "b1", 8)
    assert newer["addr_ifaces"] == {"10.0.0.1": "eth0", "192.168.1.11": "eth1"}
    assert newer["groups"]["qwen"]["agents"]["q"]["gone_since_ms"] == 7000


@pytest.mark.parametrize("generation", BOTH)
def test_the_first_frame(generation: Generation) -> None:
    now = cluster(generation)
    frame = json.loads(report.first_frame(now))
    assert (frame["type"], frame["seq"]) == ("snapshot", 8)
    assert frame["data"] == json.loads(report.snapshot(now))


def test_an_event_of_the_older_protocol() -> None:
    frame = report.event_frame(cluster("A"), Change("agent_lost", 5, KEY, "link closed"), 99)
    assert json.loads(frame) == {
        "type": "agent_lost",
        "seq": 5,
        "ts_ms": 99,
        "node": "n1",
        "why": "link closed",
        "group": "glm",
        "agent_id": "glm@c0@",
    }


def apply(document: dict[str, Any], patch: list[dict[str, Any]]) -> dict[str, Any]:
    """A reader that follows the patches of the newer protocol."""
    for step in patch:
        *path, last = step["at"]
        place = document
        for key in path:
            place = place.setdefault(key, {})
        if "value" in step:
            place[last] = step["value"]
        else:
            del place[last]
    return document


def test_the_patches_of_the_newer_protocol_lead_to_the_next_snapshot() -> None:
    before = cluster("B")
    steps: list[Callable[[State], Step]] = [
        lambda s: note(s, KEY, 2, "openai", ""),
        lambda s: lose(s, KEY, 2, 8000),
        lambda s: register(s, agent("c", gpus=1), "10.0.0.9", 9),
        lambda s: move(s, [Address("10.0.0.1", "eth0", ("rdma",))]),
        lambda s: notice_silence(s, 2.0),
        lambda s: leave(s, "n2", 4, "link closed", 8000),
        lambda s: forget(s, 7500),
    ]
    for step in steps:
        after, (change,) = step(before)
        event = json.loads(report.event_frame(after, change, 99))
        reached = apply(json.loads(report.snapshot(before)), event["patch"])
        expected = json.loads(report.snapshot(after))
        for document in (reached, expected):
            del document["counters"], document["seq"]
        assert reached == expected
        before = after


def test_the_peers_of_a_snapshot() -> None:
    peers = json.loads(report.snapshot(cluster("A")))["peers"]
    assert {name: (row["alive"], row["link_ip"], row["dead_since_ms"]) for name, row in peers.items()} == {
        "n2": (True, "192.168.1.12", 0),
        "n3": (False, "10.0.0.3", 7000),
    }
    assert peers["n2"]["addr_tags"] == {"10.0.0.2": ["rdma"]}
    assert peers["n2"]["last_seen_ms"] == 6000


@pytest.mark.parametrize("generation", BOTH)
def test_what_a_peer_is_told_is_written_as_it_speaks(generation: Generation) -> None:
    now = cluster("A")
    assert read_snapshot(report.snapshot(now, generation=generation)).view == replace(
        report.view(now), generation=generation
    )


def test_how_a_mesh_link_opens() -> None:
    now = replace(state(), tags={"10.0.0.1": ("rdma",)})
    assert report.mesh_node(now) == MeshNode(
        "n1",
        "10.0.0.1",
        "10.0.0.1:6379",
        6380,
        ("10.0.0.1", "192.168.1.11"),
        {"10.0.0.1": ("rdma",)},
        {"10.0.0.1": "eth0", "192.168.1.11": "eth1"},
        probes=True,
    )


def test_an_event_of_a_peer_in_the_older_protocol() -> None:
    frame = report.event_frame(cluster("A"), Change("node_leave", 8, why="link closed", peer="n3"), 99)
    assert json.loads(frame) == {
        "type": "node_leave",
        "seq": 8,
        "ts_ms": 99,
        "node": "n1",
        "reason": "link closed",
        "peer": "n3",
    }


def test_a_peers_event_is_passed_on_without_its_patch() -> None:
    said = {"type": "agent_lost", "node": "n2", "seq": 7, "patch": [{"at": ["groups"]}]}
    assert json.loads(report.relayed(json.dumps(said).encode())) == {
        "type": "agent_lost",
        "node": "n2",
        "seq": 7,
    }


def test_a_group_that_is_gone_is_taken_out() -> None:
    frame = report.event_frame(state("B"), Change("agent_swept", 6, KEY), 99)
    assert json.loads(frame)["patch"] == [{"at": ["groups", "glm"]}]


@pytest.mark.parametrize(("generation", "key"), [("A", None), ("A", b"k"), ("B", b"k")])
def test_the_announcement_is_taken_by_a_router(generation: Generation, key: bytes | None) -> None:
    tagged = replace(state(generation), tags={"10.0.0.1": ("rdma",)})
    said = report.announcement(tagged, universe="lab", seq=4, now_s=1000)
    heard = judge(
        write_announcement(said, key), key=key, universe="lab", now_unix=1001.0, replay=ReplayWindow()
    )
    assert isinstance(heard, Announcement)
    assert (heard.node_id, heard.http_port, heard.control) == ("n1", 6380, "10.0.0.1:6379")
    assert heard.addrs == ("10.0.0.1", "192.168.1.11")
    assert heard.addr_tags == {"10.0.0.1": ("rdma",)}
    assert (heard.generation, heard.signed) == (generation, key is not None)
