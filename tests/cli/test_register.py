"""mentatd-register, as a process, with mentatd-lite."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.programs import fetch, run
from tests.support.cluster import Cluster, Daemon
from tests.support.deadlines import wait_until

from mentatd import __version__

pytestmark = pytest.mark.e2e


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as cluster:
        yield cluster


def agent(daemon: Daemon) -> dict[str, Any]:
    """The row of the one agent of the group glm."""
    (row,) = fetch(f"http://{daemon.http}/status?group=glm")["groups"]["glm"]["agents"]
    assert isinstance(row, dict)
    return row


def test_version_and_help() -> None:
    assert run("mentatd-register --version").stdout == f"mentatd-register {__version__}\n"
    told = run("mentatd-register --help")
    assert told.returncode == 0
    assert "MENTAT_OPENAI_API" in told.stdout


@pytest.mark.parametrize("arguments", ["--nonsense", "--openai host:8000/v1", "--proto 2"])
def test_a_wrong_command_line(arguments: str) -> None:
    done = run(f"mentatd-register {arguments}")
    assert done.returncode == 2
    assert "mentatd-register: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("proto", ["''", "0.99"])
def test_it_registers_from_its_environment_and_leaves_in_order(cluster: Cluster, proto: str) -> None:
    daemon = cluster.daemon()
    register = cluster.run(
        f"mentatd-register --proto {proto}",
        MENTAT_DAEMON=daemon.control,
        MENTAT_GROUP="glm",
        MENTAT_OPENAI_API="8000/v1",
        MENTAT_MCP_API="http://10.0.0.9:9000/mcp",
        MENTAT_MODEL_PROVIDER="vLLM",
        CONTAINER_NAME="c0",
    )
    register.event("register_up", agent="glm@c0@")
    row = agent(daemon)
    assert (row["id"], row["container"], row["alive"], row["provider"]) == ("glm@c0@", "c0", True, "vllm")
    assert (row["node_ip"], row["pid"]) == ("127.0.0.1", register.pid)
    assert row["services_ports"] == {"openai": {"port": 8000, "path": "/v1"}}
    assert row["services"] == {"mcp": "http://10.0.0.9:9000/mcp"}
    register.signal(signal.SIGTERM)
    assert register.ended() == 0
    assert "Traceback" not in register.output
    daemon.command.event("agent_lost", why="link closed")
    assert not agent(daemon)["alive"]


def test_a_killed_agent_is_lost_too(cluster: Cluster) -> None:
    daemon = cluster.daemon()
    register = cluster.register(daemon, "glm", "8000/v1")
    register.signal(signal.SIGKILL)
    daemon.command.event("agent_lost", group="glm")


def test_a_narrow_bind_is_noted_and_a_wide_one_clears_it(cluster: Cluster) -> None:
    daemon = cluster.daemon()
    with socket.create_server(("127.0.0.1", 0)) as narrow:
        port = narrow.getsockname()[1]
        register = cluster.register(daemon, "glm", f"{port}/v1")
        register.event("service_bind_narrow", port=str(port), note="bound to 127.0.0.1 only")
        wait_until(lambda: agent(daemon)["service_notes"] == {"openai": "bound to 127.0.0.1 only"})
    with socket.create_server(("0.0.0.0", port)):
        register.event("service_bind_widened", port=str(port))
        wait_until(lambda: agent(daemon)["service_notes"] == {})


def test_it_waits_for_its_daemon(cluster: Cluster) -> None:
    gone = cluster.daemon()
    gone.command.close()
    register = cluster.run(f"mentatd-register --address {gone.control} --group glm")
    register.event("register_failed", why=f"{gone.control}: Connection refused")
    again = cluster.daemon(f"--port {gone.control.rpartition(':')[2]}")
    again.command.event("agent_register", group="glm")
    register.event("register_up")
