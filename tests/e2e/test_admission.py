"""A model comes, and where it does not, /status.json says why not (wire.md section 6)."""

from __future__ import annotations

import signal
import time

from tests.support.cluster import Cluster
from tests.support.engine import Engine, running


def test_a_registered_engine_is_listed_and_its_end_takes_it_away(cluster: Cluster, engine: Engine) -> None:
    daemon = cluster.daemon()
    router = cluster.router(daemon)
    router.wait(lambda status: status["daemons"][daemon.http]["connected"])
    assert router.models() == []

    agent = cluster.register(daemon, "glm", f"{engine.port}/v1", "--provider vllm")
    router.wait_models("tiny")

    group = router.status()["groups"]["glm"]
    url = f"http://127.0.0.1:{engine.port}/v1"
    assert (group["healthy"], group["why_not"], group["models"]) == (True, None, ["tiny"])
    assert (group["openai"], group["openai_candidates"], group["provider"]) == (url, [url], "vllm")
    model = router.status()["models"]["tiny"]
    assert (model["group"], model["url"], model["alternates"]) == ("glm", url, [])

    agent.signal(signal.SIGTERM)
    assert agent.ended() == 0
    status = router.wait(lambda status: not status["models"])
    assert status["groups"]["glm"]["why_not"] == "no announced OpenAI endpoint"


def test_an_event_is_in_the_table_within_half_a_second(cluster: Cluster, engine: Engine) -> None:
    daemon = cluster.daemon()
    router = cluster.router(daemon, POLL_INTERVAL_S="3600", PROBE_INTERVAL_S="3600")
    router.wait(lambda status: status["daemons"][daemon.http]["connected"])
    cluster.register(daemon, "glm", f"{engine.port}/v1")
    registered = time.monotonic()
    router.wait_models("tiny")
    assert time.monotonic() - registered < 2  # the machine may be busy; the poll alone would take an hour


def test_an_entry_is_the_engines_own_and_can_be_asked_for_alone(cluster: Cluster) -> None:
    with running("org/tiny:latest", "größe") as engine:
        daemon = cluster.daemon()
        cluster.register(daemon, "glm", f"{engine.port}/v1")
        router = cluster.router(daemon)
        router.wait_models("org/tiny:latest", "größe")
        listing = router.ask("GET", "/v1/models").json
        assert listing["object"] == "list"
        entry = listing["data"][0]
        assert (entry["owned_by"], entry["max_model_len"]) == ("glm", 1024)
        assert router.ask("GET", "/v1/models/org/tiny:latest").json == entry
        assert router.ask("GET", "/v1/models/org%2Ftiny%3Alatest").json == entry
        assert router.ask("GET", "/v1/models/gr%C3%B6%C3%9Fe").json == listing["data"][1]
        assert router.ask("GET", "/v1/models/nothing").status == 404


def test_each_gate_is_named(cluster: Cluster, engine: Engine) -> None:
    daemon = cluster.daemon()
    cluster.register(daemon, "dead", "1/v1")
    cluster.register(daemon, "unplaced", f"{engine.port}/v1", "--gpus 1")
    cluster.register(daemon, "elsewhere", f"{engine.port}/v1", "--node-ip 203.0.113.9")
    cluster.run(f"mentatd-register --group silent --mcp 9000/mcp --address {daemon.control}").event(
        "register_up"
    )
    router = cluster.router(daemon)
    reasons = {
        "dead": "endpoint probe failed: http://127.0.0.1:1/v1: ",
        "elsewhere": f"announced port {engine.port}/v1 on node 203.0.113.9, and no address of that node passes ",
        "silent": "no announced OpenAI endpoint",
        "unplaced": "no running actors",
    }
    status = router.wait(
        lambda status: (
            len(status["groups"]) == 4
            and all(group["why_not"] != "not probed yet" for group in status["groups"].values())
        )
    )
    for group, reason in reasons.items():
        assert not status["groups"][group]["healthy"]
        assert status["groups"][group]["why_not"].startswith(reason)


def test_a_narrow_bind_explains_the_failed_probe(cluster: Cluster, engine: Engine) -> None:
    daemon = cluster.daemon(host="127.0.0.2")
    cluster.register(daemon, "glm", f"{engine.port}/v1").event("service_bind_narrow")
    router = cluster.router(daemon, ALLOWED_SOURCES="127.")
    status = router.wait(lambda status: "agent" in (status["groups"].get("glm", {}).get("why_not") or ""))
    group = status["groups"]["glm"]
    assert group["why_not"].startswith(f"endpoint probe failed: http://127.0.0.2:{engine.port}/v1: ")
    assert group["why_not"].endswith("(agent reports: bound to 127.0.0.1 only)")
    assert group["openai_note"] == "bound to 127.0.0.1 only"


def test_an_engine_comes_back(cluster: Cluster) -> None:
    daemon = cluster.daemon()
    router = cluster.router(daemon)
    with running("tiny") as engine:
        port = engine.port
        cluster.register(daemon, "glm", f"{port}/v1")
        router.wait_models("tiny")
    status = router.wait(lambda status: not status["models"])
    assert "refused" in status["groups"]["glm"]["why_not"]
    answer = router.post("/v1/chat/completions", model="tiny", messages=[])
    assert (answer.status, answer.json["error"]["code"]) == (503, "model_not_ready")
    with running("tiny", port=port):
        router.wait_models("tiny")


def test_a_daemon_that_dies_makes_its_view_stale(cluster: Cluster, engine: Engine) -> None:
    daemon = cluster.daemon()
    router = cluster.router(daemon, POLL_INTERVAL_S="0.3")
    cluster.register(daemon, "glm", f"{engine.port}/v1")
    router.wait_models("tiny")
    daemon.command.signal(signal.SIGKILL)
    daemon.command.ended()
    status = router.wait(lambda status: not status["groups"])
    assert not status["daemons"][daemon.http]["connected"]
    assert status["daemons"][daemon.http]["error"]
    assert router.post("/v1/chat/completions", model="tiny", messages=[]).status == 404
