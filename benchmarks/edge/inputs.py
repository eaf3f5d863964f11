"""The cost of an event by its form: an element of an array, one with a key, a JSON line with a key.

The rate is the published one, 6 sensors of 18,300 events a second to 8 children, which all kinds of
events are taken at; so the figure is processors, not a rate. The published 109,800 events a second
were what sensors of another program offered on another machine, not what it could take: they stand
here as the load, and nothing is compared with them. JSON lines are written by processes of their
own (`feed`), whose work is no part of the edge and is not counted.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.edge.meters import ROLES, cpu_by_role, latency, statuses
from benchmarks.edge.scale import Scale
from benchmarks.report import Report
from harness.edge import EdgeTrial
from holdfast.edge.process.config import Layout
from holdfast.edge.process.demo import Expected
from holdfast.edge.process.runner import SUPERVISOR

__all__ = ["KINDS", "Cost", "Kind", "cost_of", "report_inputs"]

KEYS: Final = 100


@dataclass(frozen=True)
class Kind:
    """A kind of events."""

    name: str
    keys: int
    is_json: bool


KINDS: Final = (
    Kind("arrays, no key", 0, False),
    Kind(f"arrays, {KEYS} keys", KEYS, False),
    Kind(f"JSON lines, {KEYS} keys", KEYS, True),
)


@dataclass(frozen=True)
class Cost:
    rate: float
    """Events a second in the windows that were measured."""
    cores: dict[str, float]
    """Processors in use, by role."""
    memory: int
    """Bytes, of the largest child."""
    latency: float
    """Milliseconds, of the slowest window."""

    @property
    def all_cores(self) -> float:
        return sum(self.cores.values())


@contextmanager
def running(folder: Path, kind: Kind, **plant: Any) -> Iterator[tuple[EdgeTrial, dict[str, int]]]:
    """An edge whose sensors have events of this kind, and when the first event of each sensor was
    that is fed from outside."""
    trial = EdgeTrial(folder, keys=kind.keys, **plant)
    if not kind.is_json:
        with trial:
            yield trial, {}
        return
    trial.file.write_text(trial.file.read_text().replace("rate =", 'input = "jsonl"\nrate ='))
    trial.layout = trial.fleet.layout = Layout.read(trial.file)
    begun: dict[str, int] = {}
    feeds = []
    try:
        trial.fleet.start("root", *trial.layout.children)
        for name in trial.layout.sensors:
            begun[name] = int(time.time() * 1e6)
            feeds.append(_start_fed(trial, name, begun[name]))
        trial.wait(lambda: len(trial.windows()) > 0, 40.0)
        yield trial, begun
    finally:
        trial.close()
        for feed in feeds:
            feed.terminate()
            feed.wait()


def _start_fed(trial: EdgeTrial, name: str, start: int) -> subprocess.Popen[bytes]:
    """A sensor, and the process that writes its lines; that one is returned."""
    fleet, settings = trial.fleet, trial.layout.sensors[name]
    feed = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.edge.feed", name, str(start), str(settings.rate),
         str(settings.seed), str(settings.keys)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    command = [sys.executable, "-m", "holdfast", "edge", "sensor", str(trial.file), name]
    with fleet.log(name).open("ab") as log:
        fleet.processes[name] = subprocess.Popen(
            [*command, "--report", str(fleet.report(name))],
            stdin=feed.stdout,
            stdout=log,
            stderr=log,
            env={**os.environ, SUPERVISOR: str(os.getpid())},
            start_new_session=True,
        )
    # The sensor alone reads it: when it ends the writer notices.
    assert feed.stdout is not None
    feed.stdout.close()
    return feed


def report_inputs(report: Report, scale: Scale) -> None:
    costs: dict[str, list[Cost]] = {kind.name: [] for kind in KINDS}
    for number in range(scale.input_rounds):
        for kind in KINDS:
            report.progress(f"{kind.name}, round {number + 1} of {scale.input_rounds}")
            costs[kind.name].append(cost_of(kind, scale))
    rows: list[list[object]] = []
    for name, found in costs.items():
        middle = sorted(found, key=lambda cost: cost.all_cores)[len(found) // 2]
        rows.append(
            [
                name,
                middle.rate,
                middle.all_cores,
                min(cost.all_cores for cost in found),
                max(cost.all_cores for cost in found),
                *(middle.cores[role] for role in ROLES),
                1e6 * middle.all_cores / middle.rate,
                max(cost.memory for cost in found) / 1e6,
                max(cost.latency for cost in found),
            ]
        )
    report.table(
        f"Processors for the published load: {scale.sensors} sensors of {scale.rate:,.0f} events a "
        f"second, {scale.children} children, count and mean, 100 ms heartbeats and replication",
        ["events", "events/s", "cores", "lowest", "highest", "sensors", "children", "root",
         "CPU s a million events", "largest child (MB)", "slowest window (ms)"],
        rows,
    )  # fmt: skip


def cost_of(kind: Kind, scale: Scale) -> Cost:
    """Measured over whole windows, and all of those recalculated."""
    size = scale.input_window * 1_000_000
    keyed = {"keyed": True} if kind.keys else {}
    queries = {
        name: {"aggregate": name, "size": f"{scale.input_window}s", **keyed}
        for name in ("count", "mean")
    }
    with (
        TemporaryDirectory(prefix="holdfast-edge-") as folder,
        running(
            Path(folder),
            kind,
            sensors=scale.sensors,
            children=scale.children,
            rate=scale.rate,
            queries=queries,
        ) as (trial, begun),
    ):
        trial.wait(lambda: all(trial.fleet.report(name).exists() for name in trial.layout.sensors))
        # From here on all sensors take part; the next whole window is complete.
        start = (int(time.time() * 1e6) // size + 2) * size
        trial.sleep_to(start)
        before, since = cpu_by_role(trial), time.monotonic()
        end = start + scale.input_windows * size
        trial.sleep_to(end)
        after, seconds = cpu_by_role(trial), time.monotonic() - since
        trial.wait_for_window(end, 60)
        windows = [each for each in trial.windows() if start <= each["start"] < end]
        _check(trial, begun, windows)
        memory = max(status["memory"] for status in statuses(trial).values())
    counts = [window["answer"] for window in windows if window["query"] == "count"]
    events = sum(sum(each.values()) if kind.keys else each for each in counts)
    return Cost(
        events / (end - start) * 1e6,
        {role: (after[role] - before[role]) / seconds for role in ROLES},
        memory,
        max(map(latency, windows)),
    )


def _check(trial: EdgeTrial, begun: dict[str, int], windows: list[dict[str, Any]]) -> None:
    reports = trial.reports()
    if begun:
        # Of lines the sensor knows no schedule; whoever wrote them does.
        reports = [{**each, "start": begun[each["sensor"]], "left": False} for each in reports]
    wrong = Expected(trial.layout, reports).differences(windows)
    if wrong:
        raise RuntimeError(f"the cost of wrong answers: {wrong[0]}")
