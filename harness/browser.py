"""A headless Chromium that pages are looked at with, and what must hold of every page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

__all__ = ["LAPTOP", "PHONE", "chromium", "opened"]

LAPTOP = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}


@contextmanager
def chromium(*flags: str) -> Iterator[Browser]:
    """Debian's; scripts/require-chromium.sh installs it."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    assert path is not None, "there is no chromium; run scripts/require-chromium.sh"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage", *flags]
        )
        try:
            yield browser
        finally:
            browser.close()


class _Faults:
    """Errors of the page, and requests that leave its server."""

    def __init__(self, page: Page, url: str) -> None:
        self.errors: list[str] = []
        self.outside: list[str] = []
        self._url = url
        page.on("console", lambda said: self._note(said.type, said.text))
        page.on("pageerror", lambda error: self._note("error", str(error)))
        page.on("request", lambda sent: self._look(sent.url))

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.errors.append(text)

    def _look(self, url: str) -> None:
        if not url.startswith((self._url, "data:")):
            self.outside.append(url)


@contextmanager
def opened(browser: Browser, url: str, token: str = "", **settings: Any) -> Iterator[Page]:
    """The page, in a context of its own; at the end it must have made no error and asked nobody
    else."""
    settings = {"viewport": LAPTOP, "color_scheme": "light"} | settings
    context = browser.new_context(**settings)
    try:
        page = context.new_page()
        faults = _Faults(page, url)
        page.goto(f"{url}#token={token}" if token else url)
        yield page
        assert faults.outside == [], faults.outside
        assert faults.errors == [], faults.errors
    finally:
        context.close()
