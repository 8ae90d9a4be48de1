"""`make screenshots`: the page in its states, as pictures in docs/images/, always of the same scenes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from tests.page import scenes
from tests.page.browser import launched
from tests.page.fake import serving
from tests.page.scene import Scene

IMAGES = Path(__file__).parents[2] / "docs" / "images"


@dataclass(frozen=True, slots=True)
class Shot:
    """One picture."""

    scene: Callable[[], Scene]
    at: str = "/"
    scheme: str = "light"
    width: int = 1440
    height: int = 900
    gone: bool = False
    """The router has gone away meanwhile."""


SHOTS = {
    "light": Shot(scenes.healthy),
    "dark": Shot(scenes.healthy, scheme="dark"),
    "failure": Shot(scenes.troubled, height=1180),
    "model": Shot(scenes.healthy, "/?model=deepseek-v4", scheme="dark", height=1100),
    "stuck": Shot(scenes.wedged, "/?model=tiny", height=1060),
    "phone": Shot(scenes.troubled, width=390, height=1300),
    "empty": Shot(scenes.empty, height=740),
    "unreachable": Shot(scenes.healthy, scheme="dark", height=620, gone=True),
}


def take(browser: Browser, name: str, shot: Shot) -> None:
    """Write `docs/images/NAME.png`."""
    context = browser.new_context(
        viewport={"width": shot.width, "height": shot.height},
        color_scheme="dark" if shot.scheme == "dark" else "light",
        timezone_id="UTC",
    )
    with serving(shot.scene()) as router, context:
        page = context.new_page()
        page.goto(router.url + shot.at)
        page.get_by_text("live", exact=True).wait_for()
        page.wait_for_load_state("networkidle")
        if shot.gone:
            router.vanish()
            page.get_by_role("alert").wait_for()
        page.screenshot(path=IMAGES / f"{name}.png", animations="disabled")


def main() -> None:
    """Take the shots that are named, or all."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, launched(playwright) as browser:
        for name in sys.argv[1:] or SHOTS:
            take(browser, name, SHOTS[name])


if __name__ == "__main__":
    main()
