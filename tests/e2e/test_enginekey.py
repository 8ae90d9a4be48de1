"""Engines that ask for a key: the router's own questions carry it where it is safe, and clients' keys pass."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.cluster import JSON, Cluster, Router
from tests.support.engine import Engine, Received, running
from tests.support.ports import free_port

CHAT = "/v1/chat/completions"
COUNT = "/v1/responses/input_tokens"
BODY = b'{"model":"tiny","messages":[],"input":"hi"}'
OURS = ["Bearer sk-engine"]


def exercise(router: Router, engine: Engine) -> dict[str, list[str]]:
    """What the router's own questions and a client's request carried, by their target."""
    router.wait_models("tiny")
    router.ask("GET", "/stats.json")
    assert router.ask("POST", COUNT, BODY, JSON).json["input_tokens"] == 13
    assert router.ask("POST", CHAT, BODY, JSON | {"Authorization": "Bearer own"}).status == 200
    assert router.ask("POST", CHAT, BODY, JSON).status == 200
    newest: dict[str, Received] = {request.target: request for request in engine.received}
    return {target: request.fields("authorization") for target, request in newest.items()} | {
        "own": engine.posts(CHAT)[-2].fields("authorization")
    }


def test_an_engine_of_a_seed_gets_it(cluster: Cluster, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("sk-engine\n")
    with running("tiny") as engine:
        daemon = cluster.daemon()
        cluster.register(daemon, "glm", f"{engine.port}/v1", "--provider vllm")
        router = cluster.router(daemon, ENGINE_API_KEY_FILE=str(key))
        carried = exercise(router, engine)
    assert carried["/v1/models"] == carried["/metrics"] == carried["/tokenize"] == OURS
    assert (carried[CHAT], carried["own"]) == ([], ["Bearer own"])
    assert "sk-engine" not in router.command.output


@pytest.mark.parametrize("signed", [True, False])
def test_an_engine_of_an_announcement_gets_it_only_if_that_was_signed(cluster: Cluster, signed: bool) -> None:
    port = free_port()
    secret = {"MENTAT_SECRET": "correct horse"} if signed else {}
    flags = f"--announce-port {port} --announce-interval 0.2 --announce-addr 127.0.0.1:{port}"
    with running("tiny") as engine:
        daemon = cluster.daemon(flags, **secret)
        cluster.register(daemon, "glm", f"{engine.port}/v1", "--provider vllm")
        router = cluster.router(MENTAT_ANNOUNCE_PORT=str(port), ENGINE_API_KEY="sk-engine", **secret)
        carried = exercise(router, engine)
    expected = OURS if signed else []
    assert carried["/v1/models"] == carried["/metrics"] == carried["/tokenize"] == expected
    assert (carried[CHAT], carried["own"]) == ([], ["Bearer own"])
    assert len(router.command.events("engine_key_withheld", group="glm")) == (not signed)
