"""A small topology on real Spark, run as `holdfast run --console 0 --demo` does, and what a person
does on its page."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from playwright.sync_api import Locator, Page, expect
from rich.console import Console

from harness.ports import free_port
from harness.waiting import wait_for
from holdfast.console.command import Wish, run_with_console

__all__ = ["go_back_to", "order", "party", "running"]

FLEET = """
name = "fleet"
bucket = "1s"

[streams.north]
source = "sensors"
rows_per_second = 20
sensors = 2
seed = 1
address = "127.0.0.1:{0}"

[streams.south]
source = "sensors"
rows_per_second = 20
sensors = 2
seed = 2
address = "127.0.0.1:{1}"

[stages.sums]
inputs = ["north", "south"]
replicas = ["127.0.0.1:{2}", "127.0.0.1:{3}"]
max_delay = "3s"
shards = 1
steps = [
  {{ select = ["sensor", "CAST(value * 1000 AS BIGINT) AS value"] }},
  {{ window = {{ keys = ["sensor"], size = "4s", slide = "1s", aggregates = [
    "count() AS n", "sum(value) AS total"] }} }},
]

[sinks.archive]
stream = "sums"
sink = "parquet"
path = "archive"
"""


@contextmanager
def running(folder: Path) -> Iterator[tuple[Path, str, str]]:
    """The file, the address of the page and the token."""
    file = folder / "fleet.toml"
    file.write_text(FLEET.format(*(free_port() for _ in range(4))))
    said, ending = io.StringIO(), Event()
    run = Thread(
        target=run_with_console,
        args=(file, Console(file=said, width=200), Wish(port=0)),
        kwargs={
            "demo": True,
            "only": [],
            "options": ["--master", "local[1]", "--spark-ui"],
            "metrics": None,
            "ending": ending,
        },
    )
    run.start()
    try:
        wait_for(said.getvalue, lambda: "#token=" in said.getvalue(), 60)
        found = re.search(r"console: (\S+)#token=(\S+)", said.getvalue())
        assert found is not None
        yield file, found[1], found[2]
    finally:
        ending.set()
        run.join()


def party(page: Page, name: str) -> Locator:
    """In the drawing."""
    return page.locator(f'#graph [data-party="{name}"]')


def order(page: Page, name: str, button: str) -> None:
    """Open a party and press one of its buttons."""
    party(page, name).click()
    page.get_by_role("button", name=button, exact=True).click()
    page.keyboard.press("Escape")


def go_back_to(page: Page, moment: float) -> None:
    """To the last step of the time bar before a moment, which is less than a second before it: drag
    it near, then use the arrow keys."""
    slider = page.locator("#when")
    expect(slider).to_be_enabled(timeout=60_000)
    slider.focus()
    slider.press("ArrowLeft")
    too_late = _shown_at(slider) - moment
    if too_late > 3:
        slider.fill(str(int(slider.input_value()) - int(too_late) + 1))
    while _shown_at(slider) > moment:
        slider.press("ArrowLeft")
    expect(page.locator("#past")).to_be_visible(timeout=60_000)


def _shown_at(slider: Locator) -> float:
    return float(slider.get_attribute("data-at") or "inf") / 1000
