"""Which of a node's addresses is used, for what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.views import LOCAL, SOURCES, peer, view

from mentatd.cluster.addresses import (
    WatchAddress,
    announced_address,
    node_addresses,
    peer_address,
    rank_hosts,
)


@pytest.mark.parametrize(
    ("addrs", "source", "chosen"),
    [
        (["10.0.0.1", "192.168.1.11"], "10.0.0.1", WatchAddress("192.168.1.11", True, ("10.0.0.1",))),
        (
            ["192.168.1.12", "192.168.1.11"],
            "10.0.0.1",
            WatchAddress("192.168.1.12", True, ("192.168.1.11", "10.0.0.1")),
        ),
        (["10.0.0.1", "10.0.0.2"], "10.0.0.9", WatchAddress("10.0.0.9", advertised=False)),
        ([], "10.0.0.9", WatchAddress("10.0.0.9", advertised=False)),
        ([], "::ffff:10.0.0.9", WatchAddress("10.0.0.9", advertised=False)),
        ([], "fe80::1%eth0", WatchAddress("fe80::1", advertised=False)),
        (["FD00:1::5"], "10.0.0.9", WatchAddress("fd00:1::5", True, ("10.0.0.9",))),
        (["node1", "", "192.168.1.11"], "10.0.0.9", WatchAddress("192.168.1.11", True, ("10.0.0.9",))),
        (["127.0.0.2"], "10.0.0.9", WatchAddress("127.0.0.2", True, ("10.0.0.9",))),
        (["fd00:1::5", "172.17.0.1"], "10.0.0.9", WatchAddress("fd00:1::5", True, ("10.0.0.9",))),
        (["192.168.1.11"], "192.168.1.11", WatchAddress("192.168.1.11", True)),
        (["192.168.1.1", "192.168.1.2"], "192.168.1.2", WatchAddress("192.168.1.1", True, ("192.168.1.2",))),
    ],
)
def test_where_to_watch_an_announcing_daemon(addrs: list[str], source: str, chosen: WatchAddress) -> None:
    assert announced_address(addrs, source, local=LOCAL, sources=SOURCES) == chosen


def test_the_other_addresses_of_an_announcing_daemon_are_few() -> None:
    addrs = [f"192.168.1.{number}" for number in range(1, 99)]
    chosen = announced_address(addrs, "10.0.0.9", local=LOCAL, sources=SOURCES)
    assert chosen == WatchAddress(addrs[0], True, tuple(addrs[1:4]))


def test_an_own_address_that_is_not_allowed_is_not_watched() -> None:
    assert announced_address(["192.168.1.11"], "10.0.0.9", local=LOCAL, sources=SOURCES).advertised
    narrow = type(SOURCES)(("10.",))
    chosen = announced_address(["192.168.1.11"], "10.0.0.9", local=LOCAL, sources=narrow)
    assert chosen == WatchAddress("10.0.0.9", advertised=False)


@pytest.mark.parametrize(
    ("node_ip", "link_ip", "addrs", "chosen"),
    [
        ("10.0.0.2", "10.9.0.2", ("10.8.0.2", "192.168.1.2"), "192.168.1.2"),
        ("192.168.1.2", "10.9.0.2", ("10.8.0.2",), "192.168.1.2"),
        ("192.168.1.2", "192.168.1.3", ("192.168.1.4",), "192.168.1.3"),
        ("10.0.0.2", "10.9.0.2", ("10.8.0.2",), "10.9.0.2"),
        ("10.0.0.2", "", ("10.8.0.2",), "10.8.0.2"),
        ("10.0.0.2", "", (), "10.0.0.2"),
        ("10.0.0.2", "10.9.0.2", ("127.0.0.1",), "127.0.0.1"),
        ("10.0.0.2", "8.8.8.8", (), "10.0.0.2"),
        ("node2", "", ("FD00:2::2",), "fd00:2::2"),
        ("8.8.8.8", "9.9.9.9", ("1.1.1.1",), None),
        ("", "", (), None),
    ],
)
def test_where_to_follow_a_peer(
    node_ip: str, link_ip: str, addrs: tuple[str, ...], chosen: str | None
) -> None:
    assert peer_address(peer(node_ip, *addrs, link_ip=link_ip), local=LOCAL, sources=SOURCES) == chosen


@pytest.mark.parametrize(
    ("addrs", "ranked"),
    [
        (("10.0.0.1", "192.168.1.1"), ("192.168.1.1", "10.0.0.1")),
        (
            ("10.0.0.2", "192.168.1.2", "10.0.0.1", "192.168.1.1"),
            ("192.168.1.2", "192.168.1.1", "10.0.0.2", "10.0.0.1"),
        ),
        (("10.0.0.1", "10.0.0.1", "::ffff:10.0.0.1"), ("10.0.0.1",)),
        (("8.8.8.8", "10.0.0.1"), ("10.0.0.1",)),
        (("FD00:2::1", "fd00:1::1"), ("fd00:1::1", "fd00:2::1")),
        (("8.8.8.8", "node1"), ()),
        ((), ()),
    ],
)
def test_own_subnets_first_and_the_nodes_order_inside(
    addrs: tuple[str, ...], ranked: tuple[str, ...]
) -> None:
    assert rank_hosts(addrs, local=LOCAL, sources=SOURCES) == ranked


HOSTS = st.lists(
    st.sampled_from(
        ["10.0.0.1", "10.0.0.2", "192.168.1.1", "192.168.1.2", "8.8.8.8", "fd00:1::1", "fd00:2::1", "x"]
    )
)


@given(HOSTS)
def test_ranking_keeps_what_is_allowed_once(addrs: list[str]) -> None:
    ranked = rank_hosts(addrs, local=LOCAL, sources=SOURCES)
    assert sorted(ranked) == sorted({host for host in addrs if SOURCES.allows(host, LOCAL)})
    own = [host in LOCAL for host in ranked]
    assert own == sorted(own, reverse=True)
    for half in (True, False):
        kept = [host for host in ranked if (host in LOCAL) is half]
        assert kept == sorted(kept, key=addrs.index)


def test_a_node_is_known_by_each_of_its_addresses() -> None:
    nodes = node_addresses(
        [
            view(
                "10.0.0.1",
                "10.0.0.1",
                "192.168.1.1",
                peers=[peer("10.0.0.2", "192.168.1.2", link_ip="10.9.0.2")],
            )
        ]
    )
    assert nodes == {
        "10.0.0.1": ("10.0.0.1", "192.168.1.1"),
        "192.168.1.1": ("10.0.0.1", "192.168.1.1"),
        "10.0.0.2": ("192.168.1.2",),
        "10.9.0.2": ("192.168.1.2",),
        "192.168.1.2": ("192.168.1.2",),
    }


def test_without_addrs_a_node_answers_on_its_node_ip() -> None:
    nodes = node_addresses([view("10.0.0.1", peers=[peer("10.0.0.2", link_ip="10.9.0.2")])])
    assert nodes == {"10.0.0.1": ("10.0.0.1",), "10.0.0.2": ("10.0.0.2",), "10.9.0.2": ("10.0.0.2",)}


def test_a_node_without_any_address_answers_nowhere() -> None:
    assert node_addresses([view("", peers=[peer("node2", "node2.lan", link_ip="10.9.0.2")])]) == {
        "10.9.0.2": ()
    }


@pytest.mark.parametrize(
    ("own", "by_peer", "answers"),
    [
        (("10.0.0.1", "192.168.1.1"), ("10.0.0.1",), ("10.0.0.1", "192.168.1.1")),
        (("10.0.0.1",), ("10.0.0.1", "192.168.1.1"), ("10.0.0.1", "192.168.1.1")),
        (("192.168.1.1", "10.0.0.1"), ("10.0.0.1", "192.168.1.1"), ("192.168.1.1", "10.0.0.1")),
        (("10.0.0.1", "10.0.0.1"), ("192.168.1.1", "10.0.0.1"), ("192.168.1.1", "10.0.0.1")),
    ],
    ids=[
        "the node's own is longer",
        "a peer's is longer",
        "equally long: its own",
        "one address twice counts once",
    ],
)
def test_where_descriptions_differ(
    own: tuple[str, ...], by_peer: tuple[str, ...], answers: tuple[str, ...]
) -> None:
    views = [view("10.0.0.1", *own), view("10.0.0.2", peers=[peer("10.0.0.1", *by_peer)])]
    assert node_addresses(views)["10.0.0.1"] == answers
    assert node_addresses(reversed(views))["10.0.0.1"] == answers


def test_between_two_peers_descriptions_the_lower_wins() -> None:
    views = [
        view("10.0.0.2", peers=[peer("10.0.0.1", host, "10.0.0.1")]) for host in ("10.0.0.8", "10.0.0.7")
    ]
    assert node_addresses(views)["10.0.0.1"] == ("10.0.0.7", "10.0.0.1")
    assert node_addresses(reversed(views))["10.0.0.1"] == ("10.0.0.7", "10.0.0.1")
