"""A node and what agents say, for the tests of the lite daemon."""

from __future__ import annotations

from dataclasses import replace

from mentatd.lite.settings import Lifetimes, LiteSettings
from mentatd.lite.state import Node, State
from mentatd.wire.machine import Gpu, Machine
from mentatd.wire.messages import AgentRegister
from mentatd.wire.service import PortService
from mentatd.wire.version import Generation

SETTINGS = LiteSettings(
    bind="127.0.0.1",
    port=0,
    http_port=0,
    node_ip="",
    universe="default",
    announce_port=6382,
    announce_to=(),
    ifaces=(),
    addrs=(),
    announce_interval_s=5.0,
    peers=(),
    lifetimes=Lifetimes(),
    generation="A",
    secret=None,
)

NODE = Node(
    generation="A",
    node_id="n1",
    node_ip="10.0.0.1",
    hostname="box",
    control_port=6379,
    http_port=6380,
    boot_id="b1",
)


def state(generation: Generation = "A") -> State:
    """A node with two addresses and no agents."""
    return State(
        replace(NODE, generation=generation),
        addrs=("10.0.0.1", "192.168.1.11"),
        ifaces={"10.0.0.1": "eth0", "192.168.1.11": "eth1"},
    )


def agent(
    id_: str = "glm@c0@", group: str = "glm", node_ip: str = "", generation: Generation = "A", gpus: int = 0
) -> AgentRegister:
    """A registration of one engine."""
    return AgentRegister(
        generation=generation,
        req=1,
        agent_id=id_,
        group=group,
        node_ip=node_ip,
        container="c0",
        pid=412,
        machine=Machine(cpus=20, memory=1 << 30, gpus=tuple(Gpu(n) for n in range(gpus))),
        services={"openai": PortService(8000, "/v1"), "mcp": PortService(9000, "/mcp")},
        provider="vllm",
    )
