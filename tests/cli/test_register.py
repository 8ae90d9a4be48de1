"""mentatd-register, as a process, with mentatd-lite."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.programs import Program, fetch, run, running
from tests.support.deadlines import wait_until

from mentatd import __version__

LITE = "mentatd.cli.lite"
REGISTER = "mentatd.cli.register"


class Lite:
    """A daemon as a process."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.control = program.wait_for(r"event=lite_up .*control=(\d+)")
        self.http = program.wait_for(r"event=lite_up .*http=(\d+)")

    def agents(self, group: str) -> list[dict[str, Any]]:
        """The rows of one group."""
        status = fetch(f"http://127.0.0.1:{self.http}/status")
        rows: list[dict[str, Any]] = status["groups"].get(group, {"agents": []})["agents"]
        return rows


@pytest.fixture
def lite(tmp_path: Path) -> Iterator[Lite]:
    arguments = ("--bind", "127.0.0.1", "--port", "0", "--http-port", "0", "--announce-port", "0")
    with running(tmp_path / "lite", LITE, *arguments) as program:
        yield Lite(program)


def test_version_and_help() -> None:
    assert run(REGISTER, "--version").stdout == f"mentatd-register {__version__}\n"
    told = run(REGISTER, "--help")
    assert told.returncode == 0
    assert "MENTAT_OPENAI_API" in told.stdout


@pytest.mark.parametrize("arguments", [("--nonsense",), ("--openai", "host:8000/v1"), ("--proto", "2")])
def test_a_wrong_command_line(arguments: tuple[str, ...]) -> None:
    done = run(REGISTER, *arguments)
    assert done.returncode == 2
    assert "mentatd-register: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("proto", ["", "0.99"])
def test_it_registers_from_its_environment_and_leaves_in_order(
    tmp_path: Path, lite: Lite, proto: str
) -> None:
    environ = {
        "MENTAT_DAEMON": f"127.0.0.1:{lite.control}",
        "MENTAT_GROUP": "glm",
        "MENTAT_OPENAI_API": "8000/v1",
        "MENTAT_MCP_API": "http://10.0.0.9:9000/mcp",
        "MENTAT_MODEL_PROVIDER": "vLLM",
        "CONTAINER_NAME": "c0",
    }
    with running(tmp_path / "log", REGISTER, "--proto", proto, **environ) as register:
        register.wait_for("event=register_up")
        (row,) = lite.agents("glm")
        assert (row["id"], row["container"], row["alive"], row["provider"]) == ("glm@c0@", "c0", True, "vllm")
        assert row["node_ip"] == "127.0.0.1"
        assert row["pid"] == register.process.pid
        assert row["services_ports"] == {"openai": {"port": 8000, "path": "/v1"}}
        assert row["services"] == {"mcp": "http://10.0.0.9:9000/mcp"}
        assert register.end(signal.SIGTERM) == 0
        lite.program.wait_for('event=agent_lost .*why="link closed"')
        assert "Traceback" not in register.said
    assert not lite.agents("glm")[0]["alive"]


def test_a_killed_agent_is_lost_too(tmp_path: Path, lite: Lite) -> None:
    arguments = ("--address", f"127.0.0.1:{lite.control}", "--group", "glm")
    with running(tmp_path / "log", REGISTER, *arguments) as register:
        register.wait_for("event=register_up")
        register.end(signal.SIGKILL)
        lite.program.wait_for("event=agent_lost")


def test_a_narrow_bind_is_noted_and_a_wide_one_clears_it(tmp_path: Path, lite: Lite) -> None:
    with socket.create_server(("127.0.0.1", 0)) as narrow:
        port = narrow.getsockname()[1]
        arguments = ("--address", f"127.0.0.1:{lite.control}", "--group", "glm", "--openai", f"{port}/v1")
        with running(tmp_path / "log", REGISTER, *arguments) as register:
            register.wait_for('event=service_bind_narrow .*note="bound to 127.0.0.1 only"')
            wait_until(
                lambda: lite.agents("glm")[0]["service_notes"] == {"openai": "bound to 127.0.0.1 only"}
            )
            narrow.close()
            with socket.create_server(("0.0.0.0", port)):
                register.wait_for("event=service_bind_widened")
                wait_until(lambda: lite.agents("glm")[0]["service_notes"] == {})


def test_it_waits_for_its_daemon(tmp_path: Path, lite: Lite) -> None:
    lite.program.end(signal.SIGTERM)
    arguments = ("--address", f"127.0.0.1:{lite.control}", "--group", "glm")
    with running(tmp_path / "log", REGISTER, *arguments) as register:
        register.wait_for(f'event=register_failed why="127.0.0.1:{lite.control}: Connection refused"')
        again = ("--bind", "127.0.0.1", "--port", lite.control, "--http-port", "0", "--announce-port", "0")
        with running(tmp_path / "again", LITE, *again) as program:
            program.wait_for("event=agent_register group=glm")
            register.wait_for("event=register_up")
