"""Published daemons in a mesh, our router seeded at one of them, and our own daemon as a member."""

from __future__ import annotations

import json
import signal
import urllib.request
from typing import Any

from tests.interop.mixed import Mixed
from tests.support.cluster import Daemon
from tests.support.deadlines import DEADLINE_S, wait_until
from tests.support.engine import Engine


def test_a_peer_is_followed_and_its_engine_routes(mixed: Mixed, engine: Engine) -> None:
    seed = mixed.mentatd()
    peer = mixed.mentatd(seed, node_ip="127.0.0.2")
    router = mixed.router(seed, ALLOWED_SOURCES="127.", POLL_INTERVAL_S="3600")
    # on the address of the link between the two, which on one box is not the peer's own
    followed = f"127.0.0.1:{peer.http.rpartition(':')[2]}"
    status = router.wait(lambda status: status["daemons"].get(followed, {}).get("connected"))
    assert status["daemons"][followed]["source"] == "peer"
    mixed.agent(peer, "glm", f"http://127.0.0.1:{engine.port}/v1")
    router.wait_models("tiny")


def test_a_port_is_resolved_against_the_peers_addresses_in_its_own_order(mixed: Mixed) -> None:
    seed = mixed.mentatd()
    mixed.mentatd(seed, node_ip="127.0.0.2", MENTAT_ANNOUNCE_ADDRS="127.0.0.3,127.0.0.2")
    router = mixed.router(seed, ALLOWED_SOURCES="127.")
    mixed.agent(seed, "glm", "9/v1", MENTAT_NODE_IP="127.0.0.2")
    best_first = ["http://127.0.0.3:9/v1", "http://127.0.0.2:9/v1"]
    router.wait(lambda status: status["groups"].get("glm", {}).get("openai_candidates") == best_first)


def test_lite_joins_the_mesh_of_published_daemons_and_is_not_their_head(mixed: Mixed, engine: Engine) -> None:
    seed = mixed.mentatd()
    other = mixed.mentatd(seed, node_ip="127.0.0.2")
    lite = mixed.daemon(f"--peers {seed.control}", host="127.0.0.3")
    # it finds the other by what the seed publishes, and the router finds lite by the seed
    for daemon in (seed, other):
        wait_until(lambda daemon=daemon: len(living(daemon)) == 2)  # type: ignore[misc]
    assert set(living(lite)) == {status(seed)["node_id"], status(other)["node_id"]}
    assert status(seed)["head_node_id"] in {status(seed)["node_id"], status(other)["node_id"]}
    router = mixed.router(seed, ALLOWED_SOURCES="127.", POLL_INTERVAL_S="3600")
    router.wait(lambda status: status["daemons"].get(lite.http, {}).get("connected"))
    mixed.register(lite, "glm", f"http://127.0.0.1:{engine.port}/v1")
    router.wait_models("tiny")


def test_published_daemons_join_lite_and_notice_its_end(mixed: Mixed) -> None:
    lite = mixed.daemon(host="127.0.0.3")
    daemon = mixed.mentatd(lite)
    me, it = status(lite)["node_id"], status(daemon)["node_id"]
    wait_until(lambda: (living(lite), living(daemon)) == ([it], [me]))
    # an agent of one is told of at the other
    mixed.agent(daemon, "glm")
    wait_until(lambda: list(status(lite)["peers"][it]["groups"]) == ["glm"])
    lite.command.signal(signal.SIGKILL)
    wait_until(lambda: living(daemon) == [])


def status(daemon: Daemon) -> Any:
    with urllib.request.urlopen(f"http://{daemon.http}/status", timeout=DEADLINE_S) as answer:
        return json.load(answer)


def living(daemon: Daemon) -> list[str]:
    """The node ids of its living peers."""
    return [node_id for node_id, peer in status(daemon)["peers"].items() if peer["alive"]]
