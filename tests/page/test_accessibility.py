"""axe-core finds nothing, in every state of the page, light and dark."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from tests.page import scenes
from tests.page.conftest import Open
from tests.page.scene import Scene

STATES: list[tuple[str, Callable[[], Scene], str]] = [
    ("overview", scenes.troubled, "/"),
    ("detail", scenes.healthy, "/?model=deepseek-v4"),
    ("wedged", scenes.wedged, "/?model=tiny"),
    ("failing", scenes.troubled, "/?model=kimi"),
    ("empty", scenes.empty, "/"),
    ("filter", lambda: scenes.many(12), "/?find=model"),
    ("unknown", scenes.healthy, "/?model=gpt-4o"),
]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("state", "scene", "at"), STATES, ids=[name for name, _, _ in STATES])
def test_axe_finds_nothing(
    open_page: Open, scheme: str, state: str, scene: Callable[[], Scene], at: str
) -> None:
    # axe makes nodes of strings, which the page's policy forbids
    opened = open_page(scene(), at, color_scheme=scheme, bypass_csp=True)
    results = Axe().run(opened.page)
    assert results.violations_count == 0, results.generate_report()


def test_axe_finds_nothing_on_a_phone(open_page: Open) -> None:
    opened = open_page(scenes.troubled(), viewport={"width": 390, "height": 800}, bypass_csp=True)
    results = Axe().run(opened.page)
    assert results.violations_count == 0, results.generate_report()


def test_axe_finds_nothing_while_the_router_is_gone(open_page: Open) -> None:
    opened = open_page(scenes.healthy(), bypass_csp=True)
    opened.router.vanish()
    opened.page.get_by_role("alert").wait_for()
    results = Axe().run(opened.page)
    assert results.violations_count == 0, results.generate_report()
