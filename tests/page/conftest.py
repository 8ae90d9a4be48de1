"""The page in a real browser: Debian's Chromium, driven by Playwright (`make test-page`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from tests.page.browser import launched
from tests.page.fake import FakeRouter, serving
from tests.page.scene import Scene


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("page")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Not of the session: while it is open, no async test can run in this process."""
    with sync_playwright() as playwright, launched(playwright) as browser:
        yield browser


@dataclass(slots=True)
class Opened:
    """An open page, and the router that it came from."""

    router: FakeRouter
    page: Page
    faults: list[str] = field(default_factory=list)
    """Errors on its console."""

    def tell(self, seconds: int = 1) -> None:
        """Let the scene's time pass."""
        for _ in range(seconds):
            self.router.tell()

    def row(self, model: str) -> dict[str, str]:
        """The figures in the row of one model, by column."""
        row = self.page.locator(
            "table.models tbody tr", has=self.page.get_by_role("link", name=model, exact=True)
        )
        cells = row.locator("td[data-label]").all()
        return {str(cell.get_attribute("data-label")): cell.inner_text().strip() for cell in cells}

    def js(self, module: str, function: str, *arguments: Any) -> Any:
        """What a function of one of the page's modules returns."""
        script = "async ([module, name, given]) => (await import('/page/' + module))[name](...given)"
        return self.page.evaluate(script, [module, function, list(arguments)])


Open = Callable[..., Opened]


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Opens the page of a scene. Fails the test for an error on the console, or a request that leaves the origin."""
    with ExitStack() as stack:
        opened: list[Opened] = []

        def open_page(
            scene: Scene, at: str = "/", *, init: str = "", streaming: bool = True, **options: Any
        ) -> Opened:
            router = stack.enter_context(serving(scene))
            router.streaming = streaming
            context = browser.new_context(**({"viewport": {"width": 1440, "height": 1000}} | options))
            stack.callback(context.close)
            if init:
                context.add_init_script(init)
            page = context.new_page()
            page.set_default_timeout(10_000)
            found = Opened(router, page)
            opened.append(found)
            page.on("pageerror", lambda error: found.faults.append(str(error)))
            page.on("console", lambda message: _note(found, message.type, message.text))
            page.on("request", lambda request: _check(found, request.url))
            page.goto(router.url + at)
            page.wait_for_selector("main > :not(noscript)")
            return found

        yield open_page
        faults = [fault for found in opened for fault in found.faults]
    assert not faults


def _note(found: Opened, kind: str, text: str) -> None:
    # a router that cannot be reached is told of by the browser itself
    if kind in ("error", "warning") and not text.startswith("Failed to load resource"):
        found.faults.append(text)


def _check(found: Opened, url: str) -> None:
    if not url.startswith(found.router.url + "/"):
        found.faults.append(f"left the origin: {url}")
