"""Which of the claimed addresses are watched."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.views import LOCAL, SOURCES, peer, view

from mentatd.cluster.sources import AllowedSources
from mentatd.cluster.watchset import Claim, Finding, Source, authority, choose, peer_claims

NEAR, FAR = "192.168.1.{}:6380", "10.0.0.{}:6380"


def claim(address: str, node: str = "", source: Source = "announcement", **more: Any) -> Claim:
    return Claim(
        address, node, source, **{"trusted": source == "seed", "near": address.startswith("192."), **more}
    )


def addresses(claims: list[Claim], findings: dict[str, Finding] | None = None, bound: int = 9) -> list[str]:
    return [chosen.address for chosen in choose(claims, findings or {}, bound=bound).claims]


@pytest.mark.parametrize(
    ("host", "text"),
    [("10.0.0.1", "10.0.0.1:6380"), ("fd00::1", "[fd00::1]:6380"), ("n1.lan", "n1.lan:6380")],
)
def test_an_address_is_written_as_a_url_takes_it(host: str, text: str) -> None:
    assert authority(host, 6380) == text


def test_a_peer_is_followed_on_its_address_on_an_own_subnet_and_shares_the_reporters_standing() -> None:
    peers = (
        peer("10.0.0.2", "10.0.0.2", "192.168.1.2"),
        peer("10.0.0.3", link_ip="fd00:1::3", http_port=7000),
        peer("10.0.0.4", http_port=0),
        peer("10.0.0.5", alive=False),
        peer("10.0.0.6"),
    )
    assert peer_claims(view(peers=peers), trusted=True, local=LOCAL, sources=SOURCES, limit=9) == (
        Claim("192.168.1.2:6380", "id-10.0.0.2", "peer", trusted=True, near=True),
        Claim("[fd00:1::3]:7000", "id-10.0.0.3", "peer", trusted=True, near=True),
        Claim("10.0.0.6:6380", "id-10.0.0.6", "peer", trusted=True, near=False),
    )


def test_a_peer_outside_the_allowed_sources_is_not_followed_and_a_list_has_a_limit() -> None:
    reported = view(peers=[peer(f"10.0.0.{i}") for i in range(2, 7)])
    none = AllowedSources(("192.168.",))
    assert peer_claims(reported, trusted=False, local=LOCAL, sources=none, limit=9) == ()
    assert len(peer_claims(reported, trusted=False, local=LOCAL, sources=SOURCES, limit=3)) == 3


def test_every_seed_is_watched_whatever_its_state_and_number() -> None:
    seeds = [claim(FAR.format(i), source="seed") for i in range(4)]
    findings = {
        FAR.format(0): Finding("n", "working"),
        FAR.format(1): Finding("n", "working"),
        FAR.format(2): Finding("", "failing"),
    }
    chosen = choose([*seeds, claim(NEAR.format(1))], findings, bound=3)
    assert [c.address for c in chosen.claims] == [FAR.format(i) for i in range(4)]
    assert chosen.left_out == 1


def test_reasons_for_one_address_are_joined() -> None:
    address = NEAR.format(1)
    chosen = choose(
        [
            claim(address, "n", "peer", trusted=True),
            claim(address, "m", "announcement"),
            claim(address, "", "announcement"),
        ],
        {},
        bound=9,
    )
    assert chosen.claims == (Claim(address, "m", "announcement", trusted=True, near=True),)
    seed = claim(address, source="seed")
    assert choose([claim(address, "n", "peer"), seed], {}, bound=9).claims == (
        Claim(address, "n", "seed", trusted=True, near=True),
    )


SEED = claim("seed:6380", source="seed")
A, B, C = claim("a:1", "n"), claim("b:1", "n", "peer"), claim("c:1", "other")
TRUSTED_B = claim("b:1", "n", "peer", trusted=True)


@pytest.mark.parametrize(
    ("claims", "findings", "watched"),
    [
        # one watch a node while it works, the better source first
        ([A, B, C], {}, ["a:1", "c:1"]),
        ([B, A, C], {}, ["a:1", "c:1"]),
        ([A, B], {"a:1": Finding("n", "working")}, ["a:1"]),
        ([A, B], {"b:1": Finding("n", "working")}, ["b:1"]),
        # what is watched and not yet tried is not given up for another untried one
        ([A, B], {"b:1": Finding("", "untried")}, ["b:1"]),
        # a dead address hides no live one, and is given up once another works
        ([A, B], {"a:1": Finding("n", "failing")}, ["a:1", "b:1"]),
        ([A, B], {"a:1": Finding("n", "failing"), "b:1": Finding("", "failing")}, ["a:1", "b:1"]),
        ([A, B], {"a:1": Finding("n", "failing"), "b:1": Finding("n", "working")}, ["b:1"]),
        # the seed's view tells which node it is
        ([SEED, A], {"seed:6380": Finding("n", "working")}, ["seed:6380"]),
        ([SEED, A], {"seed:6380": Finding("n", "failing")}, ["seed:6380", "a:1"]),
        ([SEED, A], {"seed:6380": Finding("", "untried")}, ["seed:6380", "a:1"]),
        # and a view, also one of the past, overrules what a claim says
        ([SEED, C], {"seed:6380": Finding("n", "working"), "c:1": Finding("n", "ended")}, ["seed:6380"]),
        ([A, B], {"a:1": Finding("other", "working"), "b:1": Finding("n", "working")}, ["a:1", "b:1"]),
        # a trusted address is not given up for an untrusted one, but the other way once it works
        ([A, TRUSTED_B], {"a:1": Finding("n", "working")}, ["a:1", "b:1"]),
        ([A, TRUSTED_B], {"a:1": Finding("n", "working"), "b:1": Finding("n", "working")}, ["b:1"]),
        ([A, TRUSTED_B], {}, ["b:1"]),
        # nobody said which node it is
        ([claim("a:1"), claim("b:1")], {}, ["a:1", "b:1"]),
    ],
)
def test_one_watch_a_node(claims: list[Claim], findings: dict[str, Finding], watched: list[str]) -> None:
    assert sorted(addresses(claims, findings)) == sorted(watched)


def test_where_places_are_short_what_works_is_trusted_or_watched_comes_first() -> None:
    claims = [claim(f"{name}:1", name) for name in ("new", "watched", "works")]
    claims.append(claim("trusted:1", "trusted", "peer", trusted=True))
    claims.append(claim("192.168.1.9:1", "near"))
    findings = {"watched:1": Finding("", "failing"), "works:1": Finding("works", "working")}
    order = ["works:1", "trusted:1", "watched:1", "192.168.1.9:1", "new:1"]
    assert addresses(claims, findings) == order
    assert addresses(claims, findings, bound=3) == order[:3]


places = st.sampled_from([f"10.0.0.{i}:6380" for i in range(6)])
nodes = st.sampled_from(["", "n1", "n2"])
states = st.sampled_from(["untried", "working", "failing", "ended"])
sources = st.sampled_from(["seed", "announcement", "peer"])


@given(
    st.dictionaries(places, nodes),
    st.lists(st.tuples(places, sources, st.booleans(), st.booleans())),
    st.dictionaries(places, states),
)
def test_no_node_is_lost_and_none_is_watched_twice_while_it_works(
    there: dict[str, str], reasons: list[tuple[str, Source, bool, bool]], known: dict[str, Any]
) -> None:
    claims = [
        Claim(place, there.get(place, ""), source, trusted, near) for place, source, trusted, near in reasons
    ]
    findings = {address: Finding(there.get(address, ""), state) for address, state in known.items()}
    chosen = choose(claims, findings, bound=99).claims
    watched = {claim.address for claim in chosen}
    assert len(watched) == len(chosen)
    for claim in claims:
        assert claim.address in watched or (
            claim.source != "seed"
            and any(c.node_id == claim.node_id and known.get(c.address) != "failing" for c in chosen)
        )
    working = [c.node_id for c in chosen if c.source != "seed" and known.get(c.address) == "working"]
    named = [node for node in working if node]
    assert len(named) == len(set(named))
