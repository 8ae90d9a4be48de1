"""A page that is left open: what it keeps is bounded."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from tests.page import scenes
from tests.page.conftest import Open, Opened


def live(opened: Opened, seconds: int) -> None:
    """Let time pass, and the page see all of it."""
    scene = opened.router.scene
    for _ in range(seconds // 30):
        opened.tell(29)
        mark = f"mark at {scene.now:.0f}"
        scene.end(scene.begin(scene.models[0]), 502, "failed", mark)
        opened.tell()
        expect(opened.page.get_by_text(mark)).to_be_visible()


def size(opened: Opened) -> tuple[int, int]:
    """Elements in the document, and bytes of its heap: the least of some collections, because a buffer that the
    browser happens to hold (a megabyte, now and then) is not the page's."""
    session = opened.page.context.new_cdp_session(opened.page)
    readings = []
    for _ in range(5):
        session.send("HeapProfiler.collectGarbage")
        readings.append(int(session.send("Runtime.getHeapUsage")["usedSize"]))
    session.detach()
    return opened.page.evaluate("() => document.querySelectorAll('*').length"), min(readings)


@pytest.mark.parametrize("at", ["/", "/?model=tiny"])
def test_ten_minutes_of_load_do_not_make_the_page_grow(open_page: Open, at: str) -> None:
    scene = scenes.Scene(
        [scenes.Model("tiny", load=6), scenes.Model("other", load=9)], {"a:1": scenes.daemon("a")}
    )
    opened = open_page(scenes.lived(scene, 330), at)
    live(opened, 60)
    elements, heap = size(opened)
    live(opened, 600)
    elements_after, heap_after = size(opened)
    assert elements_after <= elements * 1.2
    assert heap_after <= heap + 1_000_000
