"""Our commands and the published programs of one release in one cluster."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.interop.published import program
from tests.support.cluster import FAST, Cluster, Daemon, Router
from tests.support.commands import Command
from tests.support.deadlines import wait_until
from tests.support.ports import free_port

SHIM = Path(__file__).with_name("shim")
"""Holds the module that an agent starts for an actor."""


class Mixed(Cluster):
    """A `Cluster` that also runs the published programs."""

    def __init__(self, folder: Path, release: str) -> None:
        super().__init__(folder)
        self.folder = folder
        self.release = release
        # a socket's path has at most 107 bytes, which a test's own folder may come near
        self._sockets = self._stack.enter_context(TemporaryDirectory(prefix="actors"))

    def mentatd(self, *peers: Daemon, node_ip: str = "127.0.0.1", control: str = "", **env: str) -> Daemon:
        """The published daemon on ports chosen for it; it broadcasts nothing, as `lo` has no broadcast."""
        control, http = control or str(free_port()), free_port()
        flags = f"--node-ip {node_ip} --port {control} --http-port {http} --head-json {self.folder}/head.json"
        if peers:
            flags += " --peers " + ",".join(peer.control for peer in peers)
        quiet = {
            "MENTAT_ANNOUNCE_PORT": "0",
            "MENTAT_ANNOUNCE_IFACES": "lo",
            "MENTAT_ANNOUNCE_ADDRS": node_ip,
            "MENTAT_ELECTION_HOLD_DOWN_MS": "100",
            "MENTAT_PEER_STATUS_INTERVAL_MS": "200",
        }
        daemon = self.run(f"{program(self.release, 'mentatd')} daemon {flags}", **(quiet | env))
        daemon.event("http_up")
        return Daemon(daemon, f"{node_ip}:{control}", f"{node_ip}:{http}")

    def agent(self, daemon: Daemon, group: str, openai: str = "", *, gpus: int = 0, **env: str) -> Command:
        """The published agent; returns when the daemon has it."""
        told = {
            "MENTAT_GROUP": group,
            "MENTAT_OPENAI_API": openai,
            "MENTAT_GPUS": str(gpus),
            "CONTAINER_NAME": "c0",
            "MENTAT_SOCK_DIR": self._sockets,
            "MENTAT_PYTHON": sys.executable,
            "PYTHONPATH": str(SHIM),
        }
        start = f"{program(self.release, 'mentatd')} start --block --address {daemon.control}"
        agent = self.run(start, **(told | env))
        agent.event("agent_registered")
        return agent

    def mentatd_serve(self, *daemons: Daemon, **env: str) -> Router:
        """The published router, seeded with `daemons`."""
        port = free_port()
        seeds = ",".join(daemon.http for daemon in daemons)
        told = {"SERVE_PORT": str(port), "MENTAT_DAEMONS": seeds} | FAST
        serve = self.run(str(program(self.release, "mentatd-serve")), **(told | env))
        serve.event("serve_up")
        wait_until(lambda: _listens(port))  # which it may say a moment before
        return Router(serve, port)


def _listens(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0
