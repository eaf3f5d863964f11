"""The console of a real topology that is broken from the page: what it shows is what is so."""

from __future__ import annotations

import os
import re
import signal
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from harness.browser import chromium, opened
from harness.console import order, party, running
from holdfast.tail import read_stream
from holdfast.topology import Topology

pytestmark = pytest.mark.timeout(900)

STARTED = 300_000
SLOW = 60_000
"""Milliseconds; Spark corrects when it has the time."""
SOON = 10.0
"""Seconds until a fault is on the page, with two Sparks beside it. It takes less than two where the
machine has the time: see tests/console/test_page.py."""


def process_of(file: Path, party: str) -> int:
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"node" in words and str(file).encode() in words and party.encode() in words:
            return int(entry.name)
    raise AssertionError(f"{party} does not run")


def seconds_until(page: Page, name: str, look: str) -> float:
    start = time.monotonic()
    expect(party(page, name)).to_have_class(f"party {look}", timeout=SLOW)
    return time.monotonic() - start


def rows(page: Page) -> list[list[str]]:
    return page.locator("#values tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )


def stable_output(file: Path, key: str, until: int) -> dict[str, int]:
    """The total of each window of the key, by when it ends."""
    found = {}
    with read_stream(Topology.read(file), "sums", position="oldest", tentative=False) as reader:
        for told in reader:
            for row in told.rows.to_pylist() if told.rows is not None else []:
                if row["sensor"] == key:
                    end = row["window"]["end"].astimezone(UTC)
                    found[end.strftime("%H:%M:%S")] = row["total"]
            if told.boundary >= until:
                return found
    raise AssertionError("the stream has ended")


def test_a_topology_is_broken_and_holds_on_the_page(tmp_path: Path) -> None:
    with (
        running(tmp_path) as (file, url, token),
        chromium() as browser,
        opened(browser, url, token, timezone_id="UTC") as page,
    ):
        expect(page.locator("#verdict")).to_have_text("all stable", timeout=STARTED)
        page.locator("#windows summary").click()
        expect(page.locator("#values tbody tr")).not_to_have_count(0, timeout=STARTED)
        calm = time.time()

        # A process that says nothing more: neither end of its connections notices.
        pid = process_of(file, "sums/2")
        os.kill(pid, signal.SIGSTOP)
        assert seconds_until(page, "sums/2", "is-gone") < SOON
        os.kill(pid, signal.SIGCONT)
        expect(party(page, "sums/2")).to_have_class("party is-stable", timeout=SLOW)

        # A source that nobody reaches: answers go on without it, and are corrected.
        for name in ("sums/1", "sums/2"):
            order(page, name, f"Cut the link from {name} to south")
        expect(page.locator("#graph .link.is-down")).to_have_count(2, timeout=SLOW)
        expect(party(page, "sums/1")).to_have_class("party is-tentative", timeout=SLOW)
        # Three of them, a second each: so there was one a second ago too, when the bar stops.
        expect(page.locator("#values tbody tr").nth(2)).to_contain_text("tentative", timeout=SLOW)
        shaky = time.time()
        for name in ("sums/1", "sums/2"):
            order(page, name, f"Heal the link from {name} to south")
        expect(page.locator("#tape")).to_have_attribute(
            "aria-label", re.compile("undo.*corrected"), timeout=SLOW
        )
        expect(page.locator("#verdict")).to_have_text("all stable", timeout=SLOW)

        # A replica that is killed is started again; the other one goes on.
        order(page, "sums/1", "Kill sums/1")
        assert seconds_until(page, "sums/1", "is-gone") < SOON

        # What the chart says is final is what the stream says.
        until = int(time.time() * 1e6)
        expect(page.locator("#chart-now")).to_contain_text("final", timeout=SLOW)
        shown = {row[0]: row for row in rows(page) if row[2] == "final"}
        key = page.locator("#choose-key").input_value()
        assert page.locator("#choose-column").input_value() == "total"
        right = stable_output(file, key, until)
        assert len(shown) > 10
        assert {end: int(row[1].replace(",", "")) for end, row in shown.items()} == {
            end: right[end] for end in shown
        }
        assert any(row[3] for row in shown.values()), "nothing was corrected"

        # Back to when it was tentative, and before.
        go_to(page, shaky)
        expect(page.locator("#past")).to_be_visible(timeout=SLOW)
        expect(party(page, "sums/2")).to_have_class("party is-tentative", timeout=SLOW)
        expect(page.locator("#values tbody tr").first).to_contain_text("tentative", timeout=SLOW)
        go_to(page, calm)
        expect(party(page, "sums/2")).to_have_class("party is-stable", timeout=SLOW)
        expect(page.locator("#values")).not_to_contain_text("tentative", timeout=SLOW)
        page.locator("#live").click()
        expect(page.locator("#past")).to_be_hidden(timeout=SLOW)


def go_to(page: Page, moment: float) -> None:
    """Press the arrow keys of the time bar until it is there."""
    wanted = datetime.fromtimestamp(moment, UTC).strftime("%H:%M:%S")
    slider = page.locator("#when")
    slider.focus()
    for _ in range(600):
        slider.press("ArrowLeft")
        if page.locator("#when-says").inner_text()[:8] <= wanted:
            return
    raise AssertionError(f"the bar does not get to {wanted}")
