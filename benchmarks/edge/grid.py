"""The cost of heartbeats and replication: the grid of the thesis, at the published load.

The thesis varied the one with the other off; here every pair is measured, at a rate that all of
them take, so that the cost is processors and bytes. All cells but the first run the same program:
an interval that is "off" is longer than the run (`sync`) or as long as the window, the longest that
is allowed (`heartbeat`). Where neither is on, `detection` is off. A payload is a heartbeat too, so
that there are no others where `sync` is the shorter of both.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.edge.meters import cpu_by_role, latency, sent, statuses
from benchmarks.edge.scale import Scale
from benchmarks.report import Report
from harness.edge import EdgeTrial

__all__ = ["NEVER", "OFF", "Cell", "cells", "report_grid", "settings_of"]

OFF: Final = "off"
NEVER: Final = "1h"
BUFFER: Final = 1_000_000
"""Events for each partition: all of a run, where nothing is replicated."""


@dataclass(frozen=True)
class Cell:
    heartbeat: str
    sync: str
    rate: float
    cores: float
    replicated: float
    """Bytes a second."""
    beats: float
    """Bytes a second."""
    latency: float
    """Milliseconds."""
    takeovers: int


def cells(scale: Scale) -> list[tuple[str, str]]:
    """Heartbeat and sync of each; the first has neither."""
    intervals = (OFF, *scale.intervals)
    return [(heartbeat, sync) for heartbeat in intervals for sync in intervals]


def settings_of(heartbeat: str, sync: str, window: int) -> dict[str, Any]:
    if heartbeat == sync == OFF:
        return {"detection": False, "buffer": BUFFER}
    return {
        "heartbeat": f"{window}s" if heartbeat == OFF else heartbeat,
        "sync": NEVER if sync == OFF else sync,
        "buffer": BUFFER,
    }


def report_grid(report: Report, scale: Scale) -> None:
    found = []
    for heartbeat, sync in cells(scale):
        report.progress(f"heartbeats {heartbeat}, replication {sync}")
        found.append(_measure(heartbeat, sync, scale))
    base = found[0].cores
    report.table(
        f"Heartbeats and replication at {scale.sensors} x {scale.rate:,.0f} events a second, "
        f"{scale.children} children, windows of {scale.grid_window} s",
        ["heartbeats", "replication", "events/s", "cores", "cores more than neither",
         "replicated (KB/s)", "heartbeats (KB/s)", "latency (ms)", "false take-overs"],
        [
            [
                cell.heartbeat,
                cell.sync,
                cell.rate,
                cell.cores,
                cell.cores - base,
                cell.replicated / 1e3,
                cell.beats / 1e3,
                cell.latency,
                cell.takeovers,
            ]
            for cell in found
        ],
    )  # fmt: skip


def _measure(heartbeat: str, sync: str, scale: Scale) -> Cell:
    size = scale.grid_window * 1_000_000
    with TemporaryDirectory(prefix="holdfast-edge-") as folder:
        trial = EdgeTrial(
            Path(folder),
            sensors=scale.sensors,
            children=scale.children,
            rate=scale.rate,
            queries={"count": {"aggregate": "count", "size": f"{scale.grid_window}s"}},
            settings=settings_of(heartbeat, sync, scale.grid_window),
        )
        with trial:
            start = (int(time.time() * 1e6) // size + 1) * size
            trial.sleep_to(start)
            before, used, since = statuses(trial), cpu_by_role(trial), time.monotonic()
            trial.sleep_to(start + size)
            seconds, after, spent = time.monotonic() - since, statuses(trial), cpu_by_role(trial)
            trial.wait_for_window(start + size, 60)
            window = next(each for each in trial.check() if each["start"] == start)
    return Cell(
        heartbeat,
        sync,
        window["answer"] / size * 1e6,
        (sum(spent.values()) - sum(used.values())) / seconds,
        sent(before, after, "Payload") / seconds,
        sent(before, after, "Beat") / seconds,
        latency(window),
        sum(status["takeovers"] for status in after.values()),
    )
