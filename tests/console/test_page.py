"""The page in a browser, with a fleet of parties that say what a test wants."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from harness.browser import PHONE, chromium, opened
from harness.console import go_back_to
from holdfast.console.collector import Collector
from holdfast.console.panels import Mark, Panel, Table
from holdfast.console.server import ConsoleServer
from holdfast.pipeline.machine.tuples import Kind
from holdfast.pipeline.process.reader import Told
from holdfast.transport.security import Security
from tests.console.fake_fleet import (
    NOW,
    SECOND,
    FakeFleet,
    fleet_topology,
    wait_for_pieces,
    windows,
)
from tests.transport.parties import wait_for

TOKEN = "a-token-for-tests"
SOON = 2.0
"""Seconds within which the page shows what has happened; one of three times, for it is starved now
and then while other tests run."""
BUSY = 10_000
CHANGES = [
    ("UP_FAILURE", "is-tentative", False),
    ("STABLE", "is-stable", True),
    ("UP_FAILURE", "is-tentative", False),
]
"""State, how it looks, and whether a replica before it is reached."""

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


class Orders:
    """A breaker that does nothing but say that it was told to."""

    def __init__(self) -> None:
        self.given: list[tuple[str, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *names: self.given.append((name, *names))


class Shown:
    """A fleet, its console and the browser."""

    def __init__(self, fleet: FakeFleet, collector: Collector, server: ConsoleServer) -> None:
        self.fleet = fleet
        self.collector = collector
        self.url = server.url
        self.orders = Orders()

    def tell(self, *told: Told) -> None:
        before = self.collector.tails.of("sums").number
        self.fleet.streams.tell("sums", *told)
        wait_for_pieces(self.collector.tails.of("sums"), before + len(told))


@contextmanager
def console(folder: Path, breaker: Any = None, panels: tuple[Panel, ...] = ()) -> Iterator[Shown]:
    with (
        FakeFleet(fleet_topology(folder)) as fleet,
        Collector(fleet.topology, open_=fleet.streams.open, panels=panels) as collector,
        ConsoleServer(collector, Security(TOKEN), breaker=breaker) as server,
    ):
        wait_for(lambda: fleet.streams.queues["sums"])
        yield Shown(fleet, collector, server)


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Shown]:
    with console(tmp_path) as shown:
        yield shown


def party(page: Page, name: str) -> Any:
    return page.locator(f'#graph [data-party="{name}"]')


def is_well(page: Page) -> None:
    expect(page.locator("#verdict")).to_have_text("all stable", timeout=BUSY)


def nothing_sticks_out(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def wait_for_values(page: Page, *wanted: list[str]) -> None:
    """Until the chart, as its table has it, is this: of each window, newest first, the value, how
    sure it is, and what it was before it was corrected."""
    cells = page.locator("#values tbody tr td:not(:first-child)")
    expect(cells).to_have_text([cell for row in wanted for cell in row], timeout=BUSY)


def test_states_change_before_ones_eyes(browser: Browser, shown: Shown) -> None:
    with opened(browser, shown.url) as page:
        is_well(page)
        expect(party(page, "sums/1")).to_have_attribute(
            "aria-label", "sums/1: stable, 1.2 s behind"
        )
        took = []
        for state, look, reaches in CHANGES:
            start = time.monotonic()
            shown.fleet.say("sums/1", state=state, links={"clean/1": reaches, "clean/2": True})
            expect(party(page, "sums/1")).to_have_class(f"party {look}", timeout=BUSY)
            took.append(time.monotonic() - start)
        assert min(took) < SOON
        expect(page.locator("#verdict")).to_have_text("1 tentative")
        assert page.locator("#graph .link.is-some").count() == 1
        shown.fleet.stop("clean/1")
        expect(party(page, "clean/1")).to_have_class("party is-gone", timeout=BUSY)
        expect(page.locator("#verdict")).to_have_text("1 no answer, 1 tentative")
        row = page.locator("#parties tr", has_text="sums/1")
        expect(row).to_contain_text("not clean/1")


def test_a_correction_is_seen_on_tape_and_chart(browser: Browser, shown: Shown) -> None:
    now = math.floor(time.time())
    with opened(browser, shown.url) as page:
        page.locator("#windows summary").click()
        shown.tell(windows([now - 8], {"north": 10, "south": 1}))
        expect(page.locator("#choose-key")).to_have_value("north", timeout=BUSY)
        shown.tell(windows([now - 6], {"north": 7, "south": 2}, Kind.TENTATIVE))
        shown.tell(windows([now - 4], {"north": 8, "south": 3}, Kind.TENTATIVE))
        wait_for_values(page, ["8", "tentative", ""], ["7", "tentative", ""], ["10", "final", ""])
        shown.tell(
            Told(Kind.UNDO, (now - 8) * SECOND),
            windows([now - 6], {"north": 12, "south": 2}),
            windows([now - 4], {"north": 8, "south": 3}),
            Told(Kind.REC_DONE, (now - 4) * SECOND),
        )
        wait_for_values(page, ["8", "final", ""], ["12", "final", "7"], ["10", "final", ""])
        expect(page.locator("#tape")).to_have_attribute(
            "aria-label", "Pieces of sums: 3 stable, 2 tentative, 1 undo, 1 corrected"
        )
        expect(page.locator("#latency-now")).to_contain_text("max_delay is 5.0 s")
        page.locator("#choose-key").select_option("south")
        expect(page.locator("#chart-now")).to_contain_text("south: total is 3", timeout=BUSY)
        page.locator("#choose-column").select_option("n")
        expect(page.locator("#chart-now")).to_contain_text("south: n is 4", timeout=BUSY)


def test_going_back_and_to_live_again(browser: Browser, shown: Shown) -> None:
    now = math.floor(time.time())
    with opened(browser, shown.url) as page:
        is_well(page)
        shown.tell(windows([now - 1], {"north": 10}))
        expect(page.locator("#chart-now")).to_contain_text("is 10", timeout=BUSY)
        calm = time.time()
        # The bar moves in whole seconds: a moment between the two must be among them.
        wait_for(lambda: time.time() > calm + 1.2, 30)
        shown.fleet.say("sums/2", state="UP_FAILURE")
        shown.tell(windows([now + 1], {"north": 99}, Kind.TENTATIVE))
        expect(party(page, "sums/2")).to_have_class("party is-tentative", timeout=BUSY)
        expect(page.locator("#chart-now")).to_contain_text("is 99", timeout=BUSY)
        go_back_to(page, calm + 1)
        expect(party(page, "sums/2")).not_to_have_class("party is-tentative", timeout=BUSY)
        expect(page.locator("#chart-now")).to_contain_text("is 10", timeout=BUSY)
        assert page.locator("#live").get_attribute("aria-pressed") == "false"
        page.locator("#live").press("Enter")
        expect(page.locator("#past")).to_be_hidden()
        expect(party(page, "sums/2")).to_have_class("party is-tentative")
        expect(page.locator("#chart-now")).to_contain_text("is 99")


def test_all_of_it_by_the_keyboard(browser: Browser, tmp_path: Path) -> None:
    orders = Orders()
    with (
        console(tmp_path, breaker=orders) as shown,
        opened(browser, shown.url, TOKEN) as page,
    ):
        is_well(page)
        assert page.url == shown.url, "the token does not stay in the address"
        page.locator("body").press("Tab")
        page.keyboard.press("Enter")  # Skip to the topology.
        page.keyboard.press("Tab")
        focused = page.locator(":focus")
        expect(focused).to_have_attribute("data-party", "readings")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        expect(page.locator(":focus")).to_have_attribute("data-party", "clean/2")
        page.keyboard.press("Enter")
        expect(page.locator("#details-title")).to_have_text("clean/2")
        expect(page.locator(":focus")).to_have_attribute("aria-label", "Close the details")
        page.keyboard.press("Tab")
        expect(page.locator(":focus")).to_have_attribute(
            "aria-label", "Cut the link from clean/2 to readings"
        )
        page.keyboard.press("Enter")
        wait_for(lambda: orders.given)
        page.get_by_role("button", name="Freeze clean/2").press("Enter")
        page.get_by_role("button", name="Kill clean/2").press("Enter")
        wait_for(lambda: len(orders.given) == 3)
        assert orders.given == [
            ("cut", "clean/2", "readings"),
            ("freeze", "clean/2"),
            ("kill", "clean/2"),
        ]
        page.keyboard.press("Escape")
        expect(page.locator("#details")).to_be_hidden()
        expect(page.locator(":focus")).to_have_attribute("data-party", "clean/2")


def test_without_the_token_nothing_can_be_done(browser: Browser, tmp_path: Path) -> None:
    with (
        console(tmp_path, breaker=Orders()) as shown,
        opened(browser, shown.url) as page,
    ):
        is_well(page)
        party(page, "sums/1").click()
        expect(page.locator("#details")).to_contain_text("sums/2")
        assert page.get_by_role("button", name="Kill sums/1").count() == 0
        page.locator("#details").get_by_role("button", name="Give the token").click()
        page.locator("#token-input").fill(TOKEN)
        page.keyboard.press("Tab")
        page.get_by_role("button", name="Use it").click()
        expect(page.get_by_role("button", name="Kill sums/1")).to_be_visible(timeout=BUSY)


def votes(*letters: str) -> dict[str, Any]:
    """On buckets of one second each, for what sums/1 says."""
    buckets = [[(NOW + at) * SECOND, each, 0] for at, each in enumerate(letters)]
    return {"clean": {"replicas": ["clean/1", "clean/2", "clean/3"], "buckets": buckets}}


JUDGED: dict[str, Any] = {
    "accused": {"clean/2": 3},
    "quarantined": ["clean/2"],
    "recalculated": 2,
    "tainted": 0,
    "gave_up": {},
    "waits_for": [],
}


def test_votes_by_bucket_and_who_dissented(browser: Browser, shown: Shown) -> None:
    with opened(browser, shown.url, timezone_id="UTC") as page:
        is_well(page)
        expect(page.locator("#votes")).to_be_hidden()
        shown.fleet.say("sums/1", **JUDGED, votes=votes("aaa", "ada", "aam"))
        shown.fleet.say("sums/2", **JUDGED | {"accused": {}}, votes=votes("aaa"))
        expect(page.locator("#vote-totals")).to_contain_text("clean/2 (3 times)", timeout=BUSY)
        expect(party(page, "clean/2")).to_have_class("party is-stable accused")
        expect(page.locator("#choose-reader")).to_have_value("sums/1")
        cells = page.locator(".ballots tbody td")
        expect(cells).to_have_count(9, timeout=BUSY)
        looks = cells.evaluate_all("cells => cells.map(cell => cell.className)")
        agreed, dissented, missing = "agreed", "dissented", "missing"
        assert looks == [agreed] * 4 + [dissented] + [agreed] * 3 + [missing]
        when = datetime.fromtimestamp(NOW + 1, UTC).strftime("%H:%M:%S")
        expect(cells.nth(4)).to_have_attribute("aria-label", f"{when}, clean/2: dissented")
        expect(page.locator("#ballots")).to_contain_text(
            f"clean/2 dissented on 1 of the last 3 buckets, last at {when}. "
            "clean/3 was missing on 1 of the last 3 buckets."
        )
        page.locator("#choose-reader").select_option("sums/2")
        expect(page.locator("#ballots")).to_contain_text("All agreed on the last bucket.")


def test_panels_live_and_as_they_were(browser: Browser, tmp_path: Path) -> None:
    tables = [
        Table(("Task", "State"), [["<b>a</b>", Mark("moved", "stable")]], title="Moves"),
        Table(("Partner", "Balance"), [["south", -1.5]], "a note", title="Balances"),
    ]
    panel = Panel("contracts", "Contracts", lambda: tables, every=0.1)
    with console(tmp_path, panels=(panel,)) as shown, opened(browser, shown.url) as page:
        found = page.locator("#panel-contracts")
        expect(found).to_contain_text("<b>a</b>", timeout=BUSY)
        expect(found.locator(".word")).to_have_class("word is-stable")
        expect(found.locator("tbody td.number")).to_have_text(["-1.5"])
        expect(found).to_contain_text("a note")
        # It stays for a while, so that a step of the bar is in the midst of it.
        then = time.time() + 1
        wait_for(lambda: time.time() > then + 0.2, 30)
        tables[:] = [Table((), (), "the register is away")]
        expect(found).to_have_text("Contractsthe register is away", timeout=BUSY)
        go_back_to(page, then)
        expect(found).to_contain_text("<b>a</b>", timeout=BUSY)
        page.locator("#live").press("Enter")
        expect(found).to_contain_text("the register is away", timeout=BUSY)


def test_what_spark_does_and_where_it_shows_more(browser: Browser, shown: Shown) -> None:
    with opened(browser, shown.url) as page:
        is_well(page)
        row = page.locator("#spark tr", has_text="sums/1")
        expect(row).to_contain_text("0.41 s", timeout=BUSY)
        expect(row).to_contain_text("with --spark-ui")
        shown.fleet.say(
            "sums/1",
            batch_seconds=1.5,
            state_rows=1200,
            state_bytes=3 << 20,
            spark_ui="http://127.0.0.1:4040",
        )
        expect(row).to_contain_text("1.50 s", timeout=BUSY)
        expect(row).to_contain_text("1,2003.0 MiB")
        link = row.get_by_role("link", name="open")
        expect(link).to_have_attribute("href", "http://127.0.0.1:4040")
        expect(link).to_have_attribute("rel", "noreferrer noopener")
        expect(row.locator("path.over")).to_have_attribute("d", re.compile("M"), timeout=BUSY)
        party(page, "sums/1").click()
        link = page.get_by_role("link", name="Spark's own page")
        expect(link).to_have_attribute("href", "http://127.0.0.1:4040")


def test_a_server_that_is_gone_is_told_and_found_again(browser: Browser, tmp_path: Path) -> None:
    with (
        FakeFleet(fleet_topology(tmp_path)) as fleet,
        Collector(fleet.topology, open_=fleet.streams.open) as collector,
    ):
        server = ConsoleServer(collector, Security(TOKEN))
        context = browser.new_context()
        page = context.new_page()
        page.goto(server.url)
        is_well(page)
        server.close()
        expect(page.locator("#connection")).to_contain_text("no connection", timeout=BUSY)
        with ConsoleServer(collector, Security(TOKEN), port=server.port):
            expect(page.locator("#connection")).to_have_text("live", timeout=BUSY)
            context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_themes_and_a_phone(browser: Browser, shown: Shown, scheme: Any) -> None:
    with opened(browser, shown.url, viewport=PHONE, color_scheme=scheme) as page:
        is_well(page)
        nothing_sticks_out(page)
        paper = "getComputedStyle(document.body).backgroundColor"
        by_itself = page.evaluate(paper)
        for _ in range(3 if scheme == "light" else 2):
            page.locator("#theme").press("Enter")
        word = "auto" if scheme == "light" else "dark"
        expect(page.locator("#theme")).to_have_text(f"Theme: {word}")
        assert page.evaluate(paper) == by_itself
        page.locator("#theme").press("Enter")
        page.locator("#theme").press("Enter")
        expect(page.locator("#theme")).to_have_text(
            "Theme: dark" if scheme == "light" else "Theme: light"
        )
        assert page.evaluate(paper) != by_itself
        party(page, "sums/1").click()
        expect(page.locator("#details")).to_be_in_viewport()
        nothing_sticks_out(page)
