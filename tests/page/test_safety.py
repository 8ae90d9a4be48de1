"""Names that mean harm, and what the page's policy holds against those that would get through."""

from __future__ import annotations

import pytest
from playwright.sync_api import Error, expect
from tests.page import scenes
from tests.page.conftest import Open, Opened


def unharmed(opened: Opened) -> None:
    page = opened.page
    assert page.locator("img").count() == 1  # the page's own mark
    assert "owned" not in page.title() or page.title().startswith("<img")
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_hostile_names_are_text_wherever_they_stand(open_page: Open) -> None:
    opened = open_page(scenes.hostile())
    for name in scenes.HOSTILE:
        expect(opened.page.locator("table.models").get_by_text(name, exact=True).first).to_be_attached()
    unharmed(opened)
    opened.tell(2)
    expect(opened.page.get_by_role("list", name="Timeline")).to_contain_text(scenes.HOSTILE[0])
    unharmed(opened)


@pytest.mark.parametrize("name", scenes.HOSTILE)
def test_a_hostile_name_can_be_opened_and_shared(open_page: Open, name: str) -> None:
    opened = open_page(scenes.hostile())
    row = opened.page.locator("table.models tbody tr", has=opened.page.locator("a", has_text=name))
    row.first.locator("a").click()
    expect(opened.page.get_by_role("heading", level=1)).to_have_text(name)
    opened.page.reload()
    expect(opened.page.get_by_role("heading", level=1)).to_have_text(name)
    expect(opened.page.get_by_role("heading", name="Try it")).to_be_visible()
    unharmed(opened)


def test_hostile_requests_and_failures_are_text_too(open_page: Open) -> None:
    opened = open_page(
        scenes.hostile(), "/?model=%3Cimg%20src%3Dx%20onerror%3D%22document.title%3D%60owned%60%22%3E"
    )
    expect(opened.page.get_by_role("region", name="In flight")).to_contain_text(scenes.HOSTILE[0])
    expect(opened.page.get_by_role("region", name="Finished lately")).to_contain_text(scenes.HOSTILE[0])
    unharmed(opened)


@pytest.mark.parametrize(
    "script",
    [
        "document.body.innerHTML = '<b>x</b>'",
        "document.body.insertAdjacentHTML('beforeend', '<b>x</b>')",
        "document.createElement('script').text = 'owned()'",
    ],
)
def test_no_string_becomes_markup_or_code(open_page: Open, script: str) -> None:
    opened = open_page(scenes.healthy())
    with pytest.raises(Error, match=r"Trusted|Content Security Policy"):
        opened.page.evaluate(f"() => {{ {script} }}")
    opened.faults.clear()  # the browser tells of the violation


def test_what_a_router_of_tomorrow_adds_does_no_harm(open_page: Open) -> None:
    scene = scenes.healthy()
    scene.change("group_renamed", "glm", "to glm-5")
    scene.end(scene.begin(scene.models[0]), 500, "moon_phase", "wrong moon")
    opened = open_page(scene)
    opened.router.push(("tomorrow", {"a": 1}))
    opened.tell()
    expect(opened.page.get_by_role("list", name="Timeline")).to_contain_text("glm group renamed")
    expect(opened.page.get_by_text("moon phase")).to_be_visible()
