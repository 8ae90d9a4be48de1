"""What the page says: its modules without a document, by tables."""

from __future__ import annotations

from typing import Any

import pytest
from tests.page import scenes
from tests.page.conftest import Open, Opened


@pytest.fixture
def page(open_page: Open) -> Opened:
    return open_page(scenes.empty())


def row(model: str, why_not: str | None = None, **more: Any) -> dict[str, Any]:
    return {"model": model, "group": model, "healthy": why_not is None, "why_not": why_not} | more


FORMATS: list[tuple[str, Any, str]] = [
    ("count", None, "–"),
    ("count", 0, "0"),
    ("count", 999, "999"),
    ("count", 12_345, "12.3 k"),
    ("count", 999_600, "1.00 M"),
    ("count", 1_204_331, "1.20 M"),
    ("count", 5e15, "5000 T"),
    ("whole", 1234567, "1 234 567"),
    ("bytes", 0, "0 B"),
    ("bytes", 1234, "1.23 kB"),
    ("bytes", 134_217_728, "134 MB"),
    ("rate", 0, "0"),
    ("rate", 3.14159, "3.1"),
    ("rate", 226.4, "226"),
    ("rate", 12_345, "12.3 k"),
    ("percent", 0.342, "34 %"),
    ("percent", None, "–"),
    ("duration", 0, "0 ms"),
    ("duration", 0.0041, "4.1 ms"),
    ("duration", 0.0834, "83 ms"),
    ("duration", 0.9999, "1.00 s"),
    ("duration", 4.2, "4.20 s"),
    ("duration", 59.97, "59 s"),
    ("duration", 192, "3 min 12 s"),
    ("age", 0.44, "0.4 s"),
    ("age", 9.99, "9.9 s"),
    ("age", 59.9, "59 s"),
    ("age", 18_720, "5 h 12 min"),
    ("age", 273_840, "3 d 4 h"),
    ("age", -1, "0.0 s"),
    ("ago", 2.9, "2 s ago"),
    ("ago", 61, "1 min 1 s ago"),
    ("ago", None, "never"),
    ("host", "http://10.0.0.1:8000/v1", "10.0.0.1:8000/v1"),
    ("host", "https://engine/v1", "https://engine/v1"),
    ("host", None, "–"),
]

REASONS = [
    ("no announced OpenAI endpoint", "has announced no OpenAI endpoint"),
    (
        "announced 8000/v1, and no address of that node passes ALLOWED_SOURCES",
        "is announced only at addresses outside ALLOWED_SOURCES",
    ),
    ("no running actors", "waits for a running actor"),
    ("not probed yet", "is about to be probed"),
    ("endpoint probe failed: http://a: refused", "answers at none of its 2 addresses"),
    ("endpoint probe stale", "has not answered a probe lately"),
    ("a new gate", "cannot serve: a new gate"),
    ("", "cannot serve"),
]

HEALTH: list[tuple[list[dict[str, Any]], str, str]] = [
    ([], "none", "No model yet"),
    ([row("a")], "ok", "The one model is serving"),
    ([row("a"), row("a", group="b")], "ok", "The one model is serving"),
    ([row("a"), row("b")], "ok", "All 2 models serving"),
    ([row("a", "no running actors")], "bad", "The one model is not serving; a waits for a running actor"),
    (
        [row("a"), row("b", "endpoint probe stale")],
        "warn",
        "1 of 2 models serving; b has not answered a probe lately",
    ),
    (
        [row("a", "no running actors"), row("b", "no running actors"), row("c", "no running actors")],
        "bad",
        "None of 3 models serving; a waits for a running actor, and 2 more cannot serve",
    ),
]


def test_figures_are_written_as_people_read_them(page: Opened) -> None:
    found = [(name, value, page.js("format.js", name, value)) for name, value, _ in FORMATS]
    assert found == FORMATS


def test_a_reason_is_told_in_words(page: Opened) -> None:
    assert [(why, page.js("words.js", "predicate", why, 2)) for why, _ in REASONS] == REASONS


def test_the_clusters_health_is_one_sentence(page: Opened) -> None:
    for models, level, sentence in HEALTH:
        found = page.js("words.js", "health", models, {})
        said = " ".join(found[part] for part in ("text", "name", "rest") if part in found)
        assert (found["level"], said) == (level, sentence)


@pytest.mark.parametrize(
    ("request_", "age", "running", "state"),
    [
        ({"state": "waiting"}, 30, 0, "stuck"),
        ({"state": "waiting"}, 4.9, 0, "waiting"),
        ({"state": "waiting"}, 30, 1, "waiting"),
        ({"state": "waiting"}, 30, None, "waiting"),
        ({"state": "streaming"}, 30, 0, "streaming"),
    ],
)
def test_only_a_long_wait_on_an_engine_that_reports_nothing_is_stuck(
    page: Opened, request_: dict[str, str], age: float, running: int | None, state: str
) -> None:
    assert page.js("words.js", "doing", request_, age, {"running": running})["state"] == state


def test_each_address_has_its_own_verdict(page: Opened) -> None:
    group = {
        "healthy": True,
        "openai": "http://b",
        "openai_candidates": ["http://a", "http://b", "http://c"],
        "probe": {
            "attempts": [
                {"url": "http://a", "error": "timed out", "seconds": 3},
                {"url": "http://b", "error": None, "seconds": 0.01},
            ]
        },
    }
    found = page.js("words.js", "addresses", group)
    assert [(each["verdict"], each["level"], each["used"]) for each in found] == [
        ("timed out", "bad", False),
        ("in use, answers", "ok", True),
        ("not tried", "none", False),
    ]
    bare = page.js(
        "words.js", "addresses", {"healthy": False, "openai_candidates": ["http://a"], "probe": None}
    )
    assert [each["verdict"] for each in bare] == ["not tried"]


@pytest.mark.parametrize(
    "place",
    [
        {"model": None, "group": None, "find": ""},
        {"model": "a&b=c?#/%", "group": None, "find": ""},
        {"model": "m", "group": "g ü", "find": "x y"},
    ],
)
def test_an_address_that_was_written_reads_the_same(page: Opened, place: dict[str, Any]) -> None:
    href = page.js("address.js", "href", place)
    assert page.js("address.js", "read", href.partition("?")[2]) == place
