"""Mentat daemons that cost little: `python -m bench.daemons PORT ENGINE_PORT DAEMONS GROUPS [--churn]`.

Each is a node with an address of its own on loopback, all with the same port, knows all others, and holds its share
of the groups, each of which serves a model of its name by the one engine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import dataclass, replace

import uvloop
from websockets.asyncio.server import Server, ServerConnection, broadcast, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from bench.programs import HOSTS
from bench.workloads import Fleet
from mentatd.wire.service import PortService
from mentatd.wire.snapshot import Actor, Agent, GroupView, Peer, View
from mentatd.wire.snapshot_writer import write_snapshot

CHURN_S = 1.0
BURST = 5
"""Events that tell of one change."""


def host(number: int) -> str:
    """The address of a daemon's node."""
    return HOSTS[1 + number]


def _actor(number: int, node: str) -> Actor:
    return Actor(f"a{number}", f"w{number}", node, "running", "")


def group(name: str, node: int, engine_port: int) -> GroupView:
    """A deployment with one agent and one running actor."""
    agent = Agent(
        id=f"{name}@c0@{host(node)}",
        node_ip=host(node),
        node_id=f"n{node}",
        container="c0",
        alive=True,
        degraded=False,
        gpus=1,
        provider="vllm",
        services={"openai": PortService(engine_port, f"/{name}/v1")},
        notes={},
    )
    return GroupView((agent,), (_actor(0, agent.node_id),), 1)


def views(fleet: Fleet, port: int, engine_port: int) -> list[View]:
    """What each daemon reports. `port`: their HTTP port."""
    peers = [
        Peer(f"n{node}", host(node), host(node), (host(node),), port, alive=True, stale=False)
        for node in range(fleet.daemons)
    ]
    return [
        View(
            generation="A",
            node_id=peer.node_id,
            node_ip=peer.node_ip,
            hostname=peer.node_id,
            addrs=peer.addrs,
            peers=tuple(other for other in peers if other is not peer),
            groups={name: group(name, node, engine_port) for name in fleet.models[node :: fleet.daemons]},
        )
        for node, peer in enumerate(peers)
    ]


def changed(view: View, turn: int) -> View:
    """Another view: the actor that the last turn added to a group is gone, and a group has a second one.

    Every group keeps the actor that admits it: what changes is what a router must look at, not what it serves.
    """
    plain = {name: replace(held, actors=held.actors[:1]) for name, held in view.groups.items()}
    name = sorted(plain)[turn % len(plain)]
    actors = (*plain[name].actors, _actor(1 + turn, view.node_id))
    return replace(view, groups=plain | {name: replace(plain[name], actors=actors)})


@dataclass(slots=True)
class Daemon:
    """One of them."""

    view: View
    body: bytes = b""
    """The answer to `/status`."""
    server: Server | None = None

    async def start(self, port: int) -> None:
        self.show(self.view)
        self.server = await serve(
            self._events,
            self.view.node_ip,
            port,
            process_request=self._plain,
            compression=None,
            ping_interval=None,
        )

    def show(self, view: View) -> None:
        self.view, self.body = view, write_snapshot(view)

    def tell(self, turn: int) -> None:
        """One burst of events."""
        frame = json.dumps({"type": "actor_running", "seq": turn, "ts_ms": 0, "node": self.view.node_id})
        for _ in range(BURST if self.server else 0):
            broadcast(self.server.connections if self.server else (), frame)

    async def _plain(self, _connection: ServerConnection, request: Request) -> Response | None:
        if request.path == "/events":
            return None
        headers = Headers({"Content-Length": str(len(self.body)), "Connection": "close"})
        return Response(200, "OK", headers, self.body)

    async def _events(self, connection: ServerConnection) -> None:
        first = {"type": "snapshot", "seq": 0, "data": json.loads(self.body)}
        await connection.send(json.dumps(first))
        await connection.wait_closed()


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.daemons")
    parser.add_argument("port", type=int)
    parser.add_argument("engine_port", type=int)
    parser.add_argument("daemons", type=int)
    parser.add_argument("groups", type=int)
    parser.add_argument("--churn", action="store_true")
    chosen = parser.parse_args()
    fleet = Fleet(chosen.daemons, chosen.groups, chosen.churn)
    daemons = [Daemon(view) for view in views(fleet, chosen.port, chosen.engine_port)]
    for daemon in daemons:
        await daemon.start(chosen.port)
    turn = 0
    while True:
        await asyncio.sleep(CHURN_S)
        if fleet.churn:
            turn += 1
            for daemon in daemons:
                daemon.show(changed(daemon.view, turn))
                daemon.tell(turn)


if __name__ == "__main__":
    uvloop.run(main())
