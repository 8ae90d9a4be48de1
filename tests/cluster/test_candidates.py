"""The order of probing and when a better address is tried again."""

from __future__ import annotations

import pytest
from tests.support.views import agent, group

from mentatd.cluster.candidates import plan, promotion_due, questions_answer
from mentatd.cluster.groups import Group


@pytest.mark.parametrize(
    ("in_use", "promote", "order"),
    [
        (None, False, "abc"),
        ("a", False, "abc"),
        ("b", False, "bac"),
        ("c", False, "cab"),
        ("b", True, "abc"),
        ("gone", False, "abc"),
    ],
)
def test_the_one_in_use_first_and_then_from_the_top(in_use: str | None, promote: bool, order: str) -> None:
    assert plan(tuple("abc"), in_use, promote=promote) == tuple(order)


def test_nothing_to_try() -> None:
    assert plan((), None, promote=False) == ()
    assert plan((), "a", promote=False) == ()


@pytest.mark.parametrize(
    ("in_use", "now", "due"),
    [
        ("b", 129.9, False),
        ("b", 130.0, True),
        ("c", 200.0, True),
        ("a", 200.0, False),
        (None, 200.0, False),
        ("gone", 200.0, False),
    ],
)
def test_a_promotion_is_due_from_a_lower_place_only(in_use: str | None, now: float, due: bool) -> None:
    assert promotion_due(tuple("abc"), in_use, walked_at=100.0, now=now, promote_s=30.0) is due


def test_no_promotion_without_candidates() -> None:
    assert not promotion_due((), "a", walked_at=0.0, now=100.0, promote_s=30.0)


TWO_ACTORS = group("glm", agent(gpus=1), running=2)


@pytest.mark.parametrize(
    ("now", "admitted", "expected"),
    [
        (TWO_ACTORS, False, True),
        (TWO_ACTORS, True, False),
        (group("glm", agent(gpus=1), running=3), True, False),
        (group("glm", agent(gpus=1), running=2, others=["dead"]), True, False),
        (group("glm", agent(gpus=1), running=1), True, False),
        (group("glm", agent(gpus=1, alive=False), running=2), True, True),
        (group("glm", agent("glm@c9@10.0.0.1"), running=2), True, True),
        (group("glm", agent(gpus=1, note="narrow"), running=2), True, True),
        (group("glm", agent(gpus=1), agent("other"), running=2), True, True),
    ],
)
def test_a_change_that_is_worth_a_probe(now: Group, admitted: bool, expected: bool) -> None:
    assert questions_answer(TWO_ACTORS, now, admitted=admitted) is expected
