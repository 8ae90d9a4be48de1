"""The messages of a mesh link, both generations."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.strategies import generations, json_values, texts

from mentatd.wire.mesh import MeshNode, PeerEvent, PeerHello, PeerHelloOk, PeerStatus
from mentatd.wire.messages import Message, Unreadable, read_message, write_message

NODE = MeshNode(
    node_id="n1",
    node_ip="10.0.0.1",
    control_addr="10.0.0.1:6379",
    http_port=6380,
    addrs=("10.0.0.1", "192.168.1.11"),
    addr_tags={"10.0.0.1": ("connectx", "rdma")},
    addr_ifaces={"10.0.0.1": "eth0"},
    probes=True,
)
SAID: dict[str, Any] = {
    "req": 1, "node_id": "n1", "node_ip": "10.0.0.1", "http_port": 6380,
    "addrs": ["10.0.0.1", "192.168.1.11"], "addr_tags": {"10.0.0.1": ["connectx", "rdma"]},
    "addr_ifaces": {"10.0.0.1": "eth0"}, "probes": True,
}  # fmt: skip
CONTROL_A, CONTROL_B = {"control_addr": "10.0.0.1:6379"}, {"control_port": 6379, "proto": "0.99"}
CASES: list[tuple[Message, dict[str, Any]]] = [
    (PeerHello("A", 1, NODE), {"t": "peer_hello"} | SAID | CONTROL_A),
    (PeerHello("B", 1, NODE), {"t": "peer_hello"} | SAID | CONTROL_B),
    (PeerHelloOk("A", 1, NODE), {"t": "peer_hello_ok"} | SAID | CONTROL_A),
    (PeerHelloOk("B", 1, NODE), {"t": "peer_hello_ok"} | SAID | CONTROL_B),
    (PeerStatus("A", b'{"node_id": "n1"}'), {"t": "peer_status", "req": 0, "data": {"node_id": "n1"}}),
    (PeerStatus("B", b'{"proto": "0.99"}'), {"t": "peer_status", "req": 0, "snapshot": {"proto": "0.99"}}),
    (
        PeerEvent("A", "n1", b'{"type": "x"}'),
        {"t": "peer_event", "req": 0, "origin": "n1", "line": '{"type": "x"}'},
    ),
    (
        PeerEvent("B", "n1", b'{"type": "x"}'),
        {"t": "peer_event", "req": 0, "origin": "n1", "event": {"type": "x"}},
    ),
]


@pytest.mark.parametrize(("message", "header"), CASES, ids=lambda case: type(case).__name__)
def test_each_message_both_ways(message: Message, header: dict[str, Any]) -> None:
    assert json.loads(msgspec.json.encode(write_message(message))) == header
    assert read_message({**header, "from_the_future": [1]}) == message


def test_what_an_older_daemon_does_not_say_reads_as_empty() -> None:
    assert read_message({"t": "peer_hello", "node_id": "n1"}) == PeerHello("A", 0, MeshNode("n1"))


def test_only_what_is_said_of_its_own_addresses_counts() -> None:
    elsewhere = SAID | {"addr_tags": {"9.9.9.9": ["x"]}, "addr_ifaces": {"9.9.9.9": "x"}}
    hello = read_message({"t": "peer_hello"} | elsewhere)
    assert isinstance(hello, PeerHello)
    assert (hello.node.addr_tags, hello.node.addr_ifaces) == ({}, {})


@pytest.mark.parametrize(
    ("header", "error"),
    [
        ({"t": "peer_hello"}, "peer_hello: node_id: expected text, found nothing"),
        ({"t": "peer_hello_ok", "node_id": "n1", "probes": {}}, "peer_hello_ok: probes: expected true"),
        ({"t": "peer_hello", "proto": "2.0"}, "proto '2.0' is not spoken here"),
        ({"t": "peer_status", "data": []}, "peer_status: data: expected an object"),
        ({"t": "peer_event", "line": "{}"}, "peer_event: origin: expected text, found nothing"),
        ({"t": "peer_event", "origin": "n1"}, "peer_event: line: expected a JSON object as text"),
        (
            {"t": "peer_event", "origin": "n1", "line": "[]"},
            "peer_event: line: expected a JSON object as text",
        ),
        ({"t": "peer_event", "origin": "n1", "event": "{}"}, "peer_event: event: expected an object"),
    ],
)
def test_what_is_wrong_is_said(header: dict[str, Any], error: str) -> None:
    message = read_message(header)
    assert isinstance(message, Unreadable)
    assert message.error.startswith(error)


@given(st.sampled_from([header for _, header in CASES]), st.data())
def test_any_value_in_any_place_is_read_or_named(header: dict[str, Any], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(header)))
    message = read_message({**header, key: data.draw(json_values)})
    if isinstance(message, PeerHello | PeerHelloOk | PeerStatus | PeerEvent):
        msgspec.json.encode(write_message(message))


@given(generations, texts, st.dictionaries(texts, texts, max_size=3))
def test_any_event_comes_back(generation: str, origin: str, event: dict[str, str]) -> None:
    text = json.dumps(event).encode()
    message = PeerEvent("A" if generation == "A" else "B", origin or "n", text)
    header = json.loads(msgspec.json.encode(write_message(message)))
    assert read_message(header) == message
