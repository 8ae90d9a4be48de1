"""Each gate, its words, and their order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.views import agent, failed_probe, group, group_view, merged, probe, seen, view

from mentatd.cluster.admission import why_not
from mentatd.cluster.groups import Group
from mentatd.wire.service import PortService, Service, UrlService
from mentatd.wire.snapshot import ActorState

NODE = view(
    "10.0.0.1", "10.0.0.1", "10.0.0.2", groups={"glm": group_view(agent(note="bound to 10.0.0.1 only"))}
)
TWO_LINKS = merged(seen(NODE))["glm"]


def judge(group: Group, *, answered: bool = True, now: float = 0.0) -> str | None:
    return why_not(group, probe(group, "glm") if answered else None, now=now, fresh_s=18.0)


def test_admitted() -> None:
    assert judge(group()) is None


def test_no_endpoint() -> None:
    silent = group("glm", agent(openai=None))
    assert why_not(silent, None, now=0.0, fresh_s=18.0) == "no announced OpenAI endpoint"


def test_an_agent_that_is_not_alive_announces_nothing() -> None:
    lost = group("glm", agent(alive=False))
    assert why_not(lost, None, now=0.0, fresh_s=18.0) == "no announced OpenAI endpoint"


@pytest.mark.parametrize(
    ("service", "what"),
    [
        (PortService(8000, "/v1"), "8000/v1"),
        (PortService(8000, ""), "8000"),
        (PortService(1, "/" + "x" * 600), f"1/{'x' * 499}"),
    ],
)
def test_no_allowed_address(service: PortService, what: str) -> None:
    far = group("glm", agent("glm@c0@8.8.8.8", openai=service))
    assert why_not(far, None, now=0.0, fresh_s=18.0) == (
        f"announced port {what} on node 8.8.8.8, and no address of that node passes ALLOWED_SOURCES"
    )


@pytest.mark.parametrize(
    ("gpus", "running", "others", "admitted"),
    [
        (1, 1, [], True),
        (1, 0, [], False),
        (1, 0, ["spawning", "dead", "other"], False),
        (0, 0, [], True),
        (0, 0, ["dead"], False),
        (0, 1, ["dead"], True),
    ],
)
def test_actors(gpus: int, running: int, others: list[ActorState], admitted: bool) -> None:
    placed = group("glm", agent(gpus=gpus), running=running, others=others)
    assert judge(placed) == (None if admitted else "no running actors")


def test_only_living_agents_offer_gpus() -> None:
    agents = (agent(gpus=0), agent("glm@c1@10.0.0.1", gpus=8, alive=False, openai=None))
    assert judge(group("glm", *agents, running=0)) is None


def test_unprobed() -> None:
    assert judge(group(), answered=False) == "not probed yet"


def test_failed_with_every_address_and_the_agents_finding() -> None:
    failed = failed_probe(TWO_LINKS, "connection refused", "timed out after 3 s")
    assert why_not(TWO_LINKS, failed, now=0.0, fresh_s=18.0) == (
        "endpoint probe failed: http://10.0.0.1:8000/v1: connection refused; "
        "http://10.0.0.2:8000/v1: timed out after 3 s (agent reports: bound to 10.0.0.1 only)"
    )


def test_failed_without_a_finding() -> None:
    plain = group()
    failed = failed_probe(plain, "HTTP 401")
    assert why_not(plain, failed, now=0.0, fresh_s=18.0) == (
        "endpoint probe failed: http://10.0.0.1:8000/v1: HTTP 401"
    )


def test_quoted_texts_are_cut() -> None:
    url = "http://h/" + "u" * 1000
    odd = group("glm", agent(openai=UrlService(url), note="n" * 1000))
    assert why_not(odd, failed_probe(odd, "e" * 1000), now=0.0, fresh_s=18.0) == (
        f"endpoint probe failed: {url[:500]}: {'e' * 200} (agent reports: {'n' * 500})"
    )


@pytest.mark.parametrize(("now", "reason"), [(18.0, None), (18.1, "endpoint probe stale")])
def test_stale(now: float, reason: str | None) -> None:
    assert judge(group(), now=now) == reason


def test_an_old_failure_reads_as_a_failure() -> None:
    plain = group()
    failed = failed_probe(plain, "connection refused")
    assert (why_not(plain, failed, now=1000.0, fresh_s=18.0) or "").startswith("endpoint probe failed")


def test_an_answer_holds_while_an_address_of_its_list_is_left() -> None:
    answered = probe(group(), "glm")
    assert why_not(TWO_LINKS, answered, now=0.0, fresh_s=18.0) is None
    over_the_link_that_goes = probe(TWO_LINKS, "glm", url=TWO_LINKS.candidates[1])
    assert why_not(group(), over_the_link_that_goes, now=0.0, fresh_s=18.0) is None
    elsewhere = group("glm", agent("glm@c0@10.0.0.9"))
    assert why_not(elsewhere, answered, now=0.0, fresh_s=18.0) == "not probed yet"


def test_a_failure_holds_for_the_very_candidates_that_failed() -> None:
    failed = failed_probe(group(), "connection refused")
    assert why_not(TWO_LINKS, failed, now=0.0, fresh_s=18.0) == "not probed yet"


SHUT: list[tuple[Service | None, str, int, str]] = [
    (None, "8.8.8.8", 0, "no announced OpenAI endpoint"),
    (
        PortService(8000, "/v1"),
        "8.8.8.8",
        0,
        "announced port 8000/v1 on node 8.8.8.8, and no address of that node passes ALLOWED_SOURCES",
    ),
    (PortService(8000, "/v1"), "10.0.0.1", 0, "no running actors"),
    (PortService(8000, "/v1"), "10.0.0.1", 1, "not probed yet"),
]


@pytest.mark.parametrize(("service", "node_ip", "running", "reason"), SHUT)
def test_the_first_gate_that_is_shut(
    service: Service | None, node_ip: str, running: int, reason: str
) -> None:
    shut = group("glm", agent(f"glm@c0@{node_ip}", openai=service), running=running)
    assert why_not(shut, None, now=0.0, fresh_s=18.0) == reason


def test_a_url_needs_no_allowed_address() -> None:
    assert (
        judge(group("glm", agent("glm@c0@8.8.8.8", openai=UrlService("https://engine.example/v1")))) is None
    )


def test_a_url_is_quoted_as_announced() -> None:
    far = replace(group("glm", agent(openai=UrlService("http://h/v1"))), candidates=())
    assert (why_not(far, None, now=0.0, fresh_s=18.0) or "").startswith("announced http://h/v1, and no ")
