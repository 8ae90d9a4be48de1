"""The published daemon's datagrams reach our router, or are refused, as wire.md section 2 says."""

from __future__ import annotations

import socket

import pytest
from tests.interop.mixed import Mixed
from tests.support.cluster import Daemon, Router
from tests.support.deadlines import DEADLINE_S
from tests.support.engine import Engine
from tests.support.ports import free_port

KEY = {"MENTAT_SECRET": "correct horse"}
UNSIGNED: dict[str, str] = {}


def listening(mixed: Mixed, port: int, **env: str) -> Router:
    """Our router, which knows daemons by announcement only."""
    router = mixed.router(MENTAT_ANNOUNCE_PORT=str(port), **env)
    router.command.event("announce_listen")
    return router


def announcing(mixed: Mixed, *ports: int, **env: str) -> Daemon:
    """A published daemon that announces itself five times a second to each of `ports` in turn."""
    targets = ",".join(f"127.0.0.1:{port}" for port in ports)
    told = {"MENTAT_ANNOUNCE_PORT": str(ports[0]), "MENTAT_ANNOUNCE_ADDR": targets}
    return mixed.mentatd(MENTAT_ANNOUNCE_INTERVAL_S="0.2", **(told | env))


@pytest.mark.parametrize("env", [UNSIGNED, KEY], ids=["unsigned", "signed"])
def test_an_announced_daemon_is_watched_and_its_engine_routes(
    mixed: Mixed, engine: Engine, env: dict[str, str]
) -> None:
    port = free_port()
    router = listening(mixed, port, **env)
    daemon = announcing(mixed, port, **env)
    mixed.agent(daemon, "glm", f"{engine.port}/v1")
    router.wait_models("tiny")
    assert list(router.status()["daemons"]) == [daemon.http]


@pytest.mark.parametrize(
    ("ours", "theirs", "event"),
    [
        (KEY, UNSIGNED, "announce_rejected"),
        (KEY, {"MENTAT_SECRET": "other"}, "announce_rejected"),
        (UNSIGNED, KEY, "announce_unverifiable"),
        (KEY, KEY | {"MENTAT_UNIVERSE": "elsewhere"}, None),
    ],
    ids=["unsigned", "wrong key", "no key here", "another universe"],
)
def test_a_refused_announcement_is_watched_never(
    mixed: Mixed, ours: dict[str, str], theirs: dict[str, str], event: str | None
) -> None:
    port = free_port()
    router = listening(mixed, port, **ours)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as witness:
        witness.bind(("127.0.0.1", 0))
        witness.settimeout(DEADLINE_S)
        announcing(mixed, port, witness.getsockname()[1], **theirs)
        if event:
            router.command.event(event)
        # each round is sent to the router first
        for _ in range(4):
            witness.recv(2048)
    said = [name for name in ("announce_rejected", "announce_unverifiable") if router.command.events(name)]
    assert said == ([event] if event else [])
    assert not router.command.events("daemon_watch")
