"""The project's commands on hosts, with the ports and the allowed sources that they have by default."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.network.hosts import Host
from tests.support.cluster import Cluster, Router
from tests.support.commands import BIN, Command
from tests.support.deadlines import DEADLINE_S
from tests.support.engine import Engine, running

FAST = {
    "MENTAT_DAEMONS": "",  # announcements are the only way in
    "POLL_INTERVAL_S": "2",
    "PROBE_INTERVAL_S": "0.3",
    "PROBE_TIMEOUT_S": "0.5",
    "PROBE_PROMOTE_S": "1",
}
"""The router's settings unless a test says otherwise."""
LITE = {
    "MENTAT_ANNOUNCE_IFACES": "fabric=rdma,lan",
    "MENTAT_ANNOUNCE_INTERVAL_S": "0.3",
    "MENTAT_PEER_STATUS_INTERVAL_MS": "200",
    "MENTAT_PEER_STALE_AFTER_MS": "1000",
    "MENTAT_PEER_DEAD_AFTER_MS": "2000",
}
ENGINE_PORT = 8000
ROUTER_PORT = 6381


@dataclass(frozen=True, slots=True)
class HostRouter(Router):
    """A router on a host, asked from a host."""

    asked_at: str
    asked_from: Host

    def connect(self, within_s: float = DEADLINE_S) -> socket.socket:
        return self.asked_from.connect(self.asked_at, self.port, within_s)


class Site(Cluster):
    """Starts what a cluster has on its hosts."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.daemons: dict[str, Command] = {}
        """By host."""

    def on(self, host: Host, line: str, **env: str) -> Command:
        """Run one of the commands on a host."""
        return self.run(f"{host.prefix} {BIN}/{line}", **env)

    def node(self, host: Host, *models: str, peers: Sequence[Host] = ()) -> Engine:
        """A daemon, and an engine that is registered with it under the host's name."""
        joined = {"MENTAT_PEERS": ",".join(peer.lan for peer in peers)} if peers else {}
        self.daemons[host.name] = self.on(host, "mentatd-lite", **(LITE | joined))
        self.daemons[host.name].event("lite_up")
        engine = self.engine(host, *models)
        self.on(host, f"mentatd-register --group {host.name} --openai {ENGINE_PORT}/v1").event("register_up")
        return engine

    def engine(self, host: Host, *models: str) -> Engine:
        """An engine that listens on all of a host's addresses."""
        serving = running(*models, host="0.0.0.0", port=ENGINE_PORT, enter=host.enter)
        return self._stack.enter_context(serving)

    def router_on(self, host: Host, **env: str) -> HostRouter:
        """A router, asked from its own host."""
        serve = self.on(host, "mentatd-serve", **(FAST | env))
        serve.event("serve_up")
        return HostRouter(serve, ROUTER_PORT, "127.0.0.1", host)
