"""Take the pictures of docs/console.md: of a real topology that was broken and has been corrected,
of real replicas one of which lies, of participants of a federation and of tenants' streams."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from playwright.sync_api import Browser, expect

from harness.browser import chromium, opened
from harness.console import order, party, running
from harness.lies import tell_lies
from harness.waiting import wait_for
from holdfast.console.collector import Collector
from holdfast.console.command import Wish
from holdfast.console.server import ConsoleServer
from holdfast.console.tenants import Tenancy
from holdfast.tenants.process.client import Client
from holdfast.transport.security import Security
from tests.federation.process.rig import Federation
from tests.pipeline.process.conftest import without_spark
from tests.pipeline.process.fake_query import STEP
from tests.pipeline.process.vote_rig import VoteRig
from tests.tenants.process.test_client import served
from tests.tenants.process.test_http import Site

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"
EXAMPLE = ROOT / "examples" / "wind-chill"
SLOW = 240_000
CALM = 40
"""Seconds before anything is broken, so that there is something to see."""


def draw_failure(browser: Browser, folder: Path) -> None:
    with running(folder) as (_, url, token), opened(browser, url, token) as page:
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


def draw_panels(browser: Browser, folder: Path) -> None:
    with ExitStack() as stack:
        rig = stack.enter_context(VoteRig(folder / "votes"))
        rig.open_all()
        wish = Wish(
            0,
            participants=stack.enter_context(_participants(folder)),
            tenancy=stack.enter_context(_tenants(folder / "tenants")),
        )
        panels = wish.panels(rig.topology)
        collector = stack.enter_context(Collector(rig.topology, panels=panels, watch=[]))
        server = stack.enter_context(ConsoleServer(collector, Security("token")))
        _vote(rig)
        page = stack.enter_context(opened(browser, server.url))
        expect(page.locator("#ballots td.dissented").first).to_be_visible(timeout=SLOW)
        expect(page.locator("#panel-tenants")).to_contain_text("celsius", timeout=SLOW)
        expect(page.locator("#panels .word.is-stable").nth(3)).to_be_visible(timeout=SLOW)
        # As tall as all of them, so that nothing stands before them.
        page.set_viewport_size({"width": 1440, "height": 2600})
        time.sleep(1)
        page.locator("#votes").screenshot(path=PICTURES / "console-votes.png")
        page.emulate_media(color_scheme="dark")
        time.sleep(1)
        page.locator("#panels").screenshot(path=PICTURES / "console-panels.png")


def _vote(rig: VoteRig) -> None:
    """clean/4 is away for a while; then clean/3 begins to lie."""
    start, brought = int(time.time() * 1e6), 0

    def bring(count: int) -> None:
        nonlocal brought
        rig.bring(brought, brought + count, since=start)
        brought += count
        end = start + (brought - 20) * STEP
        wait_for("votes", lambda: rig.found["boundary"] >= end, 60)

    bring(140)
    rig.close("clean/4")
    bring(40)
    rig.open("clean/4")
    bring(100)
    tell_lies(rig.replicas["clean/3"]._workplace.neighbours, "wrong-value")
    bring(40)


@contextmanager
def _participants(folder: Path) -> Iterator[list[Path]]:
    prices = {
        ("north", "south"): 'price = 6.0\nduration = "10m"',
        ("north", "west"): "price = 8.0",
        ("west", "north"): "price = 5.0\nlow = 4.0",
    }
    federation = Federation(folder, {"north": 6, "south": 0, "west": 2}, prices)
    with ExitStack() as stack:
        for name in ("north", "south", "west"):
            stack.enter_context(federation.start(name))
        wait_for("tasks to move", lambda: len(federation.tasks["south"].running) >= 3, 60)
        yield [federation.file("north")]


@contextmanager
def _tenants(folder: Path) -> Iterator[Tenancy]:
    site = Site(folder)
    files = []
    with served(site) as url:
        clients = {}
        for name in ("ann", "ben"):
            token = site.service.registry.add(name)
            files.append(folder / f"{name}.token")
            files[-1].write_text(token)
            clients[name] = Client(url, token)
        clients["ann"].put("roof", json.loads((EXAMPLE / "roof.json").read_text()))
        clients["ben"].put("chill", json.loads((EXAMPLE / "chill.json").read_text()))
        now = int(time.time() * 1e6)
        for second in range(5):
            at = now - (5 - second) * 1_000_000
            clients["ann"].publish("ann/roof/air", {"celsius": -3.5 - second}, timestamp=at)
            clients["ben"].publish("ben/chill/wind", {"kmh": 25.0}, timestamp=at)
        site.settle()
        yield Tenancy(url, files)


def main() -> None:
    with TemporaryDirectory() as folder, chromium() as browser:
        with pytest.MonkeyPatch.context() as patches, without_spark(patches):
            draw_panels(browser, Path(folder))
        draw_failure(browser, Path(folder))


main()
