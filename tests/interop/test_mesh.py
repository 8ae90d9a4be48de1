"""Two published daemons in a mesh, and our router seeded at one of them."""

from __future__ import annotations

from tests.interop.mixed import Mixed
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
