"""How long after its last event a window is complete at the root, with and without failures.

One edge runs throughout. Children are killed with SIGKILL early, in the middle or at the end of a
window, all at once; the latency of that window is what counts. Then they are started again, and the
next case waits until they have their partitions back.
"""

from __future__ import annotations

import signal
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.edge.scale import Scale
from benchmarks.report import Report
from harness.edge import EdgeTrial

__all__ = ["report_latency"]

POINTS: Final = {"early": 0.3, "middle": 0.6, "end": 0.985}
"""The published points: the ends of cut 3 of 10, of cut 6, and of the last one."""
PUBLISHED: Final = {
    "none": "103",
    ("early", 1): "105",
    ("early", 2): "104",
    ("early", 3): "108",
    ("middle", 1): "virtually no increase",
    ("middle", 2): "virtually no increase",
    ("middle", 3): "virtually no increase",
    ("end", 1): "631",
    ("end", 2): "707",
    ("end", 3): "734",
}
SECOND: Final = 1_000_000


def report_latency(report: Report, scale: Scale) -> None:
    with TemporaryDirectory(prefix="holdfast-edge-") as folder:
        trial = EdgeTrial(
            Path(folder),
            sensors=scale.sensors,
            children=scale.children,
            rate=scale.rate,
            queries={"count": {"aggregate": "count", "size": f"{scale.window}s"}},
        )
        with trial:
            _report(report, scale, trial)


def _report(report: Report, scale: Scale, trial: EdgeTrial) -> None:
    size = scale.window * SECOND
    report.progress("latency without failure")
    trial.wait_for_window(trial.through() + scale.calm * size, scale.calm * scale.window + 30)
    calm = [_latency(window) for window in trial.windows()[-scale.calm :]]
    broken: dict[tuple[str, int], list[float]] = {}
    for _ in range(scale.repeats):
        for point, part in POINTS.items():
            for count in scale.killed:
                report.progress(f"latency with {count} killed, {point}")
                found, before = _kill(trial, count, part, size)
                broken.setdefault((point, count), []).append(found)
                calm.append(before)
    report.progress("latency with one stopped at the end")
    stopped = _stop(trial, size)
    trial.check()
    base = statistics.median(calm)
    rows: list[list[object]] = [["none", 0, base, min(calm), max(calm), 1.0, PUBLISHED["none"]]]
    for (point, count), latencies in broken.items():
        middle = statistics.median(latencies)
        rows.append(
            [
                point,
                count,
                middle,
                min(latencies),
                max(latencies),
                middle / base,
                PUBLISHED.get((point, count), ""),
            ]
        )
    rows.append(
        ["end, SIGSTOP: found by phi alone", 1, stopped, stopped, stopped, stopped / base, ""]
    )
    report.table(
        f"Latency at the root in ms, windows of {scale.window} s",
        ["killed", "children", "median", "lowest", "highest", "of no failure", "published"],
        rows,
    )
    _claim(report, "window latency with early and middle kills", calm, [
        each for (point, _), found in broken.items() if point != "end" for each in found
    ], 1.1)  # fmt: skip
    _claim(report, "window latency with kills at the end", calm, [
        each for (point, _), found in broken.items() if point == "end" for each in found
    ], 3)  # fmt: skip


def _claim(
    report: Report, name: str, calm: Sequence[float], found: Sequence[float], bound: float
) -> None:
    base = statistics.median(calm)
    report.claim(
        name,
        statistics.median(found) / base,
        bound,
        "no failure, in the same run",
        at_least=False,
        spread=(min(found) / base, max(found) / base),
        unit=" times",
    )


def _latency(window: dict[str, float]) -> float:
    """In milliseconds."""
    return (window["at"] - window["newest"]) / 1e3


def _next_start(size: int) -> int:
    """Of a window that begins in a while."""
    return (int(time.time() * 1e6 + 0.3 * SECOND) // size + 1) * size


def _kill(trial: EdgeTrial, count: int, part: float, size: int) -> tuple[float, float]:
    """The latency of the window in which children are killed, and of the one before."""
    victims = [f"c{number}" for number in range(1, 2 * count, 2)]
    start = _next_start(size)
    trial.sleep_to(start + int(size * part))
    trial.fleet.kill(*victims)
    trial.wait_for_window(start + size, 30)
    windows = {window["start"]: window for window in trial.windows()}
    trial.fleet.start(*victims)
    homes = {str(number): f"c{number + 1}" for number in range(len(trial.layout.children))}
    trial.wait(lambda: trial.status("root")["groups"]["edge"]["owners"] == homes, 60)
    return _latency(windows[start]), _latency(windows[start - size])


def _stop(trial: EdgeTrial, size: int) -> float:
    """As if a machine had lost its network: nothing is closed, nothing refused."""
    start = _next_start(size)
    trial.sleep_to(start + int(size * POINTS["end"]))
    trial.fleet.signal("c2", signal.SIGSTOP)
    try:
        trial.wait_for_window(start + size, 30)
    finally:
        trial.fleet.signal("c2", signal.SIGCONT)
    return _latency(next(each for each in trial.windows() if each["start"] == start))
