"""Reading a daemon's snapshot: both generations, and whatever else may come."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.strategies import json_values, views

from mentatd.errors import WireError
from mentatd.wire.service import PortService, UrlService
from mentatd.wire.snapshot import Actor, Agent, GroupView, Peer, Reading, View, read_snapshot
from mentatd.wire.snapshot_writer import write_snapshot

A: dict[str, Any] = {
    "node_id": "n1", "node_ip": "10.0.0.1", "hostname": "h1", "gcs_address": "10.0.0.1:6379",
    "head_node_id": "n1", "head_generation": 3,
    "addrs": ["10.0.0.1", "192.168.1.11"], "addr_tags": {"10.0.0.1": ["connectx", "rdma"]},
    "islands": [{"nodes": ["n1"], "addrs": {"n1": "10.0.0.1"}}],
    "peers": {"n2": {
        "node_ip": "10.0.0.2", "link_ip": "192.168.1.12", "addrs": ["10.0.0.2"], "addr_tags": {},
        "control_addr": "10.0.0.2:6379", "http_port": 6380, "alive": True, "stale": False, "last_seen_ms": 0,
        "probes": {"a": {"b": {"ok": True}}}, "groups": {"glm": {"gpus_total": 2, "gpus_used": 1}}}},
    "groups": {"glm": {
        "agents": [{
            "id": "glm@c0@10.0.0.1", "node_ip": "10.0.0.1", "node_id": "n1", "container": "c0",
            "alive": True, "degraded": False, "gpus": 1, "gpus_free": 0, "gpu_vendor": "nvidia", "cpus": 20,
            "pid": 412, "services": {"openai": "http://10.0.0.1:8000/v1"},
            "services_ports": {"openai": {"port": 8000, "path": "/v1"}, "mcp": {"port": 9000, "path": "/mcp"}},
            "service_notes": {"openai": "bound to 10.0.0.1 only"}, "provider": "vllm"}],
        "actors": [
            {"id": "a1", "name": "w0", "node_id": "n1", "gpu_ids": [0], "state": "running", "pid": 9312},
            {"id": "a2", "name": "w1", "node_id": "n1", "state": "dead (signal 9)"}],
        "placement_groups": [{"id": "p", "bundles": 2}],
        "gpus_total": 2, "gpus_used": 1}},
    "counters": {"actors_spawned": 0},
}  # fmt: skip
B: dict[str, Any] = {
    "proto": "0.99", "node_id": "n1", "node_ip": "10.0.0.1", "hostname": "h1", "control_addr": "10.0.0.1:6379",
    "seq": 41, "boot_id": "6d64", "addrs": ["10.0.0.1", "192.168.1.11"], "addr_ifaces": {"10.0.0.1": "eth0"},
    "peers": {"n2": {
        "node_ip": "10.0.0.2", "link_ip": "192.168.1.12", "addrs": ["10.0.0.2"], "control_port": 6379,
        "http_port": 6380, "alive": True, "stale": False, "dead_since_ms": None}},
    "clients": {"c": {"group": "glm"}},
    "groups": {"glm": {
        "claims": {},
        "agents": {"glm@c0@10.0.0.1": {
            "node_ip": "10.0.0.1", "node_id": "n1", "container": "c0", "pid": 412,
            "alive": True, "degraded": False, "gone_since_ms": None,
            "machine": {"memory": 1, "cpus": 20, "gpus": [{"index": 0, "vendor": "nvidia"}]}, "gpus_free": [0],
            "services": {
                "openai": {"host": "10.0.0.1", "port": 8000, "path": "/v1", "provider": "vLLM ",
                           "note": "bound to 10.0.0.1 only"},
                "mcp": {"host": "", "port": 9000, "path": "/mcp", "provider": "", "note": ""}}}},
        "actors": {
            "a1": {"name": "w0", "node_id": "n1", "gpu_ids": [0], "state": "running", "reason": "", "pid": 9312},
            "a2": {"name": "w1", "node_id": "n1", "state": "dead", "reason": "signal 9"}},
        "placement_groups": {}, "gpus_total": 2, "gpus_used": 1}},
}  # fmt: skip

AGENT = Agent(
    id="glm@c0@10.0.0.1",
    node_ip="10.0.0.1",
    node_id="n1",
    container="c0",
    alive=True,
    degraded=False,
    gpus=1,
    provider="vllm",
    services={"openai": UrlService("http://10.0.0.1:8000/v1"), "mcp": PortService(9000, "/mcp")},
    notes={"openai": "bound to 10.0.0.1 only"},
)
ACTORS = (Actor("a1", "w0", "n1", "running", ""), Actor("a2", "w1", "n1", "dead", "signal 9"))
PEER = Peer("n2", "10.0.0.2", "192.168.1.12", ("10.0.0.2",), 6380, True, False, "10.0.0.2:6379")


def read(document: object) -> View:
    """The view of a document that has no problem."""
    reading = read_snapshot(json.dumps(document).encode())
    assert reading.problems == ()
    return reading.view


def group(**tables: Any) -> GroupView:
    return read({"groups": {"g": tables}}).groups["g"]


@pytest.mark.parametrize(("document", "generation"), [(A, "A"), (B, "B")])
def test_both_generations_give_one_view(document: dict[str, Any], generation: str) -> None:
    view = read(document)
    assert view == View(
        generation="A" if generation == "A" else "B",
        node_id="n1",
        node_ip="10.0.0.1",
        hostname="h1",
        addrs=("10.0.0.1", "192.168.1.11"),
        peers=(PEER,),
        groups={"glm": GroupView((AGENT,), ACTORS, gpus_used=1)},
    )


def test_absent_and_null_fields_read_as_empty() -> None:
    empty = View("A", "", "", "", (), (), {})
    assert read({}) == empty
    assert read(dict.fromkeys((*A, "proto"))) == empty
    assert group(agents=[{"id": "a"}]).agents == (Agent("a", "", "", "", True, False, 0, "", {}, {}),)
    assert group(actors={"a": {}}).actors == (Actor("a", "", "", "other", ""),)
    assert read({"peers": {"n": {}}}).peers == (Peer("n", "", "", (), 0, True, False),)


def test_tables_may_have_either_shape() -> None:
    row = {"state": "running"}
    assert group(actors=[{"id": "a", **row}]) == group(actors={"a": row})
    assert read({"peers": [{"node_id": "n"}]}) == read({"peers": {"n": {}}})
    assert read({"groups": [{"name": "g"}]}) == read({"groups": {"g": {}}})


def test_no_more_addresses_of_a_node_are_read_than_can_be_probed() -> None:
    many = [f"10.0.{i}.1" for i in range(200)]
    document = {"addrs": many, "peers": {"n2": {"addrs": many}}}
    view = read_snapshot(json.dumps(document).encode()).view
    assert list(view.addrs) == list(view.peers[0].addrs) == many[:64]


def test_rows_are_ordered_by_id_and_the_last_of_two_wins() -> None:
    found = group(actors=[{"id": "b"}, {"id": "a", "name": "old"}, {"id": "a", "name": "new"}])
    assert [(actor.id, actor.name) for actor in found.actors] == [("a", "new"), ("b", "")]


@pytest.mark.parametrize(
    ("row", "state", "reason"),
    [
        ({"state": "spawning"}, "spawning", ""),
        ({"state": "running", "reason": "x"}, "running", ""),
        ({"state": "dead"}, "dead", ""),
        ({"state": "dead", "reason": "r"}, "dead", "r"),
        ({"state": "dead (exit (1))"}, "dead", "exit (1)"),
        ({"state": "dead (r)", "reason": "better"}, "dead", "better"),
        ({"state": "dead ("}, "other", "dead ("),
        ({"state": "dead x)"}, "other", "dead x)"),
        ({"state": "draining"}, "other", "draining"),
    ],
)
def test_the_state_of_an_actor(row: dict[str, Any], state: str, reason: str) -> None:
    actor = group(actors={"a": row}).actors[0]
    assert (actor.state, actor.reason) == (state, reason)


@pytest.mark.parametrize(
    ("row", "gpus"),
    [
        ({"gpus": 2}, 2),
        ({"gpus": [0, 1]}, 2),
        ({"machine": {"gpus": [{}, {}]}, "gpus": 9}, 2),
        ({"machine": {}}, 0),
    ],
)
def test_the_number_of_gpus(row: dict[str, Any], gpus: int) -> None:
    assert group(agents={"a": row}).agents[0].gpus == gpus


BAD: dict[str, Any] = {
    "node_id": 5,
    "addrs": ["10.0.0.1", 7],
    "peers": {"n1": "x", "n2": {"http_port": 70000, "alive": "yes"}},
    "groups": {
        "bad": [],
        "glm 4.5": {
            "agents": [
                {"id": "a", "services_ports": {"openai": {"port": 99999}, "mcp": {"port": 9000}}},
                "x",
                {"no": "id"},
                {"id": "b", "alive": 1, "gpus": -1},
            ],
            "actors": 17,
        },
    },
}


def test_what_is_wrong_is_reported_by_its_path_and_the_rest_is_read() -> None:
    reading = read_snapshot(json.dumps(BAD).encode())
    assert [problem.path for problem in reading.problems] == [
        "peers.n1",
        "groups.bad",
        "node_id",
        "addrs[1]",
        "peers.n2.http_port",
        "peers.n2.alive",
        'groups["glm 4.5"].agents[1]',
        'groups["glm 4.5"].agents[2].id',
        'groups["glm 4.5"].actors',
        'groups["glm 4.5"].agents[0].services_ports.openai.port',
        'groups["glm 4.5"].agents[3].alive',
        'groups["glm 4.5"].agents[3].gpus',
    ]
    view = reading.view
    assert view.addrs == ("10.0.0.1",)
    assert view.peers == (Peer("n2", "", "", (), 0, True, False),)
    assert list(view.groups) == ["glm 4.5"]
    assert [agent.id for agent in view.groups["glm 4.5"].agents] == ["a", "b"]
    assert view.groups["glm 4.5"].agents[0].services == {"mcp": PortService(9000, "")}


@pytest.mark.parametrize("proto", ["2.0", "", "x", 1, 0.99, True, [], {}, "9" * 10_000])
def test_another_major_is_refused_by_name(proto: object) -> None:
    with pytest.raises(WireError, match=r"proto is .*; majors 0 and 1 are understood"):
        read_snapshot(json.dumps({"proto": proto}).encode())


@pytest.mark.parametrize(
    "raw", [b"", b"nope", b"[]", b"null", b"\xff\xfe", b'{"a":' * 100_000, b"{" + b" " * 100]
)
def test_what_is_no_object_is_a_wire_error(raw: bytes) -> None:
    with pytest.raises(WireError):
        read_snapshot(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b'\xef\xbb\xbf{"groups":{"g":{}}}',
        b'{"groups":{"g":{"agents":{"a":{"cpus":NaN}}}}}',
        b'{"groups":{"g":{"agents":{"a":{"gpu_vendor":"\\ud800"}}}}}',
    ],
)
def test_what_lenient_writers_make_is_read(raw: bytes) -> None:
    assert list(read_snapshot(raw).view.groups) == ["g"]


@given(views())
def test_what_is_written_reads_the_same(view: View) -> None:
    reading = read_snapshot(write_snapshot(view))
    assert reading.view == view
    assert reading.problems == ()


@st.composite
def mangled(draw: st.DrawFn) -> Any:
    """A good document with any JSON put in one of its places, or a part of it gone."""
    document = json.loads(json.dumps(draw(st.sampled_from((A, B)))))
    node = document
    while True:
        key = draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
        inner = node[key]
        if not isinstance(inner, dict | list) or not inner or draw(st.booleans()):
            node[key] = draw(json_values)
            return document
        node = inner


@given(mangled())
def test_a_mangled_document_is_read_or_refused_and_what_is_read_can_be_written(document: Any) -> None:
    try:
        view = read_snapshot(json.dumps(document).encode()).view
    except WireError:
        return
    assert set(read_snapshot(write_snapshot(view)).view.groups) == set(view.groups)


def again(document: object, before: Reading) -> Reading:
    return read_snapshot(json.dumps(document).encode(), before)


@pytest.mark.parametrize("document", [A, B])
def test_of_what_a_daemon_says_again_the_view_is_the_same_object(document: dict[str, Any]) -> None:
    first = read_snapshot(json.dumps(document).encode())
    assert again(document | {"seq": 42, "counters": {"calls_total": 9}}, first).view is first.view
    # spelled otherwise, and with fields that nobody reads
    groups = {name: group | {"gpus_total": 8} for name, group in document["groups"].items()}
    assert again(document | {"groups": groups}, first).view is first.view


def test_a_group_that_changed_leaves_the_others_and_the_peers_the_same_objects() -> None:
    groups = {name: {"actors": {"a": {"state": "running"}}} for name in ("a", "b")}
    first = read_snapshot(json.dumps(B | {"groups": groups}).encode())
    second = again(B | {"groups": groups | {"b": {"actors": {}}, "c": {}}}, first)
    assert list(second.view.groups) == ["a", "b", "c"]
    assert second.view.groups["a"] is first.view.groups["a"]
    assert second.view.groups["b"].actors == ()
    assert second.view.peers is first.view.peers
    third = again(B | {"groups": {"b": {"actors": {}}}}, second)
    assert dict(third.view.groups) == {"b": second.view.groups["b"]}


def test_what_is_wrong_is_reported_each_time() -> None:
    groups = {"bad": {"actors": 17}, "good": {}}
    first = read_snapshot(json.dumps({"groups": groups}).encode())
    second = again({"groups": groups}, first)
    assert second == first
    assert [problem.path for problem in second.problems] == ["groups.bad.actors"]


def test_a_group_that_the_caller_left_out_is_read_again() -> None:
    first = read_snapshot(json.dumps(B).encode())
    assert again(B, replace(first, view=replace(first.view, groups={}))).view == first.view


_rows = st.sampled_from(
    (
        {},
        {"actors": 17},
        {"gpus_used": 3},
        A["groups"]["glm"],
        B["groups"]["glm"],
        [],
        {"gpus_used": float("nan")},
    )
)
said = mangled() | st.dictionaries(st.sampled_from("abc"), _rows).map(lambda rows: B | {"groups": rows})
"""What one daemon may say at one time or another."""


@given(said, said)
def test_what_a_daemon_said_before_changes_neither_the_view_nor_the_problems(was: Any, now: Any) -> None:
    try:
        before, plain = (read_snapshot(json.dumps(document).encode()) for document in (was, now))
    except WireError:
        return
    assert again(now, before) == again(now, plain) == plain


@given(st.binary(max_size=64), st.integers(0, 2000), st.sampled_from((A, B)))
def test_cut_and_foreign_bytes_give_a_reading_or_a_wire_error(noise: bytes, at: int, document: Any) -> None:
    raw = json.dumps(document).encode()
    for damaged in (raw[:at], raw[:at] + noise + raw[at:], raw[:at] + noise + raw[at + len(noise) :]):
        try:
            read_snapshot(damaged)
        except WireError:
            pass
