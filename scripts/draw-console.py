"""Take the pictures of docs/console.md: a real topology that was broken and has been corrected."""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import expect

from harness.browser import chromium, opened
from harness.console import order, party, running

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
SLOW = 240_000
CALM = 40
"""Seconds before anything is broken, so that there is something to see."""

with (
    TemporaryDirectory() as folder,
    running(Path(folder)) as (_, url, token),
    chromium() as browser,
    opened(browser, url, token) as page,
):
    expect(page.locator("#verdict")).to_have_text("all stable", timeout=SLOW)
    time.sleep(CALM)
    for name in ("sums/1", "sums/2"):
        order(page, name, f"Cut the link from {name} to south")
    expect(party(page, "sums/1")).to_have_class("party is-tentative", timeout=SLOW)
    time.sleep(10)
    page.screenshot(path=PICTURES / "console-tentative.png")
    for name in ("sums/1", "sums/2"):
        order(page, name, f"Heal the link from {name} to south")
    expect(page.locator("#verdict")).to_have_text("all stable", timeout=SLOW)
    time.sleep(8)
    page.emulate_media(color_scheme="dark")
    time.sleep(1)
    page.screenshot(path=PICTURES / "console-corrected.png")
