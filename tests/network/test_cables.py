"""A cable of the fabric is cut and mended: the next address serves meanwhile, no request is lost or sent twice."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from tests.network.hosts import Cut, Host
from tests.network.site import HostRouter, Site
from tests.network.traffic import Traffic
from tests.support.deadlines import wait_until
from tests.support.engine import Engine

CHAT = "/v1/chat/completions"
SOME = 20


def sent(engine: Engine) -> Counter[int]:
    """How often each request of a traffic came to the engine."""
    return Counter(json.loads(post.body)["request"] for post in engine.posts(CHAT))


@pytest.mark.parametrize("how", ["down", "unplugged", "silent"])
def test_cut_and_mended_under_traffic(site: Site, hosts: tuple[Host, ...], how: Cut) -> None:
    a, b, _ = hosts
    engine = site.node(b, "beta")
    router = site.router_on(a)
    fabric, lan = f"http://{b.fabric}:8000/v1", f"http://{b.lan}:8000/v1"
    router.wait(lambda status: status["models"].get("beta", {}).get("url") == fabric)
    with Traffic(lambda: router, "beta") as traffic:
        wait_until(lambda: traffic.answered > SOME)
        b.cut("fabric", how)
        status = router.wait(lambda status: status["models"].get("beta", {}).get("url") == lan)
        assert status["groups"]["b"]["openai_candidates"][-1] == lan
        served = traffic.answered
        wait_until(lambda: traffic.answered > served + SOME)
        b.mend("fabric")
        router.wait(lambda status: status["models"].get("beta", {}).get("url") == fabric)
        served = traffic.answered
        wait_until(lambda: traffic.answered > served + SOME)
    assert {request.outcome for request in traffic.requests} == {"200"}
    assert sent(engine) == Counter(range(len(traffic.requests)))


def urls(router: HostRouter) -> set[str]:
    """Where requests for each model go."""
    return {row["url"] for row in router.status()["models"].values()}


def test_the_cable_of_the_routers_own_host(site: Site, hosts: tuple[Host, ...]) -> None:
    a, b, c = hosts
    site.node(b, "beta")
    site.node(c, "gamma")
    router = site.router_on(a)
    fabric, lan = (
        {f"http://{address}:8000/v1" for address in pair} for pair in ((b.fabric, c.fabric), (b.lan, c.lan))
    )
    wait_until(lambda: urls(router) == fabric)
    a.cut("fabric", "down")
    wait_until(lambda: urls(router) == lan)
    a.mend("fabric")
    wait_until(lambda: urls(router) == fabric)


def test_a_node_stays_known_while_its_cable_is_cut(site: Site, hosts: tuple[Host, ...]) -> None:
    a, b, _ = hosts
    site.node(b, "beta")
    router = site.router_on(a)
    router.wait_models("beta")
    b.cut("fabric", "silent")
    # its daemon is watched on the address that is left
    router.wait(lambda status: status["daemons"].get(f"{b.lan}:6380", {}).get("connected"))
    router.wait_models("beta")
    assert router.post(CHAT, model="beta").status == 200
