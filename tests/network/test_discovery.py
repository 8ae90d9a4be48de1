"""Found by broadcasts, on every wire."""

from __future__ import annotations

import pytest
from tests.network.hosts import Host
from tests.network.site import Site

pytestmark = pytest.mark.usefixtures("permitted")


def test_nodes_are_found_by_their_broadcasts_and_their_fabric_is_preferred(
    site: Site, hosts: tuple[Host, ...]
) -> None:
    a, b, c = hosts
    site.node(b, "beta")
    site.node(c, "gamma")
    router = site.router_on(a)
    router.wait_models("beta", "gamma")
    status = router.status()
    assert {address: row["source"] for address, row in status["daemons"].items()} == {
        f"{b.fabric}:6380": "announcement",
        f"{c.fabric}:6380": "announcement",
    }
    for host in (b, c):
        group = status["groups"][host.name]
        assert group["openai_candidates"] == [f"http://{host.fabric}:8000/v1", f"http://{host.lan}:8000/v1"]
        assert group["openai"] == group["openai_candidates"][0]
