"""Hosts that are lost, networks that fall apart, routers that end: what is left goes on, and all of it comes back."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from typing import Any

import pytest
from tests.network.hosts import Host
from tests.network.site import HostRouter, Site
from tests.network.traffic import Traffic
from tests.support.cluster import JSON
from tests.support.deadlines import wait_until

from mentatd.http.unanswered import PATIENCE_S

CHAT = "/v1/chat/completions"
SOME = 20


def serving(router: HostRouter, *models: str) -> Any:
    """Wait until exactly these models route; the status document."""
    return router.wait(lambda status: sorted(status["models"]) == sorted(models))


def test_a_host_is_lost_and_found(site: Site, hosts: tuple[Host, ...]) -> None:
    a, b, c = hosts
    site.node(b, "beta")
    site.node(c, "gamma")
    router = site.router_on(a)
    serving(router, "beta", "gamma")
    with Traffic(lambda: router, "gamma") as traffic:
        b.lose()
        status = serving(router, "gamma")
        assert status["groups"]["b"]["why_not"].startswith("endpoint probe failed: ")
        assert router.post(CHAT, model="beta").status == 503
        # and is forgotten once its daemon has told nothing for three intervals
        router.wait(lambda status: list(status["groups"]) == ["c"])
        assert router.post(CHAT, model="beta").status == 404
        b.find()
        serving(router, "beta", "gamma")
        assert router.post(CHAT, model="beta").status == 200
    assert {request.outcome for request in traffic.requests} == {"200"}


@pytest.mark.timeout(3 * PATIENCE_S)
def test_a_request_on_its_way_to_a_host_that_is_lost(site: Site, hosts: tuple[Host, ...]) -> None:
    a, b, _ = hosts
    site.node(b, "beta")
    router = site.router_on(a)
    serving(router, "beta")
    assert router.post(CHAT, model="beta").status == 200
    # over the connection that is kept: the kernel never learns that the host is gone
    b.lose()
    body = json.dumps({"model": "beta"}).encode()
    answer = router.ask("POST", CHAT, body, JSON, within_s=2 * PATIENCE_S)
    assert answer.status == 502
    assert "gone without a word" in answer.json["error"]["message"]


def test_a_partition_is_healed(site: Site, hosts: tuple[Host, ...]) -> None:
    a, _, c = hosts
    models = ("alpha", "beta", "gamma")
    for host, model in zip(hosts, models, strict=True):
        site.node(host, model, peers=[peer for peer in hosts if peer is not host])
    here, there = site.router_on(a), site.router_on(c)
    for router in (here, there):
        serving(router, *models)
    a.lose()
    serving(here, "alpha")
    serving(there, "beta", "gamma")
    for router, model in ((here, "alpha"), (there, "beta"), (there, "gamma")):
        assert router.post(CHAT, model=model).status == 200
    a.find()
    for router in (here, there):
        serving(router, *models)
        for model in models:
            assert router.post(CHAT, model=model).status == 200
    wait_until(lambda: [living_peers(site, host) for host in hosts] == [2, 2, 2])


def living_peers(site: Site, host: Host) -> int:
    """How many peers its daemon has a mesh link with."""
    daemon = HostRouter(site.daemons[host.name], 6380, "127.0.0.1", host)
    return sum(
        peer["alive"] and not peer["stale"] for peer in daemon.ask("GET", "/status").json["peers"].values()
    )


def test_two_routers_agree_whatever_each_can_reach(site: Site, hosts: tuple[Host, ...]) -> None:
    """The second has no wire to the fabric, and was started first."""
    a, b, c = hosts
    c.ip("link del fabric")
    there = site.router_on(c, ALLOWED_SOURCES="192.168.1.,127.0.0.1")
    engine = site.node(b, "beta")
    here = site.router_on(a)
    assert urls([here], "beta") == [f"http://{b.fabric}:8000/v1"]
    assert urls([there], "beta") == [f"http://{b.lan}:8000/v1"]
    assert here.ask("GET", "/v1/models").json == there.ask("GET", "/v1/models").json
    engine.die()
    for router in (here, there):
        status = serving(router)
        assert status["groups"]["b"]["why_not"].startswith("endpoint probe failed: ")
        assert router.post(CHAT, model="beta").status == 503


def urls(routers: Sequence[HostRouter], model: str) -> list[str]:
    """Where each sends requests for it."""
    return [serving(router, model)["models"][model]["url"] for router in routers]


def test_a_router_is_restarted_under_traffic(site: Site, hosts: tuple[Host, ...]) -> None:
    a, b, _ = hosts
    site.node(b, "beta")
    router = site.router_on(a)
    serving(router, "beta")
    with Traffic(lambda: router, "beta") as traffic:
        wait_until(lambda: traffic.answered > SOME)
        router.command.signal(signal.SIGTERM)
        assert router.command.ended() == 0
        restarted = site.router_on(a)
        serving(restarted, "beta")
        served = traffic.answered
        wait_until(lambda: traffic.answered > served + SOME)
    # none was cut; the new router does not know the model before it has found its cluster
    assert {request.outcome for request in traffic.requests} <= {"200", "404", "503"}
    assert all(request.outcome == "200" for request in traffic.requests[:SOME])
