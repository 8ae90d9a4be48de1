"""What a lite daemon says: readers of both generations understand it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.lite.samples import agent, state

from mentatd.lite import report
from mentatd.lite.state import AgentKey, Change, State, Step, lose, move, note, register
from mentatd.wire.announcement import Announcement, ReplayWindow, judge, write_announcement
from mentatd.wire.snapshot import read_snapshot
from mentatd.wire.version import Generation

KEY = AgentKey("glm", "glm@c0@")
BOTH: list[Generation] = ["A", "B"]


def cluster(generation: Generation) -> State:
    """Two groups, three agents, one of them lost."""
    now = state(generation)
    for link, (id_, group, gpus) in enumerate((("b", "glm", 1), ("glm@c0@", "glm", 2), ("q", "qwen", 0)), 1):
        now, _ = register(now, agent(id_, group, gpus=gpus), "127.0.0.1", link)
    now, _ = note(now, KEY, 2, "openai", "bound to 10.0.0.1 only")
    return lose(now, AgentKey("qwen", "q"), 3, 7000)[0]


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
    assert (newer["proto"], newer["boot_id"], newer["seq"]) == ("0.99", "b1", 5)
    assert newer["addr_ifaces"] == {"10.0.0.1": "eth0", "192.168.1.11": "eth1"}
    assert newer["groups"]["qwen"]["agents"]["q"]["gone_since_ms"] == 7000


@pytest.mark.parametrize("generation", BOTH)
def test_the_first_frame(generation: Generation) -> None:
    now = cluster(generation)
    frame = json.loads(report.first_frame(now))
    assert (frame["type"], frame["seq"]) == ("snapshot", 5)
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
        lambda s: move(s, {"10.0.0.1": "eth0"}),
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


def test_a_group_that_is_gone_is_taken_out() -> None:
    frame = report.event_frame(state("B"), Change("agent_swept", 6, KEY), 99)
    assert json.loads(frame)["patch"] == [{"at": ["groups", "glm"]}]


@pytest.mark.parametrize(("generation", "key"), [("A", None), ("A", b"k"), ("B", b"k")])
def test_the_announcement_is_taken_by_a_router(generation: Generation, key: bytes | None) -> None:
    said = report.announcement(state(generation), universe="lab", seq=4, now_s=1000)
    heard = judge(
        write_announcement(said, key), key=key, universe="lab", now_unix=1001.0, replay=ReplayWindow()
    )
    assert isinstance(heard, Announcement)
    assert (heard.node_id, heard.http_port, heard.control) == ("n1", 6380, "10.0.0.1:6379")
    assert heard.addrs == ("10.0.0.1", "192.168.1.11")
    assert (heard.generation, heard.signed) == (generation, key is not None)


@pytest.mark.parametrize(("host", "text"), [("10.0.0.1", "10.0.0.1:1"), ("fd00::1", "[fd00::1]:1")])
def test_join(host: str, text: str) -> None:
    assert report.join(host, 1) == text
