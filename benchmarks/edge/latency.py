"""How long after its last event a window is complete at the root, with and without failures.

One edge runs throughout. Children are killed with SIGKILL early, in the middle or at the end of a
window, all at once; the latency of that window is what counts. Then they are started again, and the
next case waits until they have their partitions back.

SIGKILL lets the kernel close connections, so that peers notice at once. A machine that loses power
or its network closes nothing: SIGSTOP stands for it, and phi alone finds it. Only the kernel of a
stopped process still acknowledges what it receives, which no peer looks at.

The baseline is full replay, as in the systems that the thesis compares itself with: nothing of an
open window is replicated, so that whoever takes over gets all of its events again. It is the same
program with `sync` of two windows, which cuts at the start of every other window; children are
killed in the windows that begin with a cut.
"""

from __future__ import annotations

import math
import signal
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.edge.meters import latency
from benchmarks.edge.scale import Scale
from benchmarks.report import Report
from harness.edge import EdgeTrial

__all__ = ["Broken", "next_start", "percentile", "report_latency"]

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
BUFFER: Final = 1_000_000


@dataclass(frozen=True)
class Broken:
    """A window in which children failed."""

    latency: float
    """Milliseconds."""
    before: float
    """Of the window before it."""
    replayed: int
    """Events that sensors sent again, until it was complete."""


def report_latency(report: Report, scale: Scale) -> None:
    with _trial(scale, {}) as trial:
        tail = _report_killed(report, scale, trial)
        _report_silent(report, scale, trial)
        trial.check()
    with _trial(scale, {"sync": f"{2 * scale.window}s", "buffer": BUFFER}) as trial:
        full = {point: _repeat(report, scale, trial, point, every=2) for point in POINTS}
        trial.check()
    _report_replay(report, scale, tail, full)


@contextmanager
def _trial(scale: Scale, settings: Mapping[str, Any]) -> Iterator[EdgeTrial]:
    with TemporaryDirectory(prefix="holdfast-edge-") as folder:
        trial = EdgeTrial(
            Path(folder),
            sensors=scale.sensors,
            children=scale.children,
            rate=scale.rate,
            queries={"count": {"aggregate": "count", "size": f"{scale.window}s"}},
            settings=settings,
        )
        with trial:
            yield trial


def _report_killed(
    report: Report, scale: Scale, trial: EdgeTrial
) -> dict[tuple[str, int], list[Broken]]:
    size = scale.window * SECOND
    report.progress("latency without failure")
    trial.wait_for_window(trial.through() + scale.calm * size, scale.calm * scale.window + 30)
    calm = [latency(window) for window in trial.windows()[-scale.calm :]]
    broken: dict[tuple[str, int], list[Broken]] = {}
    for _ in range(scale.repeats):
        for point, part in POINTS.items():
            for count in scale.killed:
                report.progress(f"latency with {count} killed, {point}")
                found = _kill(trial, count, part, size)
                broken.setdefault((point, count), []).append(found)
                calm.append(found.before)
    base = statistics.median(calm)
    rows: list[list[object]] = [["none", 0, base, min(calm), max(calm), 1.0, PUBLISHED["none"]]]
    for (point, count), cases in broken.items():
        latencies = [case.latency for case in cases]
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
    report.table(
        f"Latency at the root in ms, windows of {scale.window} s; published: another machine",
        ["killed", "children", "median", "lowest", "highest", "of no failure", "published"],
        rows,
    )
    _claim(report, "window latency with early and middle kills", calm, [
        case.latency for (point, _), found in broken.items() if point != "end" for case in found
    ], 1.1)  # fmt: skip
    _claim(report, "window latency with kills at the end", calm, [
        case.latency for (point, _), found in broken.items() if point == "end" for case in found
    ], 3)  # fmt: skip
    return broken


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


def _report_silent(report: Report, scale: Scale, trial: EdgeTrial) -> None:
    found = []
    children = list(trial.layout.children)
    for number in range(scale.silent):
        report.progress(f"latency with a silent child, {number + 1} of {scale.silent}")
        found.append(_stop(trial, children[number % len(children)], scale.window * SECOND))
    report.table(
        "A child falls silent at the end of a window (SIGSTOP), found by phi alone: latency in ms",
        ["samples", "lowest", "25 %", "median", "75 %", "95 %", "highest"],
        [
            [
                len(found),
                min(found),
                *(percentile(found, share) for share in (0.25, 0.5, 0.75, 0.95)),
                max(found),
            ]
        ],
    )
    report.claim(
        "window latency with a silent child",
        statistics.median(found),
        1_000,
        "the time that the defaults give it: heartbeats 100 ms, pause 300 ms, phi 8",
        at_least=False,
        spread=(min(found), max(found)),
        unit=" ms",
    )


def _repeat(
    report: Report, scale: Scale, trial: EdgeTrial, point: str, *, every: int
) -> list[Broken]:
    found = []
    for _ in range(scale.repeats):
        report.progress(f"full replay, one killed, {point}")
        found.append(_kill(trial, 1, POINTS[point], scale.window * SECOND, every=every))
    return found


def _report_replay(
    report: Report,
    scale: Scale,
    tail: Mapping[tuple[str, int], Sequence[Broken]],
    full: Mapping[str, Sequence[Broken]],
) -> None:
    rows: list[list[object]] = []
    for point, cases in full.items():
        pairs = {"replication every 100 ms": tail[point, 1], "full replay": cases}
        replayed = {
            name: statistics.median(case.replayed for case in found)
            for name, found in pairs.items()
        }
        # All events of one child since the window began.
        whole = scale.sensors * scale.rate / scale.children * POINTS[point] * scale.window
        for name, found in pairs.items():
            rows.append(
                [
                    point,
                    name,
                    replayed[name],
                    whole,
                    statistics.median(case.latency for case in found),
                    max(case.latency for case in found),
                ]
            )
    report.table(
        f"One of {scale.children} children killed: tail replay against full replay of the window",
        ["killed", "what", "events sent again", "its events in the window so far", "latency (ms)",
         "highest"],
        rows,
    )  # fmt: skip
    ratios = [
        whole.replayed / max(1, part.replayed)
        for whole, part in zip(full["end"], tail["end", 1], strict=True)
    ]
    report.claim(
        "events sent again after a kill at the end, times fewer",
        statistics.median(ratios),
        10,
        "full replay of the window, in the same run",
        spread=(min(ratios), max(ratios)),
    )


def percentile(found: Sequence[float], share: float) -> float:
    """The least of the figures that so many of all do not exceed."""
    ordered = sorted(found)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def next_start(now: int, size: int, every: int = 1) -> int:
    """Of a window that begins in a while; with `every` 2 one whose number is odd, where cuts of
    twice its size are."""
    number = (now + 3 * SECOND // 10) // size + 1
    while every > 1 and number % every != every // 2:
        number += 1
    return number * size


def _kill(trial: EdgeTrial, count: int, part: float, size: int, *, every: int = 1) -> Broken:
    """Children killed in a window, and started again after it."""
    victims = [f"c{number}" for number in range(1, 2 * count, 2)]
    start = next_start(int(time.time() * 1e6), size, every)
    trial.sleep_to(start + int(size * part))
    trial.fleet.kill(*victims)
    trial.wait_for_window(start + size, 60)
    windows = {window["start"]: window for window in trial.windows()}
    trial.fleet.start(*victims)
    _wait_for_homes(trial)
    return Broken(
        latency(windows[start]), latency(windows[start - size]), windows[start]["replayed"]
    )


def _wait_for_homes(trial: EdgeTrial) -> None:
    homes = {str(number): f"c{number + 1}" for number in range(len(trial.layout.children))}
    trial.wait(lambda: trial.status("root")["groups"]["edge"]["owners"] == homes, 90)


def _stop(trial: EdgeTrial, victim: str, size: int) -> float:
    """A child that neither answers nor closes a connection."""
    start = next_start(int(time.time() * 1e6), size)
    trial.sleep_to(start + int(size * POINTS["end"]))
    trial.fleet.signal(victim, signal.SIGSTOP)
    try:
        trial.wait_for_window(start + size, 60)
    finally:
        trial.fleet.signal(victim, signal.SIGCONT)
    _wait_for_homes(trial)
    return latency(next(each for each in trial.windows() if each["start"] == start))
