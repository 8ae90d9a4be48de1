"""The merge of what several daemons report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.views import LOCAL, SOURCES, V1, agent, group_view, merged, peer, seen, view

from mentatd.cluster import groups as module
from mentatd.cluster.groups import NOTHING, Merged, SeenView, merge
from mentatd.cluster.sources import AllowedSources, LocalNetworks
from mentatd.wire.service import PortService, UrlService
from mentatd.wire.snapshot import GroupView, View

MCP = PortService(9000, "/mcp")
NO_SOURCES = AllowedSources(())


def merge_all(
    views: Mapping[str, SeenView],
    before: Merged = NOTHING,
    local: LocalNetworks = LOCAL,
    sources: AllowedSources = SOURCES,
) -> Merged:
    return merge(views, before, now=0.0, stale_after=30.0, local=local, sources=sources)


def one(
    offered: GroupView, daemon: str = "10.0.0.1:6380", *, at: float = 0.0, trusted: bool = True
) -> SeenView:
    """A daemon that reports the one group `glm`."""
    return seen(view(groups={"glm": offered}), daemon, at=at, trusted=trusted)


def test_a_group_of_one_daemon() -> None:
    offered = group_view(
        agent("glm@c0@10.0.0.1", gpus=2, provider="vllm", note="narrow", mcp=MCP),
        agent("glm@c1@10.0.0.1", gpus=4, openai=None),
        agent("glm@c2@10.0.0.1", gpus=8, alive=False),
        running=2,
        others=["spawning", "dead"],
    )
    group = merged(one(offered, trusted=False))["glm"]
    assert (group.name, group.daemon, group.trusted) == ("glm", "10.0.0.1:6380", False)
    assert (group.agents, group.agents_alive, group.gpus) == (offered.agents, 2, 6)
    assert (group.actors_running, group.actors) == (2, 4)
    assert (group.openai, group.openai_agent) == (V1, "glm@c0@10.0.0.1")
    assert (group.openai_note, group.provider) == ("narrow", "vllm")
    assert group.candidates == ("http://10.0.0.1:8000/v1",)
    assert group.trusted_candidates == frozenset()
    assert (group.mcp, group.mcp_candidates) == (MCP, ("http://10.0.0.1:9000/mcp",))


def test_a_group_that_announces_nothing() -> None:
    group = merged(one(group_view()))["glm"]
    assert (group.openai, group.openai_agent, group.openai_note, group.provider) == (None, "", None, "")
    assert (group.candidates, group.mcp, group.mcp_candidates) == ((), None, ())


def test_ordered_by_name() -> None:
    views = (
        seen(view(groups={"b": group_view(), "d": group_view()})),
        seen(view(groups={"c": group_view(), "a": group_view()}), "10.0.0.2:6380"),
    )
    assert list(merged(*views)) == ["a", "b", "c", "d"]


def test_the_first_living_agent_that_announces_speaks_for_the_group() -> None:
    offered = group_view(
        agent("glm@a@10.0.0.1", alive=False, provider="dead"),
        agent("glm@b@10.0.0.2", openai=None, mcp=MCP, provider="silent"),
        agent("glm@c@10.0.0.3", openai=PortService(1, "/v1"), provider="first"),
        agent(
            "glm@d@10.0.0.4",
            openai=PortService(2, "/v1"),
            mcp=PortService(3, ""),
            provider="second",
            note="n",
        ),
    )
    group = merged(one(offered))["glm"]
    assert (group.openai_agent, group.provider, group.openai_note) == ("glm@c@10.0.0.3", "first", None)
    assert group.candidates == ("http://10.0.0.3:1/v1",)
    assert group.mcp_candidates == ("http://10.0.0.2:9000/mcp",)


@pytest.mark.parametrize(
    ("first", "second", "winner"),
    [
        (group_view(agent(), running=1), group_view(agent(), running=2), "10.0.0.2:6380"),
        (group_view(agent(), running=2), group_view(agent(), agent("z"), running=1), "10.0.0.1:6380"),
        (
            group_view(agent(), running=0, others=["dead"]),
            group_view(agent(), agent("z"), running=0),
            "10.0.0.2:6380",
        ),
        (group_view(agent(), agent("z", alive=False)), group_view(agent(), agent("z")), "10.0.0.2:6380"),
        (group_view(agent()), group_view(agent()), "10.0.0.1:6380"),
    ],
    ids=[
        "more running",
        "running before alive",
        "more alive",
        "only alive agents count",
        "the lower address",
    ],
)
def test_two_daemons_disagree(first: GroupView, second: GroupView, winner: str) -> None:
    views = (one(first), one(second, "10.0.0.2:6380"))
    assert merged(*views)["glm"].daemon == winner
    assert merged(*reversed(views))["glm"].daemon == winner


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        ("10.0.0.9:6380", "10.0.0.10:6380"),
        ("10.0.0.9:6380", "10.0.0.9:16380"),
        ("10.0.0.9:6380", "[::1]:6380"),
        ("[fd00::9]:6380", "[fd00::10]:6380"),
        ("[fd00::9]:6380", "alpha:6380"),
        ("alpha:6380", "beta:6380"),
        ("10.0.0.9:6380", "10.0.0.1"),
    ],
)
def test_addresses_are_compared_as_numbers_and_before_names(lower: str, higher: str) -> None:
    assert merged(one(group_view(), higher), one(group_view(), lower))["glm"].daemon == lower


def test_trust_is_the_winners() -> None:
    strong, weak = group_view(agent(), running=2), group_view(agent(), running=1)
    views = (one(weak, trusted=True), one(strong, "10.0.0.2:6380", trusted=False))
    group = merged(*views)["glm"]
    assert not group.trusted
    assert group.trusted_candidates == frozenset()


def test_the_trusted_candidates_are_those_that_no_stranger_added() -> None:
    group = one(group_view(agent()))
    stranger = seen(view("10.0.0.1", "10.0.0.1", "10.6.6.6"), "10.0.0.2:6380", trusted=False)
    both = merged(group, stranger)["glm"]
    assert both.trusted
    assert both.candidates == ("http://10.0.0.1:8000/v1", "http://10.6.6.6:8000/v1")
    assert both.trusted_candidates == frozenset(both.candidates[:1])
    friend = replace(stranger, trusted=True)
    assert merged(group, friend)["glm"].trusted_candidates == frozenset(both.candidates)


@pytest.mark.parametrize("trusted", [True, False])
def test_a_url_is_trusted_as_its_view_is(trusted: bool) -> None:
    url = UrlService("http://10.0.0.9:80/v1")
    views = one(group_view(agent(openai=url)), trusted=trusted), seen(view(), "10.0.0.2:6380", trusted=False)
    assert merged(*views)["glm"].trusted_candidates == (frozenset({url.url}) if trusted else frozenset())


@pytest.mark.parametrize(("now", "there"), [(30.0, True), (30.1, False)])
def test_a_stale_view_takes_no_part(now: float, there: bool) -> None:
    assert ("glm" in merged(one(group_view()), now=now)) is there


def test_a_stale_view_describes_no_node() -> None:
    old = seen(view("10.0.0.1", "10.0.0.1", "10.0.0.2"), "10.0.0.1:6380", at=0.0)
    new = one(group_view(agent()), "10.0.0.2:6380", at=20.0)
    new = seen(view("10.0.0.9", groups=new.view.groups), "10.0.0.9:6380", at=20.0)
    assert len(merged(old, new, now=20.0)["glm"].candidates) == 2
    assert len(merged(old, new, now=40.0)["glm"].candidates) == 1


def test_candidates_come_from_whoever_describes_the_node_best() -> None:
    offered = group_view(agent("glm@c0@10.0.0.2"))
    views = (
        seen(view("10.0.0.1", groups={"glm": offered}, peers=[peer("10.0.0.2", "10.0.0.2")])),
        seen(view("10.0.0.3", peers=[peer("10.0.0.2", "10.0.0.2", "fd00:1::2")]), "10.0.0.3:6380"),
    )
    assert merged(*views)["glm"].candidates == ("http://[fd00:1::2]:8000/v1", "http://10.0.0.2:8000/v1")


@pytest.mark.parametrize("node_ip", ["10.9.0.2", "192.168.1.2", "::ffff:10.0.0.2"])
def test_an_agent_is_joined_by_any_address_of_its_node(node_ip: str) -> None:
    offered = group_view(agent("glm@c0", node_ip=node_ip))
    known = peer("10.0.0.2", "10.0.0.2", "192.168.1.2", link_ip="10.9.0.2")
    group = merged(seen(view(groups={"glm": offered}, peers=[known])))["glm"]
    assert group.candidates == ("http://192.168.1.2:8000/v1", "http://10.0.0.2:8000/v1")


@pytest.mark.parametrize(
    ("node_ip", "candidates"),
    [("10.0.0.77", ("http://10.0.0.77:8000/v1",)), ("8.8.8.8", ()), ("node7", ()), ("", ())],
)
def test_an_agent_whose_node_nobody_describes(node_ip: str, candidates: tuple[str, ...]) -> None:
    assert merged(one(group_view(agent("glm@c0", node_ip=node_ip))))["glm"].candidates == candidates


def test_a_url_is_used_as_written_wherever_it_points() -> None:
    offered = group_view(
        agent(
            "glm@c0@10.0.0.1",
            openai=UrlService("https://far.example/v1/"),
            mcp=UrlService("http://8.8.8.8/mcp"),
        )
    )
    group = merged(one(offered), sources=AllowedSources(()))["glm"]
    assert group.candidates == ("https://far.example/v1/",)
    assert group.mcp_candidates == ("http://8.8.8.8/mcp",)


ADDRESSES = ("10.0.0.1", "10.0.0.2", "192.168.1.1", "192.168.1.2", "8.8.8.8", "fd00:1::1", "fd00:9::1")
addresses = st.sampled_from(ADDRESSES)
address_lists = st.lists(addresses, max_size=4).map(tuple)
services = st.sampled_from([None, V1, PortService(8001, "/v1"), UrlService("http://8.8.8.8/v1")])
agents = st.builds(
    lambda container, node_ip, alive, gpus, openai: agent(
        f"g@{container}", node_ip=node_ip, alive=alive, gpus=gpus, openai=openai
    ),
    st.sampled_from("abc"),
    addresses,
    st.booleans(),
    st.integers(0, 2),
    services,
)
group_views = st.builds(
    lambda rows, running: group_view(*rows, running=running),
    st.lists(agents, max_size=3, unique_by=lambda row: row.id),
    st.integers(0, 2),
)
peers = st.builds(lambda node_ip, addrs: peer(node_ip, *addrs), addresses, address_lists)
views = st.builds(
    lambda node_ip, addrs, groups, peers: view(node_ip, *addrs, groups=groups, peers=peers),
    addresses,
    address_lists,
    st.dictionaries(st.sampled_from("xyz"), group_views, max_size=3),
    st.lists(peers, max_size=3),
)
clusters = st.dictionaries(
    st.sampled_from(["10.0.0.1:6380", "10.0.0.2:6380", "[fd00::1]:6380", "node:6380"]), views, max_size=4
).map(lambda views: [seen(view, daemon) for daemon, view in views.items()])


updates = st.dictionaries(
    st.sampled_from(["10.0.0.1:6380", "10.0.0.2:6380", "[fd00::1]:6380", "node:6380"]),
    st.none() | st.tuples(views, st.booleans()),
    max_size=2,
)
"""What daemons say next; None: one is no longer watched."""


@given(st.lists(updates, min_size=2, max_size=6))
def test_merging_what_changed_comes_to_what_merging_everything_does(
    history: list[dict[str, tuple[View, bool] | None]],
) -> None:
    known: dict[str, SeenView] = {}
    merged = NOTHING
    for said in history:
        for daemon, news in said.items():
            known.pop(daemon, None)
            if news is not None:
                known[daemon] = seen(news[0], daemon, trusted=news[1])
        before, merged = merged, merge_all(known, merged)
        assert merged == merge_all(known)
        assert list(merged.groups) == sorted(merged.groups)
        for name, group in merged.groups.items():
            assert group is before.groups.get(name) or group != before.groups.get(name)


@given(clusters, st.sampled_from([LOCAL, LocalNetworks(frozenset())]), st.sampled_from([SOURCES, NO_SOURCES]))
def test_a_change_of_this_boxs_networks_is_merged_as_if_from_nothing(
    seen_views: list[SeenView], local: LocalNetworks, sources: AllowedSources
) -> None:
    known = {seen.daemon: seen for seen in seen_views}
    assert merge_all(known, merge_all(known), local, sources) == merge_all(known, NOTHING, local, sources)


def test_a_group_of_which_nothing_changed_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {f"10.0.0.{i}:6380": one(group_view(agent()), f"10.0.0.{i}:6380") for i in (1, 2)}
    first = merge_all(known)
    monkeypatch.delattr(module, "_group")
    # read again, and another that still does not win
    known["10.0.0.1:6380"] = replace(known["10.0.0.1:6380"], at=1.0)
    known["10.0.0.2:6380"] = one(group_view(agent(), running=0), "10.0.0.2:6380")
    assert merge_all(known, first).groups["glm"] is first.groups["glm"]


@given(clusters, st.randoms())
def test_the_order_of_daemons_is_nothing(seen_views: list[SeenView], random: Random) -> None:
    shuffled = random.sample(seen_views, len(seen_views))
    assert merged(*shuffled) == merged(*seen_views)


@given(clusters)
def test_every_derived_candidate_is_allowed_and_probed_once(seen_views: list[SeenView]) -> None:
    for group in merged(*seen_views).values():
        assert len(set(group.candidates)) == len(group.candidates)
        if isinstance(group.openai, PortService):
            hosts = [urlsplit(candidate).hostname or "" for candidate in group.candidates]
            assert all(SOURCES.allows(host, LOCAL) for host in hosts)


@given(clusters)
def test_no_group_is_lost_and_none_invented(seen_views: list[SeenView]) -> None:
    names = {name for seen_view in seen_views for name in seen_view.view.groups}
    assert set(merged(*seen_views)) == names
