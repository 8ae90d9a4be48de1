"""mentatd-register, as a process, with mentatd-lite."""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.programs import fetch, run
from tests.support.cluster import Cluster, Daemon
from tests.support.deadlines import DEADLINE_S, wait_until
from tests.support.engine import running

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


@pytest.mark.parametrize(
    "arguments",
    [
        "--nonsense",
        "--openai host:8000/v1",
        "--proto 2",
        "--discover x",
        "--discover --group glm",
        "--config /nonexistent",
        "--config /dev/zero",
    ],
)
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


def test_it_finds_an_engine_and_its_router_serves_it(cluster: Cluster) -> None:
    daemon = cluster.daemon()
    with running("Qwen/Qwen3-8B") as engine:
        cluster.run(f"mentatd-register --discover {engine.port} --address {daemon.control} --container c0")
        router = cluster.router(daemon)
        router.wait_models("Qwen/Qwen3-8B")
        # a router among the ports is no engine
        other = cluster.run(f"mentatd-register --discover {router.port} --address {daemon.control}")
        other.event("discover_no_engine", port=str(router.port), why="it is a router")
    assert router.status()["groups"]["Qwen3-8B"]["provider"] == "vllm"


def test_several_engines_from_the_file_of_its_page(cluster: Cluster, tmp_path: Path) -> None:
    daemon = cluster.daemon()
    page = Path(__file__).parents[2] / "docs" / "register.md"
    (example,) = re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)
    file = tmp_path / "engines.toml"
    file.write_text(example.replace("10.0.0.1:6379", daemon.control))
    register = cluster.run(f"mentatd-register --config {file}")
    for group in ("qwen", "gemma"):
        daemon.command.event("agent_register", group=group)
    groups = fetch(f"http://{daemon.http}/status")["groups"]
    assert {name: group["agents"][0]["provider"] for name, group in groups.items()} == {
        "qwen": "vllm",
        "gemma": "llamacpp",
    }
    register.signal(signal.SIGTERM)
    assert register.ended() == 0
    file.write_text("[[engine]]\nmodel = 'x'\n")
    done = run(f"mentatd-register --config {file}")
    assert (done.returncode, "engine 1: 'model' is none of" in done.stderr) == (2, True)


@pytest.mark.parametrize("how", ["--openai 8000/v1", "--discover 1"])
def test_its_supervisor_is_told_that_it_runs_although_its_daemon_does_not(
    cluster: Cluster, tmp_path: Path, how: str
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.settimeout(DEADLINE_S)
        supervisor.bind(str(tmp_path / "notify"))
        cluster.run(f"mentatd-register --address 127.0.0.1:1 {how}", NOTIFY_SOCKET=str(tmp_path / "notify"))
        assert supervisor.recv(100) == b"READY=1"


def test_it_waits_for_its_daemon(cluster: Cluster) -> None:
    gone = cluster.daemon()
    gone.command.close()
    register = cluster.run(f"mentatd-register --address {gone.control} --group glm")
    register.event("register_failed", why=f"{gone.control}: Connection refused")
    again = cluster.daemon(f"--port {gone.control.rpartition(':')[2]}")
    again.command.event("agent_register", group="glm")
    register.event("register_up")
