"""Daemons are found by seed, by announcement and by hearsay; routers agree about what they find."""

from __future__ import annotations

import socket

import pytest
from tests.support.cluster import Cluster, Daemon, Router
from tests.support.deadlines import DEADLINE_S
from tests.support.engine import Engine, running
from tests.support.ports import free_port

KEY = {"MENTAT_SECRET": "correct horse"}
UNSIGNED: dict[str, str] = {}


def listening(cluster: Cluster, port: int, **env: str) -> Router:
    """A router that knows daemons by announcement only."""
    router = cluster.router(MENTAT_ANNOUNCE_PORT=str(port), **env)
    router.command.event("announce_listen")
    return router


def announcing(cluster: Cluster, *ports: int, flags: str = "", **env: str) -> Daemon:
    """A daemon that announces itself five times a second to each of `ports` in turn."""
    targets = ",".join(f"127.0.0.1:{port}" for port in ports)
    timing = f"--announce-port {ports[0]} --announce-interval 0.2"
    return cluster.daemon(f"{timing} --announce-addr {targets} {flags}", **env)


@pytest.mark.parametrize("env", [UNSIGNED, KEY], ids=["unsigned", "signed"])
def test_an_announced_daemon_is_watched_and_its_engine_routes(
    cluster: Cluster, engine: Engine, env: dict[str, str]
) -> None:
    port = free_port()
    router = listening(cluster, port, **env)
    daemon = announcing(cluster, port, **env)
    cluster.register(daemon, "glm", f"{engine.port}/v1")
    router.wait_models("tiny")
    assert list(router.status()["daemons"]) == [daemon.http]


def test_both_generations_announce(cluster: Cluster, engine: Engine) -> None:
    port = free_port()
    router = listening(cluster, port, **KEY)
    daemon = announcing(cluster, port, flags="--proto 0.99", **KEY)
    cluster.register(daemon, "glm", f"{engine.port}/v1", "--proto 0.99 --provider vllm")
    router.wait_models("tiny")
    assert router.status()["groups"]["glm"]["provider"] == "vllm"


@pytest.mark.parametrize(
    ("ours", "theirs", "event"),
    [
        (KEY, UNSIGNED, "announce_rejected"),
        (KEY, {"MENTAT_SECRET": "other"}, "announce_rejected"),
        (UNSIGNED, KEY, "announce_unverifiable"),
        (KEY | {"ALLOWED_SOURCES": "10.99."}, KEY, "announce_source_not_allowed"),
    ],
    ids=["unsigned", "wrong key", "no key here", "forbidden source"],
)
def test_a_refused_announcement_is_said_once_and_watched_never(
    cluster: Cluster, ours: dict[str, str], theirs: dict[str, str], event: str
) -> None:
    port = free_port()
    router = listening(cluster, port, **ours)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as witness:
        witness.bind(("127.0.0.1", 0))
        witness.settimeout(DEADLINE_S)
        announcing(cluster, port, witness.getsockname()[1], **theirs)
        router.command.event(event)
        for _ in range(4):
            witness.recv(2048)
    assert len(router.command.events(event)) == 1
    assert not router.command.events("daemon_watch")


def test_another_universe_is_dropped_without_a_word(cluster: Cluster) -> None:
    port = free_port()
    router = listening(cluster, port)
    announcing(cluster, port, MENTAT_UNIVERSE="elsewhere")
    heard = announcing(cluster, port).http
    router.wait(lambda status: heard in status["daemons"])
    assert list(router.status()["daemons"]) == [heard]
    assert not [line for line in router.command.output.splitlines() if "universe" in line]


def test_an_announce_port_in_use_does_not_stop_the_router(cluster: Cluster, engine: Engine) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("0.0.0.0", 0))  # without SO_REUSEPORT: nobody can share it
        daemon = cluster.daemon()
        cluster.register(daemon, "glm", f"{engine.port}/v1")
        router = cluster.router(daemon, MENTAT_ANNOUNCE_PORT=str(taken.getsockname()[1]))
        router.command.event("announce_listen_failed")
        router.wait_models("tiny")


def test_routers_that_start_in_any_order_agree(cluster: Cluster) -> None:
    with running("a") as one, running("b", "shared") as two, running("shared") as three:
        early = [cluster.daemon(), cluster.daemon(host="127.0.0.2")]
        env = {"ALLOWED_SOURCES": "127."}
        routers = [cluster.router(*early, **env)]
        cluster.register(early[0], "g1", f"{one.port}/v1")
        cluster.register(early[1], "g2", f"http://127.0.0.1:{two.port}/v1")
        routers.append(cluster.router(*reversed(early), **env))
        cluster.register(early[1], "g3", f"http://127.0.0.1:{three.port}/v1")
        cluster.register(early[0], "g4", "1/v1")
        routers.append(cluster.router(*early, **env))
        for router in routers:
            router.wait_models("a", "b", "shared")
            router.wait(lambda status: "refused" in (status["groups"].get("g4", {}).get("why_not") or ""))
        assert len({router.ask("GET", "/v1/models").body for router in routers}) == 1
        seen = [_comparable(router) for router in routers]
        assert seen[0] == seen[1] == seen[2]


def _comparable(router: Router) -> object:
    """What two routers must not differ in: ages and times of probes are each router's own."""
    told = ("daemon", "agents_alive", "actors_running", "openai", "openai_candidates", "healthy", "models")
    status = router.status()
    groups = {name: {key: group[key] for key in told} for name, group in status["groups"].items()}
    return groups, status["models"]
