"""The table, and where a request goes by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from tests.support.views import agent, failed_probe, group, group_view, merged, probe, seen, view

from mentatd.cluster import routes as module
from mentatd.cluster.admission import Probe
from mentatd.cluster.groups import Group
from mentatd.cluster.routes import (
    EMPTY,
    NotAdmitted,
    Route,
    RouteTable,
    Unknown,
    build,
    listing,
    lookup,
    verdict,
)
from mentatd.wire.openai import ModelEntry
from mentatd.wire.service import UrlService

FRESH_S = 18.0
A, B = group("a"), group("b")
TWO_LINKS = merged(
    seen(view("10.0.0.1", "10.0.0.1", "10.0.0.2", groups={"glm": group_view(agent(provider="vllm"))}))
)["glm"]


def table(*facts: tuple[Group, Probe | None], previous: RouteTable = EMPTY, now: float = 0.0) -> RouteTable:
    groups = {group.name: group for group, _ in facts}
    probes = {group.name: probe for group, probe in facts if probe is not None}
    return build(groups, probes, previous=previous, now=now, fresh_s=FRESH_S)


def find(
    table: RouteTable, model: str, *, now: float = 0.0, load: Mapping[str, int] | None = None
) -> str | NotAdmitted | Unknown:
    """The name of the group that a request goes to, or why it goes nowhere."""
    found = lookup(table, model, now=now, load=lambda group: (load or {}).get(group, 0))
    return found.group if isinstance(found, Route) else found


def test_an_admitted_group() -> None:
    answered = probe(TWO_LINKS, "m1", "m2", at=5.0, url="http://10.0.0.2:8000/v1")
    built = table((TWO_LINKS, answered), now=6.0)
    state = built.groups["glm"]
    assert (state.group, state.probe, state.why_not) == (TWO_LINKS, answered, None)
    assert state.names == ("m1", "m2")
    route = state.route
    assert route is not None
    assert [target.url for target in route.targets] == ["http://10.0.0.2:8000/v1", "http://10.0.0.1:8000/v1"]
    assert (route.group, route.fresh_until, route.provider) == ("glm", 23.0, "vllm")
    assert route.trusted == {target.url for target in route.targets}
    assert built.models == {"m1": (route,), "m2": (route,)}
    assert built.entries == {entry.id: entry for entry in answered.models}
    assert (built.at, built.held) == (6.0, {})


def test_what_is_no_candidate_any_more_is_not_sent_to() -> None:
    answered = probe(TWO_LINKS, "m", url=TWO_LINKS.candidates[1])
    route = table((group(), answered)).groups["glm"].route
    assert route is not None
    assert [target.url for target in route.targets] == [TWO_LINKS.candidates[0]]


def test_a_group_that_is_not_admitted_holds_its_own_name() -> None:
    built = table((A, None))
    state = built.groups["a"]
    assert (state.why_not, state.route, state.names) == ("not probed yet", None, ())
    assert (built.models, built.entries, built.held) == ({}, {}, {"a": ("a",)})


def test_names_that_a_group_served_stay_its_own() -> None:
    served = table((A, probe(A, "m")), (B, probe(B, "m")))
    failed = table(
        (A, failed_probe(A, "connection refused")),
        (B, failed_probe(B, "connection refused")),
        previous=served,
    )
    assert failed.held == {"m": ("a", "b"), "a": ("a",), "b": ("b",)}
    again = table((A, failed_probe(A, "reset")), previous=failed)
    assert again.held == {"m": ("a",), "a": ("a",)}
    assert table(previous=again).held == {}


def test_an_engine_that_answers_before_its_actors_run_holds_its_names() -> None:
    waiting = group("a", running=0)
    assert table((waiting, probe(waiting, "m"))).held == {"m": ("a",), "a": ("a",)}


def test_names_follow_the_newest_list() -> None:
    first = table((A, probe(A, "m1", "m2")))
    second = table((A, probe(A, "m2")), previous=first)
    assert set(second.models) == {"m2"}
    assert table((A, failed_probe(A, "x")), previous=second).held == {"m2": ("a",), "a": ("a",)}


def test_a_model_named_like_its_group_is_held_once() -> None:
    served = table((A, probe(A, "a")))
    assert table((A, failed_probe(A, "x")), previous=served).held == {"a": ("a",)}


def test_two_groups_list_one_model() -> None:
    built = table((A, probe(A, "m")), (B, probe(B, "x", "m")))
    assert [route.group for route in built.models["m"]] == ["a", "b"]
    assert built.groups["a"].probe is not None
    assert built.entries["m"] is built.groups["a"].probe.models[0]
    assert list(built.entries) == ["m", "x"]


def test_an_engine_that_lists_a_model_twice_serves_it_once() -> None:
    twice = replace(probe(A, "m"), models=(ModelEntry("m", b"1"), ModelEntry("m", b"2")))
    built = table((A, twice))
    assert len(built.models["m"]) == 1
    assert built.entries["m"].json == b"1"


def test_an_announced_url_that_is_no_base_url_is_not_admitted() -> None:
    odd = group("odd", agent(openai=UrlService("http://h/v1?key=1")))
    built = table((odd, probe(odd, "m")), (A, probe(A, "m")))
    reason = "endpoint probe failed: http://h/v1?key=1: no http:// or https:// base URL"
    assert built.groups["odd"].why_not == verdict(built.groups["odd"], now=100.0) == reason
    assert find(built, "m") == "a"
    assert find(built, "odd") == NotAdmitted({"odd": reason})


def test_what_did_not_change_is_used_again() -> None:
    answered = probe(A, "m")
    first = table((A, answered), (B, None))
    equal = replace(A, name="a")
    second = table((equal, answered), (B, probe(B, "m")), previous=first, now=1.0)
    assert second.groups["a"] is first.groups["a"]
    assert second.groups["b"] is not first.groups["b"]


def test_a_target_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = table((TWO_LINKS, probe(TWO_LINKS, "m")))
    before = first.groups["glm"].route
    monkeypatch.delattr(module, "parse_target")
    moved = probe(TWO_LINKS, "m", at=1.0, url=TWO_LINKS.candidates[1])
    route = table((TWO_LINKS, moved), previous=first, now=1.0).groups["glm"].route
    assert route is not None
    assert before is not None
    assert route.targets == tuple(reversed(before.targets))


@pytest.mark.parametrize("change", ["group", "probe", "verdict"])
def test_what_changed_is_built_anew(change: str) -> None:
    answered = probe(A, "m")
    first = table((A, answered))
    changed = replace(A, provider="vllm") if change == "group" else A
    later = replace(answered, at=1.0) if change == "probe" else answered
    now = 100.0 if change == "verdict" else 1.0
    state = table((changed, later), previous=first, now=now).groups["a"]
    assert state is not first.groups["a"]
    assert (state.group, state.probe) == (changed, later)
    assert state.why_not == ("endpoint probe stale" if change == "verdict" else None)


@pytest.mark.parametrize(("now", "reason"), [(18.0, None), (18.1, "endpoint probe stale")])
def test_a_verdict_at_a_later_time(now: float, reason: str | None) -> None:
    assert verdict(table((A, probe(A, "m"))).groups["a"], now=now) == reason


def test_a_verdict_that_time_does_not_change() -> None:
    assert verdict(table((A, None)).groups["a"], now=1000.0) == "not probed yet"


@pytest.mark.parametrize(
    ("load", "chosen"),
    [({}, "a"), ({"a": 1}, "b"), ({"a": 1, "b": 1}, "a"), ({"a": 1, "b": 2}, "a"), ({"a": 3, "b": 2}, "b")],
)
def test_fewest_requests_in_flight_and_ties_to_the_first_by_name(
    load: Mapping[str, int], chosen: str
) -> None:
    built = table((A, probe(A, "m")), (B, probe(B, "m")))
    assert find(built, "m", load=load) == chosen


def test_names_are_compared_exactly() -> None:
    built = table((A, probe(A, "m")))
    assert find(built, "m") == "a"
    assert all(isinstance(find(built, name), Unknown) for name in ("M", " m", "m ", "m\n", ""))


def test_a_route_that_went_stale_is_passed_over() -> None:
    built = table((A, probe(A, "m", at=0.0)), (B, probe(B, "m", at=10.0)))
    assert find(built, "m", now=20.0, load={"b": 9}) == "b"
    assert find(built, "m", now=30.0) == NotAdmitted(
        {"a": "endpoint probe stale", "b": "endpoint probe stale"}
    )


def test_the_only_route_went_stale() -> None:
    built = table((A, probe(A, "m")))
    assert find(built, "m", now=18.0) == "a"
    assert find(built, "m", now=18.1) == NotAdmitted({"a": "endpoint probe stale"})
    assert find(built, "a", now=18.1) == NotAdmitted({"a": "endpoint probe stale"})


def test_a_held_name_answers_with_every_reason() -> None:
    served = table((A, probe(A, "m")), (B, probe(B, "m")))
    built = table((A, failed_probe(A, "refused")), (B, None), previous=served)
    failed = "endpoint probe failed: http://10.0.0.1:8000/v1: refused"
    assert find(built, "m") == NotAdmitted({"a": failed, "b": "not probed yet"})
    assert find(built, "a") == NotAdmitted({"a": failed})


def test_a_name_that_another_group_serves_is_not_held() -> None:
    served = table((A, probe(A, "m")), (B, probe(B, "m")))
    built = table((A, None), (B, probe(B, "m")), previous=served)
    assert find(built, "m") == "b"
    assert find(built, "m", now=100.0) == NotAdmitted({"a": "not probed yet", "b": "endpoint probe stale"})


def test_an_unknown_name() -> None:
    built = table((A, probe(A, "z", "m")), (B, None), (group("c"), probe(group("c"), "old", at=-17.0)))
    assert find(built, "x") == Unknown(("m", "old", "z"), {"b": "not probed yet"})
    assert find(built, "x", now=10.0) == Unknown(
        ("m", "z"), {"b": "not probed yet", "c": "endpoint probe stale"}
    )
    assert find(EMPTY, "x") == Unknown((), {})


def test_the_name_of_an_admitted_group_is_no_model() -> None:
    assert find(table((A, probe(A, "m"))), "a") == Unknown(("m",), {})


def test_listing() -> None:
    built = table((A, probe(A, "m", "a1", at=0.0)), (B, probe(B, "b1", "m", at=10.0)))
    probe_a, probe_b = built.groups["a"].probe, built.groups["b"].probe
    assert probe_a is not None
    assert probe_b is not None
    assert listing(built, now=0.0) == (*probe_a.models, probe_b.models[0])
    assert listing(built, now=20.0) == (probe_b.models[1], probe_b.models[0])
    assert listing(built, now=30.0) == ()
