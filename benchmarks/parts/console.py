"""The console: whether its page stays smooth and its memory flat, measured by the browser.

50 streams and 200 replicas that are made up, so that what is measured is the page. Frames are
compared with those of an empty page in the same browser, just before.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from playwright.sync_api import Page

from benchmarks.console.crowd import Crowd
from benchmarks.report import Report
from harness.browser import chromium, opened

FRAMES = """seconds => new Promise(done => {
  const times = [], long = [];
  new PerformanceObserver(list => long.push(...list.getEntries().map(each => each.duration)))
    .observe({ type: "longtask" });
  const start = performance.now();
  let last = start;
  requestAnimationFrame(function frame(now) {
    times.push(now - last);
    last = now;
    if (now - start < 1000 * seconds) requestAnimationFrame(frame);
    else done({ times: times.slice(2), long });
  });
})"""
SLOW = 34.0
"""Milliseconds: two frames of a screen that has sixty a second."""
SMOOTH = 0.95
"""So many frames are to come within that."""
GROWTH = 1.15
HOUR = 3600
STEP = 6
"""Seconds of the hour that pass with each message."""


def run(report: Report) -> None:
    small = os.environ.get("HOLDFAST_BENCH") == "smoke"
    with TemporaryDirectory() as folder, chromium("--enable-precise-memory-info") as browser:
        crowd = Crowd(Path(folder), time.time() - HOUR)
        crowd.go_on(0)
        with crowd.page() as url:
            with browser.new_context(viewport={"width": 1440, "height": 900}) as context:
                empty = _frames(context.new_page(), 2 if small else 10, lambda: None)
            with opened(browser, url) as page:
                page.wait_for_selector("#graph .party.is-stable")
                page.wait_for_selector('#tape[aria-label*="stable"]')
                _report_frames(report, page, crowd, empty, 2 if small else 20)
                _report_memory(report, page, crowd, 40 if small else HOUR // STEP)


def _frames(page: Page, seconds: float, go_on: Callable[[], None]) -> dict[str, list[float]]:
    """While the fleet goes on once a second, and the stream with it."""
    page.evaluate(f"seconds => {{ window.measured = ({FRAMES})(seconds); }}", seconds)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        go_on()
        page.wait_for_timeout(1000)
    found: dict[str, list[float]] = page.evaluate("window.measured")
    return found


def _report_frames(
    report: Report, page: Page, crowd: Crowd, empty: dict[str, list[float]], seconds: float
) -> None:
    report.progress(f"frames of a page of 50 streams and 200 replicas, for {seconds:.0f} s")
    full = _frames(page, seconds, lambda: crowd.go_on(1))
    report.table(
        "milliseconds between two frames",
        ["page", "frames", "median", "95 of 100", "longest", "within 34 ms", "tasks over 50 ms"],
        [_row("empty", empty), _row("50 streams, 200 replicas", full)],
    )
    report.claim(
        "frames within 34 ms, of those that an empty page has within",
        _smooth(full) / _smooth(empty),
        SMOOTH,
        "an empty page in the same browser",
    )


def _row(name: str, found: dict[str, list[float]]) -> list[object]:
    times = sorted(found["times"])
    return [
        name,
        len(times),
        median(times),
        times[int(len(times) * 0.95)],
        times[-1],
        _smooth(found),
        len(found["long"]),
    ]


def _smooth(found: dict[str, list[float]]) -> float:
    return sum(each <= SLOW for each in found["times"]) / len(found["times"])


def _report_memory(report: Report, page: Page, crowd: Crowd, steps: int) -> None:
    """An hour of the fleet in a minute. What the page keeps is full after a twelfth of it."""
    report.progress(f"memory of the page over {steps * STEP / 60:.0f} minutes, sped up")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    rows = []
    for step in range(steps + 1):
        if step % (steps // 10) == 0:
            session.send("HeapProfiler.collectGarbage")
            said = session.send("Performance.getMetrics")["metrics"]
            found = {each["name"]: each["value"] for each in said}
            heap = found["JSHeapUsedSize"] / (1 << 20)
            rows.append([step * STEP / 60, heap, int(found["Nodes"]), found["JSEventListeners"]])
        crowd.go_on(STEP)
        page.wait_for_timeout(105)
    report.table(
        "memory of the page after so many minutes",
        ["minutes", "heap, MiB", "nodes", "listeners"],
        rows,
    )
    report.claim(
        "heap at the end of the hour, of that after a fifth of it",
        rows[-1][1] / rows[2][1],
        GROWTH,
        "itself after a fifth of the time",
        at_least=False,
    )
