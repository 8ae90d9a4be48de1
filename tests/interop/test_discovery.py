"""The published daemon and agent drive our router by `/status` and `/events` (wire.md sections 1, 4, 5)."""

from __future__ import annotations

import signal

from tests.interop.mixed import Mixed
from tests.support.engine import Engine, running

WATCH_S = 30.0
"""The agent looks at its ports now and then."""


def test_an_agent_comes_dies_and_returns_and_the_events_alone_say_so(mixed: Mixed, engine: Engine) -> None:
    daemon = mixed.mentatd()
    router = mixed.router(daemon, POLL_INTERVAL_S="3600")
    router.wait(lambda status: status["daemons"][daemon.http]["connected"])

    agent = mixed.agent(daemon, "glm", f"{engine.port}/v1", MENTAT_MODEL_PROVIDER="VLLM")
    router.wait_models("tiny")
    group = router.status()["groups"]["glm"]
    url = f"http://127.0.0.1:{engine.port}/v1"
    assert (group["openai"], group["openai_candidates"], group["provider"]) == (url, [url], "vllm")

    agent.signal(signal.SIGKILL)
    agent.ended()
    status = router.wait(lambda status: not status["models"])
    assert status["groups"]["glm"]["why_not"] == "no announced OpenAI endpoint"

    mixed.agent(daemon, "glm", f"{engine.port}/v1")
    router.wait_models("tiny")


def test_a_daemon_that_dies_takes_its_groups_with_it_and_no_others(mixed: Mixed, engine: Engine) -> None:
    first, second = mixed.mentatd(), mixed.mentatd(node_ip="127.0.0.2")
    router = mixed.router(first, second, ALLOWED_SOURCES="127.", POLL_INTERVAL_S="0.5")
    mixed.agent(first, "glm", f"{engine.port}/v1")
    mixed.agent(second, "qwen", f"http://127.0.0.1:{engine.port}/v1")
    router.wait(lambda status: all(status["groups"].get(name, {}).get("healthy") for name in ("glm", "qwen")))
    first.command.signal(signal.SIGKILL)
    first.command.ended()
    status = router.wait(lambda status: list(status["groups"]) == ["qwen"])
    assert not status["daemons"][first.http]["connected"]
    assert status["daemons"][second.http]["connected"]
    assert status["models"]["tiny"]["group"] == "qwen"


def test_a_narrow_bind_explains_the_failed_probe_until_it_is_mended(mixed: Mixed) -> None:
    daemon = mixed.mentatd(node_ip="127.0.0.2")
    router = mixed.router(daemon, ALLOWED_SOURCES="127.", POLL_INTERVAL_S="0.5")
    with running("tiny") as narrow:
        mixed.agent(daemon, "glm", f"{narrow.port}/v1").event("service_bind_narrow", within_s=WATCH_S)
        status = router.wait(lambda status: "agent" in (status["groups"].get("glm", {}).get("why_not") or ""))
        group = status["groups"]["glm"]
        assert group["why_not"].startswith(f"endpoint probe failed: http://127.0.0.2:{narrow.port}/v1: ")
        assert group["why_not"].endswith("(agent reports: bound to 127.0.0.1 only)")
    with running("tiny", host="0.0.0.0", port=narrow.port):
        router.wait_models("tiny")
        router.wait(lambda status: not status["groups"]["glm"]["openai_note"])


def test_the_url_form_is_used_as_written(mixed: Mixed) -> None:
    daemon = mixed.mentatd()
    router = mixed.router(daemon, ALLOWED_SOURCES="127.0.0.1")
    with running("tiny", host="127.0.0.3") as elsewhere:
        url = f"http://127.0.0.3:{elsewhere.port}/v1"
        mixed.agent(daemon, "glm", url, MENTAT_MCP_API="http://127.0.0.3:9/mcp")
        router.wait_models("tiny")
        group = router.status()["groups"]["glm"]
        assert (group["openai"], group["openai_candidates"]) == (url, [url])
        assert group["mcp"] == "http://127.0.0.3:9/mcp"
