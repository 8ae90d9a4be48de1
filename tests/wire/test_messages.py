"""The messages of the control port, both generations."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.strategies import announced, generations, json_values, machines, names, numbers, texts

from mentatd.wire.machine import Gpu, Machine
from mentatd.wire.mesh import MeshNode, PeerHello
from mentatd.wire.messages import (
    AgentRegister,
    AgentRegisterOk,
    Err,
    Hello,
    HelloOk,
    Message,
    Ping,
    Pong,
    Probe,
    ProbeOk,
    ServiceNote,
    Status,
    StatusOk,
    Unknown,
    Unreadable,
    read_message,
    write_message,
)
from mentatd.wire.service import PortService, UrlService
from mentatd.wire.version import Generation

REGISTER_A: dict[str, Any] = {
    "t": "agent_register", "req": 1, "agent_id": "glm@c0@10.0.0.1", "group": "glm", "node_ip": "10.0.0.1",
    "gpus": [0], "gpu_vendor": "nvidia", "cpus": 20, "container": "c0", "pid": 412,
    "services": {"openai": "https://x/v1"}, "services_ports": {"mcp": {"port": 9000, "path": "/mcp"}},
    "provider": "vllm", "service_notes": {"mcp": "bound"}, "resume": [], "unacked_refs": [],
}  # fmt: skip
REGISTER_B: dict[str, Any] = {
    "t": "agent_register", "req": 1, "proto": "0.99", "agent_id": "glm@c0@10.0.0.1", "group": "glm",
    "node_ip": "10.0.0.1", "container": "c0", "pid": 412,
    "machine": {"memory": 9, "cpus": 20,
                "gpus": [{"index": 0, "vendor": "nvidia", "name": "RTX", "memory": 5, "uma": True}]},
    "services": {"openai": {"host": "", "port": 8000, "path": "/v1", "provider": "vllm", "note": "bound"}},
    "resume": [], "unacked_refs": [],
}  # fmt: skip

CASES: list[tuple[Message, dict[str, Any]]] = [
    (
        AgentRegister(
            "A", 1, "glm@c0@10.0.0.1", "glm", "10.0.0.1", "c0", 412, Machine(20, 0, (Gpu(0, "nvidia"),)),
            {"openai": UrlService("https://x/v1"), "mcp": PortService(9000, "/mcp")}, {"mcp": "bound"}, "vllm",
        ),
        REGISTER_A,
    ),
    (
        AgentRegister(
            "B", 1, "glm@c0@10.0.0.1", "glm", "10.0.0.1", "c0", 412,
            Machine(20, 9, (Gpu(0, "nvidia", "RTX", 5, True),)),
            {"openai": PortService(8000, "/v1")}, {"openai": "bound"}, "vllm",
        ),
        REGISTER_B,
    ),
    (AgentRegisterOk("A", 1, "n1"), {"t": "agent_register_ok", "req": 1, "node_id": "n1"}),
    (AgentRegisterOk("B", 1, "n1"), {"t": "agent_register_ok", "req": 1, "node_id": "n1", "proto": "0.99"}),
    (ServiceNote("openai", ""), {"t": "service_note", "service": "openai", "note": ""}),
    (Ping(0), {"t": "ping", "req": 0}),
    (Pong(7), {"t": "pong", "req": 7}),
    (
        Hello("A", 1, "c1", "glm", False, "cli"),
        {"t": "hello", "req": 1, "client_id": "c1", "group": "glm", "session": False, "kind": "cli"},
    ),
    (
        Hello("B", 1, "c1", "glm", True, "driver"),
        {"t": "hello", "req": 1, "client_id": "c1", "group": "glm", "session": True, "kind": "driver",
         "proto": "0.99"},
    ),
    (
        HelloOk("A", 1, "n1", "10.0.0.1", "10.0.0.1:6379", "n1"),
        {"t": "hello_ok", "req": 1, "node_id": "n1", "node_ip": "10.0.0.1", "gcs_address": "10.0.0.1:6379",
         "head_node_id": "n1"},
    ),
    (
        HelloOk("B", 1, "n1", "10.0.0.1", "10.0.0.1:6379", "n1"),
        {"t": "hello_ok", "req": 1, "node_id": "n1", "node_ip": "10.0.0.1", "control_addr": "10.0.0.1:6379",
         "head_node_id": "n1", "proto": "0.99"},
    ),
    (Status(2), {"t": "status", "req": 2, "group": None}),
    (Status(2, "glm"), {"t": "status", "req": 2, "group": "glm"}),
    (StatusOk("A", 2, b'{"node_id": "n1"}'), {"t": "status_ok", "req": 2, "data": {"node_id": "n1"}}),
    (StatusOk("B", 2, b'{"proto": "0.99"}'), {"t": "status_ok", "req": 2, "snapshot": {"proto": "0.99"}}),
    (Probe("A", 3, "n1"), {"t": "probe", "req": 3, "node_id": "n1"}),
    (Probe("B", 3, "n1"), {"t": "probe", "req": 3, "node_id": "n1", "proto": "0.99"}),
    (ProbeOk("A", 3, "n1"), {"t": "probe_ok", "req": 3, "node_id": "n1"}),
    (ProbeOk("B", 3, "n1"), {"t": "probe_ok", "req": 3, "node_id": "n1", "proto": "0.99"}),
    (
        PeerHello("A", 5, MeshNode("n1", "10.0.0.1")),
        {"t": "peer_hello", "req": 5, "node_id": "n1", "node_ip": "10.0.0.1", "control_addr": "", "http_port": 0,
         "addrs": [], "addr_tags": {}, "addr_ifaces": {}, "probes": False},
    ),
    (Err(4, "no"), {"t": "err", "req": 4, "error": "no"}),
    (Err(4, "no", "no_head"), {"t": "err", "req": 4, "error": "no", "code": "no_head"}),
    (
        Err(4, "no", "proto_mismatch"),
        {"t": "err", "req": 4, "error": "no", "code": "proto_mismatch", "proto": "0.99"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("message", "header"), CASES, ids=lambda case: type(case).__name__)
def test_each_message_both_ways(message: Message, header: dict[str, Any]) -> None:
    assert json.loads(msgspec.json.encode(write_message(message))) == header
    assert read_message(header) == message
    assert read_message({**header, "from_the_future": [1]}) == message


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"t": "agent_register", "agent_id": "a", "group": "g"}, AgentRegister("A", 0, "a", "g")),
        ({"t": "hello"}, Hello("A", 0, "", kind="")),
        ({"t": "hello_ok"}, HelloOk("A", 0, "")),
        ({"t": "ping"}, Ping(0)),
        ({"t": "status", "group": ""}, Status(0)),
        ({"t": "status_ok"}, StatusOk("A", 0, b"{}")),
        ({"t": "err"}, Err(0, "")),
        ({"t": "hello", "proto": "1.0"}, Hello("B", 0, "", kind="")),
        ({"t": "ping", "proto": "2.0"}, Ping(0)),
        ({"t": "actor_create", "req": 5}, Unknown("actor_create", 5)),
        ({"t": "actor_create", "req": "x"}, Unknown("actor_create", 0)),
        ({"t": 5, "req": 5}, Unknown("", 5)),
        ({}, Unknown("", 0)),
    ],
)
def test_absent_fields_read_as_empty_and_unknown_messages_as_such(
    header: dict[str, Any], message: Message | Unknown
) -> None:
    assert read_message(header) == message


@pytest.mark.parametrize(
    ("header", "error", "code"),
    [
        ({"t": "agent_register", "group": "g"}, "agent_register: agent_id: expected text", "agent_refused"),
        ({**REGISTER_A, "group": ""}, "agent_register: group: expected text, found nothing", "agent_refused"),
        ({**REGISTER_A, "services": {"openai": "x"}}, "agent_register: services.openai: ", "agent_refused"),
        ({**REGISTER_B, "machine": {"gpus": [1]}}, "agent_register: machine.gpus[0]: ", "agent_refused"),
        ({**REGISTER_B, "proto": "2.0"}, "proto '2.0' is not spoken here", "proto_mismatch"),
        ({"t": "probe_ok", "proto": 0.99}, "proto 0.99 is not spoken here", "proto_mismatch"),
        ({"t": "ping", "req": "x"}, "ping: req: expected a whole number", ""),
        ({"t": "service_note"}, "service_note: service: expected text", ""),
        ({"t": "status", "group": 5}, "status: group: expected text", ""),
        ({"t": "status_ok", "data": []}, "status_ok: data: expected an object", ""),
    ],
)
def test_what_is_wrong_is_said(header: dict[str, Any], error: str, code: str) -> None:
    message = read_message(header)
    assert isinstance(message, Unreadable)
    assert message.type == header["t"]
    assert message.error.startswith(error)
    assert message.code == code


def test_generation_b_refuses_what_it_cannot_say() -> None:
    with pytest.raises(ValueError, match=r"cannot be announced as 0\.99"):
        write_message(AgentRegister("B", 1, "a", "g", services={"openai": UrlService("https://x/v1")}))


@given(st.data(), generations)
def test_any_registration_comes_back(data: st.DataObject, generation: Generation) -> None:
    said = data.draw(announced(generation))
    message = AgentRegister(
        generation=generation,
        req=data.draw(numbers),
        agent_id=data.draw(names),
        group=data.draw(names),
        node_ip=data.draw(texts),
        container=data.draw(texts),
        pid=data.draw(numbers),
        machine=data.draw(machines(generation)),
        services=said.services,
        notes=said.notes,
        provider=said.provider,
    )
    assert read_message(write_message(message)) == message


known = st.sampled_from([header for _, header in CASES])


@given(known, st.data())
def test_any_value_in_any_place_is_read_or_named(header: dict[str, Any], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(header)))
    message = read_message({**header, key: data.draw(json_values)})
    if isinstance(message, Unreadable):
        assert message.error
    elif not isinstance(message, Unknown):
        msgspec.json.encode(write_message(message))


@given(st.dictionaries(texts, json_values, max_size=4))
def test_no_header_raises(header: dict[str, Any]) -> None:
    read_message(header)
