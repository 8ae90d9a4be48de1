"""The snapshot as a daemon of either generation writes it. (That it reads back is in test_snapshot.)"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from tests.wire.strategies import views

from mentatd.wire.machine import Gpu, Machine
from mentatd.wire.service import PortService, UrlService
from mentatd.wire.snapshot import Actor, Agent, GroupView, Peer, View, read_snapshot
from mentatd.wire.snapshot_writer import (
    COUNTERS,
    AgentDetail,
    DaemonDetail,
    PeerDetail,
    agent_row,
    write_snapshot,
)
from mentatd.wire.version import Generation

AGENT = Agent(
    id="glm@c0@10.0.0.1",
    node_ip="10.0.0.1",
    node_id="n1",
    container="c0",
    alive=True,
    degraded=False,
    gpus=1,
    provider="vllm",
    services={"openai": PortService(8000, "/v1"), "mcp": UrlService("https://x/mcp")},
    notes={"openai": "bound to 10.0.0.1 only"},
)
DEAD = Agent("old", "10.0.0.1", "n1", "c1", False, False, 4, "", {}, {})
GPU = Gpu(3, "nvidia", "RTX", 5, False)
DETAIL = DaemonDetail(
    control_addr="10.0.0.1:6379",
    addr_tags={"10.0.0.1": ("rdma",)},
    addr_ifaces={"10.0.0.1": "eth0"},
    seq=41,
    boot_id="6d64",
    counters={"agents_registered": 7, "relayed": 1},
    agents={AGENT.id: AgentDetail(Machine(20, 9, (GPU,)), 412, None)},
    peers={
        "n2": PeerDetail({"10.0.0.2": ("rdma",)}, {"10.0.0.2": "eth0"}, 5000, 6000, {"qwen": (2, 1)}),
    },
)


def written(generation: Generation) -> Any:
    view = View(
        generation=generation,
        node_id="n1",
        node_ip="10.0.0.1",
        hostname="h1",
        addrs=("10.0.0.1",),
        peers=(
            Peer("n2", "10.0.0.2", "10.0.0.2", (), 6380, True, False, "10.0.0.2:6379"),
            Peer("n3", "10.0.0.3", "", (), 0, False, True),
        ),
        groups={
            "glm": GroupView(
                agents=(AGENT, DEAD),
                actors=(
                    Actor("a1", "w0", "n1", "dead", "signal 9"),
                    Actor("a2", "w1", "n1", "dead", ""),
                    Actor("a3", "w2", "n1", "other", "draining"),
                    Actor("a4", "w3", "n1", "running", ""),
                ),
                gpus_used=1,
            )
        },
    )
    return json.loads(write_snapshot(view, DETAIL))


PEERS: dict[str, dict[str, Any]] = {
    "n2": {
        "node_ip": "10.0.0.2", "link_ip": "10.0.0.2", "addrs": [], "http_port": 6380, "alive": True, "stale": False,
        "addr_tags": {"10.0.0.2": ["rdma"]}, "addr_ifaces": {"10.0.0.2": "eth0"}, "last_seen_ms": 5000,
        "dead_since_ms": 6000, "probes": {}, "groups": {"qwen": {"gpus_total": 2, "gpus_used": 1}},
    },
    "n3": {
        "node_ip": "10.0.0.3", "link_ip": "", "addrs": [], "http_port": 0, "alive": False, "stale": True,
        "addr_tags": {}, "addr_ifaces": {}, "last_seen_ms": 0, "dead_since_ms": 0, "probes": {}, "groups": {},
    },
}  # fmt: skip
TOP = {
    "node_id": "n1", "node_ip": "10.0.0.1", "hostname": "h1", "head_node_id": "", "head_generation": 0,
    "addrs": ["10.0.0.1"], "addr_tags": {"10.0.0.1": ["rdma"]}, "islands": [],
    "counters": {**dict.fromkeys(COUNTERS, 0), "agents_registered": 7, "relayed": 1},
}  # fmt: skip
ROW = {
    "node_id": "n1", "node_ip": "10.0.0.1", "container": "c0", "pid": 412, "alive": True, "degraded": False,
}  # fmt: skip
ROW_A = {
    **ROW, "id": AGENT.id, "gpus": 1, "gpus_free": 1, "gpu_vendor": "nvidia", "cpus": 20,
    "services": {"mcp": "https://x/mcp"}, "services_ports": {"openai": {"port": 8000, "path": "/v1"}},
    "service_notes": {"openai": "bound to 10.0.0.1 only"}, "provider": "vllm",
}  # fmt: skip
ROW_B = {
    **ROW, "gone_since_ms": None, "gpus_free": [3],
    "machine": {"memory": 9, "cpus": 20,
                "gpus": [{"index": 3, "vendor": "nvidia", "name": "RTX", "memory": 5, "uma": False}]},
    "services": {"openai": {"host": "", "port": 8000, "path": "/v1", "provider": "vllm",
                            "note": "bound to 10.0.0.1 only"}},
}  # fmt: skip


def test_generation_a() -> None:
    document = written("A")
    groups, peers = document.pop("groups"), document.pop("peers")
    assert peers["n2"] == PEERS["n2"] | {"control_addr": "10.0.0.2:6379"}
    assert peers["n3"] == PEERS["n3"] | {"control_addr": ""}
    assert document == {**TOP, "gcs_address": "10.0.0.1:6379"}
    agents, actors = groups["glm"].pop("agents"), groups["glm"].pop("actors")
    assert groups == {"glm": {"placement_groups": [], "gpus_total": 1, "gpus_used": 1}}
    assert agents[0] == ROW_A
    assert [(row["id"], row["state"]) for row in actors] == [
        ("a1", "dead (signal 9)"),
        ("a2", "dead"),
        ("a3", "draining"),
        ("a4", "running"),
    ]


def test_generation_b() -> None:
    document = written("B")
    groups, peers = document.pop("groups"), document.pop("peers")
    assert peers["n2"] == PEERS["n2"] | {"control_port": 6379}
    assert peers["n3"] == PEERS["n3"] | {"control_port": 0}
    assert document == {
        **TOP, "proto": "0.99", "control_addr": "10.0.0.1:6379", "addr_ifaces": {"10.0.0.1": "eth0"},
        "seq": 41, "boot_id": "6d64", "clients": {},
    }  # fmt: skip
    agents, actors = groups["glm"].pop("agents"), groups["glm"].pop("actors")
    assert groups == {"glm": {"placement_groups": {}, "claims": {}, "gpus_total": 1, "gpus_used": 1}}
    assert agents[AGENT.id] == ROW_B
    assert {id_: (row["state"], row["reason"]) for id_, row in actors.items()} == {
        "a1": ("dead", "signal 9"),
        "a2": ("dead", ""),
        "a3": ("draining", ""),
        "a4": ("running", ""),
    }


@pytest.mark.parametrize(("generation", "row"), [("A", ROW_A), ("B", ROW_B)])
def test_one_row_is_what_an_event_carries(generation: Generation, row: dict[str, Any]) -> None:
    assert agent_row(AGENT, DETAIL.agents[AGENT.id], generation) == row


def test_gpus_that_nothing_describes_are_placeholders() -> None:
    row = agent_row(DEAD, AgentDetail(gone_since_ms=5), "B")
    assert row["gpus_free"] == [0, 1, 2, 3]
    assert [gpu["vendor"] for gpu in row["machine"]["gpus"]] == ["", "", "", ""]
    assert row["gone_since_ms"] == 5


@given(views())
def test_the_detail_changes_nothing_in_the_view(view: View) -> None:
    assert read_snapshot(write_snapshot(view, DETAIL)).view == view
