"""The hosts to try for an agent, and when they have to be found anew."""

from __future__ import annotations

import pytest
from tests.support.views import LOCAL, SOURCES, peer, view

from mentatd.cluster.hosts import NOBODY
from mentatd.cluster.sources import AllowedSources, LocalNetworks

TWO_LINKS = view("10.0.0.1", "10.0.0.1", "192.168.1.1", peers=[peer("10.0.0.2")])


@pytest.mark.parametrize(
    ("node_ip", "hosts"),
    [
        ("10.0.0.1", ("192.168.1.1", "10.0.0.1")),
        ("192.168.1.1", ("192.168.1.1", "10.0.0.1")),
        ("::ffff:10.0.0.2", ("10.0.0.2",)),
        ("10.0.0.77", ("10.0.0.77",)),
        ("8.8.8.8", ()),
        ("node7", ()),
        ("", ()),
    ],
)
def test_the_hosts_of_a_node(node_ip: str, hosts: tuple[str, ...]) -> None:
    found = NOBODY.now([TWO_LINKS], LOCAL, SOURCES)
    assert found.of(node_ip) == hosts
    assert found.of(node_ip) is found.of(node_ip)


def test_nobody_says_anything() -> None:
    assert NOBODY.of("10.0.0.1") == ()
    assert NOBODY.now([], LOCAL, SOURCES).of("10.0.0.1") == ("10.0.0.1",)


def test_views_that_say_the_same_of_nodes_change_nothing() -> None:
    found = NOBODY.now([TWO_LINKS, view("10.0.0.3")], LOCAL, SOURCES)
    assert found.now([TWO_LINKS, view("10.0.0.3", groups={})], LOCAL, SOURCES) is found
    # one that left, and was described by another, leaves hosts that are equal
    fewer = found.now([TWO_LINKS, view("10.0.0.3"), view("10.0.0.2")], LOCAL, SOURCES)
    assert fewer is not found
    assert fewer == found


@pytest.mark.parametrize(
    ("local", "sources"),
    [(LocalNetworks(frozenset()), SOURCES), (LOCAL, AllowedSources(("192.168.1.",)))],
)
def test_other_networks_or_other_allowed_sources_rank_anew(
    local: LocalNetworks, sources: AllowedSources
) -> None:
    found = NOBODY.now([TWO_LINKS], LOCAL, SOURCES)
    ranked = found.of("10.0.0.1")
    other = found.now([TWO_LINKS], local, sources)
    assert other != found
    assert other.of("10.0.0.1") != ranked
