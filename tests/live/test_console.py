"""The console of a real topology that is broken from the page: what it shows is what is so."""

from __future__ import annotations

import os
import re
import signal
import time
from datetime import UTC
from pathlib import Path
from urllib.request import urlopen

import pytest
from playwright.sync_api import Page, expect

from harness.browser import chromium, opened
from harness.console import go_back_to, order, party, running
from harness.waiting import wait_for
from holdfast.pipeline.process.tail import read_stream
from holdfast.pipeline.topology import Topology

pytestmark = pytest.mark.timeout(900)

STARTED = 300_000
SLOW = 120_000
"""Milliseconds; Spark corrects when it has the time."""
SOON = 2.0
"""Seconds until a fault is on the page."""
TRIES = 4
"""One of so many has to be on it as soon: tests and two Sparks may starve the page for a while."""


def process_of(file: Path, party: str) -> int:
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"node" in words and str(file).encode() in words and party.encode() in words:
            return int(entry.name)
    raise AssertionError(f"{party} does not run")


def rows(page: Page) -> list[list[str]]:
    """Of the chart's table, newest first."""
    found: list[list[str]] = page.locator("#values tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    return found


def hold(page: Page, look: str, kind: str, seconds: float) -> float:
    """Wait until sums/2 has looked so for a while, and the newest row has been of this kind. A
    moment in the midst of that."""
    since = time.time()

    def has_held() -> bool:
        nonlocal since
        is_so = party(page, "sums/2").get_attribute("class") == f"party {look}"
        if not is_so or [row[2] for row in rows(page)[:1]] != [kind]:
            since = time.time()
        return time.time() - since >= seconds

    wait_for(lambda: f"{kind} rows; they are {rows(page)[:3]}", has_held, STARTED / 1000)
    return since + seconds / 2


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


def is_soon_seen(page: Page, pid: int, name: str) -> bool:
    """Stop a process, which neither end of its connections notices, until the page does."""
    os.kill(pid, signal.SIGSTOP)
    start = time.monotonic()
    try:
        expect(party(page, name)).to_have_class("party is-gone", timeout=SLOW)
        return time.monotonic() - start < SOON
    finally:
        os.kill(pid, signal.SIGCONT)
        expect(party(page, name)).not_to_have_class("party is-gone", timeout=SLOW)


def test_a_topology_is_broken_and_holds_on_the_page(tmp_path: Path) -> None:
    with (
        running(tmp_path) as (file, url, token),
        chromium() as browser,
        opened(browser, url, token, timezone_id="UTC") as page,
    ):
        expect(party(page, "sums/2")).to_have_class("party is-stable", timeout=STARTED)
        page.locator("#choose-span").select_option("600")
        page.locator("#windows summary").click()
        calm = hold(page, "is-stable", "final", 3)

        # Spark's own page is one click away.
        link = page.locator("#spark tr", has_text="sums/1").get_by_role("link", name="open")
        expect(link).to_be_visible(timeout=STARTED)
        with urlopen(str(link.get_attribute("href")), timeout=60) as answer:
            assert b"Spark" in answer.read()

        pid = process_of(file, "sums/2")
        assert any(is_soon_seen(page, pid, "sums/2") for _ in range(TRIES))

        # A source that nobody reaches: answers go on without it, and are corrected.
        replicas = ("sums/1", "sums/2")
        for name in replicas:
            order(page, name, f"Cut the link from {name} to south")
        expect(page.locator("#graph .link.is-down")).to_have_count(2, timeout=SLOW)
        shaky = hold(page, "is-tentative", "tentative", 4)
        for name in replicas:
            order(page, name, f"Heal the link from {name} to south")
        expect(page.locator("#tape")).to_have_attribute(
            "aria-label", re.compile("undo.*corrected"), timeout=SLOW
        )
        corrected = re.compile(r"final\. 0 tentative, [1-9]\d* corrected")
        expect(page.locator("#chart-now")).to_contain_text(corrected, timeout=SLOW)

        # What the chart says is final is what the stream says.
        shown = {row[0]: int(row[1].replace(",", "")) for row in rows(page) if row[2] == "final"}
        assert len(shown) > 10
        assert page.locator("#choose-column").input_value() == "total"
        key = page.locator("#choose-key").input_value()
        right = stable_output(file, key, int(time.time() * 1e6))
        assert shown == {end: right[end] for end in shown}

        # Back to when it was tentative, and before.
        go_back_to(page, shaky)
        expect(party(page, "sums/2")).to_have_class("party is-tentative", timeout=SLOW)
        expect(page.locator("#values tbody tr").first).to_contain_text("tentative", timeout=SLOW)
        go_back_to(page, calm)
        expect(party(page, "sums/2")).to_have_class("party is-stable", timeout=SLOW)
        expect(page.locator("#values tbody tr").first).to_contain_text("final", timeout=SLOW)
        page.locator("#live").click()
        expect(page.locator("#past")).to_be_hidden(timeout=SLOW)

        order(page, "sums/1", "Kill sums/1")
        expect(party(page, "sums/1")).to_have_class("party is-gone", timeout=SLOW)
