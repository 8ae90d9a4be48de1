"""How Chromium is started: Debian's own, quiet, without anything that would reach for the network."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Playwright

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def launched(playwright: Playwright) -> Iterator[Browser]:
    """The browser while the block runs."""
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(_FLAGS))
    try:
        yield browser
    finally:
        browser.close()
