"""Our agent with the published daemon, and the published agent and client with ours (wire.md section 4)."""

from __future__ import annotations

import signal
import subprocess

from tests.interop.mixed import Mixed
from tests.interop.published import program
from tests.support.engine import Engine


def test_our_agent_registers_with_the_published_daemon(mixed: Mixed, engine: Engine) -> None:
    daemon = mixed.mentatd()
    router = mixed.router(daemon)
    agent = mixed.register(daemon, "glm", f"{engine.port}/v1", "--provider vllm --mcp http://127.0.0.1:9/mcp")
    router.wait_models("tiny")
    group = router.status()["groups"]["glm"]
    assert (group["provider"], group["mcp"]) == ("vllm", "http://127.0.0.1:9/mcp")
    agent.signal(signal.SIGTERM)
    assert agent.ended() == 0
    router.wait(lambda status: not status["models"])


def test_our_agents_note_reaches_the_router(mixed: Mixed, engine: Engine) -> None:
    daemon = mixed.mentatd(node_ip="127.0.0.2")
    router = mixed.router(daemon, ALLOWED_SOURCES="127.", POLL_INTERVAL_S="0.5")
    mixed.register(daemon, "glm", f"{engine.port}/v1")
    router.wait(
        lambda status: status["groups"].get("glm", {}).get("openai_note") == "bound to 127.0.0.1 only"
    )


def test_our_agent_returns_when_the_published_daemon_does(mixed: Mixed, engine: Engine) -> None:
    daemon = mixed.mentatd()
    agent = mixed.register(daemon, "glm", f"{engine.port}/v1")
    daemon.command.signal(signal.SIGKILL)
    agent.event("register_lost")
    again = mixed.mentatd(control=daemon.control.rpartition(":")[2])
    mixed.router(again).wait_models("tiny")


def test_the_published_agent_registers_with_lite(mixed: Mixed, engine: Engine) -> None:
    daemon = mixed.daemon()
    router = mixed.router(daemon)
    agent = mixed.agent(
        daemon,
        "glm",
        f"{engine.port}/v1",
        MENTAT_MCP_API="http://127.0.0.1:9/mcp",
        MENTAT_MODEL_PROVIDER="vllm",
    )
    router.wait_models("tiny")
    group = router.status()["groups"]["glm"]
    assert (group["provider"], group["mcp"]) == ("vllm", "http://127.0.0.1:9/mcp")
    agent.signal(signal.SIGKILL)
    router.wait(lambda status: not status["models"])


def test_the_published_status_command_reads_lite(mixed: Mixed, engine: Engine) -> None:
    daemon = mixed.daemon()
    mixed.agent(daemon, "glm", f"{engine.port}/v1", gpus=2)
    command = [str(program(mixed.release, "mentatd")), "status", "--address", daemon.control]
    told = subprocess.run(
        [*command, "--group", "glm"], capture_output=True, text=True, timeout=10, check=True
    )
    assert told.stdout.startswith("Resources: 0.0/2.0 GPU")
    whole = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    assert "agent glm@c0@" in whole.stdout
