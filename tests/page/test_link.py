"""How the page stays live: the stream, asking instead, a router that is gone, a tab that nobody sees."""

from __future__ import annotations

import re

from playwright.sync_api import expect
from tests.page import scenes
from tests.page.conftest import Open, Opened
from tests.support.deadlines import wait_until

HIDE = "(hidden) => { window.unseen = hidden; document.dispatchEvent(new Event('visibilitychange')); }"
HIDEABLE = "window.unseen = false; Object.defineProperty(document, 'hidden', { get: () => window.unseen });"


def updates(opened: Opened, word: str) -> None:
    expect(opened.page.locator("#top .facts")).to_contain_text(f"Updates{word}")


def test_one_stream_and_one_look_at_the_history_are_all_that_is_asked_for(open_page: Open) -> None:
    opened = open_page(scenes.healthy())
    updates(opened, "live")
    wait_until(lambda: "/history.json" in opened.router.asked)
    opened.tell(5)
    documents = [path for path in opened.router.asked if path.endswith(".json")]
    assert documents == ["/events.json", "/history.json"]


def test_where_the_stream_is_refused_the_page_asks(open_page: Open) -> None:
    scene = scenes.Scene([scenes.Model("tiny", running=0)])
    opened = open_page(scene, streaming=False)
    updates(opened, "polling")
    scene.begin(scene.models[0])
    expect(opened.page.locator("td[data-label=Proxied] .figure")).to_have_text("1")
    assert opened.router.asked.count("/stats.json") >= 2
    assert opened.router.asked.count("/status.json") == 1


def test_a_router_that_is_gone_is_told_of_and_found_again(open_page: Open) -> None:
    opened = open_page(scenes.healthy())
    page = opened.page
    updates(opened, "live")
    opened.router.vanish()
    expect(page.get_by_role("alert")).to_contain_text("The router does not answer: no connection.")
    expect(page.get_by_role("status")).to_have_text("The router cannot be reached")
    expect(page.locator("table.models tbody tr")).to_have_count(4)  # what it said last
    up = page.locator("#top .facts").inner_text()
    opened.router.return_()
    expect(page.get_by_role("alert")).to_have_count(0)
    updates(opened, "live")
    assert re.search(r"Up\s+3 d 4 h", up)


def test_a_refusal_is_told_in_the_routers_own_words(open_page: Open) -> None:
    opened = open_page(scenes.healthy(), streaming=False)
    updates(opened, "polling")
    opened.router.refusing = True
    expect(opened.page.get_by_role("alert")).to_contain_text("64 pages are open already")


def test_a_stream_that_falls_silent_is_given_up(open_page: Open) -> None:
    deaf = "window.EventSource = class { addEventListener() {} close() {} };"
    quick = "const later = setTimeout; window.setTimeout = (act, ms) => later(act, ms === 15000 ? 20 : ms);"
    opened = open_page(scenes.healthy(), init=deaf + quick)
    assert "/stats.json" in opened.router.asked
    updates(opened, "polling")


def test_a_hidden_page_asks_for_nothing(open_page: Open) -> None:
    opened = open_page(scenes.healthy(), init=HIDEABLE)
    updates(opened, "live")
    opened.page.evaluate(HIDE, True)
    wait_until(lambda: opened.router.streams == 0)
    opened.router.asked.clear()
    opened.tell(3)
    opened.page.evaluate(HIDE, False)
    updates(opened, "live")
    wait_until(lambda: opened.router.streams == 1 and "/history.json" in opened.router.asked)
    assert opened.router.asked == ["/events.json", "/history.json"]


def test_a_hidden_page_does_not_poll_either(open_page: Open) -> None:
    opened = open_page(scenes.healthy(), init=HIDEABLE, streaming=False)
    updates(opened, "polling")
    opened.page.evaluate(HIDE, True)
    opened.page.clock.install()
    opened.router.asked.clear()
    opened.page.clock.run_for(20_000)
    assert opened.router.asked == []


def test_the_page_lives_without_its_history(open_page: Open) -> None:
    scene = scenes.healthy()
    opened = open_page(
        scene, init="const ask = fetch; window.fetch = () => Promise.reject(new TypeError('no'));"
    )
    updates(opened, "live")
    scene.change("group_gone", "old-one")
    opened.tell()
    expect(opened.page.get_by_role("list", name="Timeline")).to_contain_text("old-one")


def test_what_comes_while_the_history_is_on_its_way_is_neither_lost_nor_doubled(open_page: Open) -> None:
    held = "new Promise((go) => { window.go = go; })"
    slow = f"const ask = fetch; window.fetch = (...given) => {held}.then(() => ask(...given));"
    scene = scenes.healthy()
    opened = open_page(scene, init=slow)
    updates(opened, "live")
    scene.change("group_gone", "old-one")
    opened.tell()
    expect(opened.page.get_by_text("old-one")).to_have_count(0)
    opened.page.evaluate("() => window.go()")
    expect(opened.page.get_by_text("old-one")).to_have_count(1)
    opened.tell()
    expect(opened.page.get_by_text("old-one")).to_have_count(1)
