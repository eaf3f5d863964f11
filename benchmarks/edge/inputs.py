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
from holdfast.edge.fleet import Fleet
from holdfast.edge.plant import Expected
from holdfast.edge.runner import SUPERVISOR

__all__ = ["KINDS", "Cost", "FedFleet", "Kind", "cost_of", "fed_trial", "report_inputs"]

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


class FedFleet(Fleet):
    """Sensors with `input = "jsonl"` get lines from a process each."""

    def start(self, *names: str) -> None:
        for name in names:
            if self.layout.role(name) != "sensor":
                super().start(name)
                continue
            settings = self.layout.sensors[name]
            self.begun[name] = int(time.time() * 1e6)
            feed = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.edge.feed", name, str(self.begun[name]),
                 str(settings.rate), str(settings.seed), str(settings.keys)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )  # fmt: skip
            self.feeds.append(feed)
            command = [sys.executable, "-m", "holdfast", "edge", "sensor", str(self.file), name]
            with self.log(name).open("ab") as log:
                self.processes[name] = subprocess.Popen(
                    [*command, "--report", str(self.report(name))],
                    stdin=feed.stdout,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, SUPERVISOR: str(os.getpid())},
                    start_new_session=True,
                )
            assert feed.stdout is not None
            feed.stdout.close()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.feeds: list[subprocess.Popen[bytes]] = []
        self.begun: dict[str, int] = {}
        """When the first event of each sensor was."""

    def close(self) -> None:
        super().close()
        for feed in self.feeds:
            feed.terminate()
            feed.wait()


@contextmanager
def fed_trial(folder: Path, kind: Kind, **plant: Any) -> Iterator[EdgeTrial]:
    """An edge whose sensors have events of this kind."""
    trial = EdgeTrial(folder, keys=kind.keys, **plant)
    if kind.is_json:
        text = trial.file.read_text().replace("rate =", 'input = "jsonl"\nrate =')
        trial.file.write_text(text)
        trial.layout = type(trial.layout).read(trial.file)
        trial.fleet = FedFleet(trial.layout, trial.file, trial.fleet.folder)
    with trial:
        yield trial


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
        fed_trial(
            Path(folder),
            kind,
            sensors=scale.sensors,
            children=scale.children,
            rate=scale.rate,
            queries=queries,
        ) as trial,
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
        _check(trial, windows)
        memory = max(status["memory"] for status in statuses(trial).values())
    counts = [window["answer"] for window in windows if window["query"] == "count"]
    events = sum(sum(each.values()) if kind.keys else each for each in counts)
    return Cost(
        events / (end - start) * 1e6,
        {role: (after[role] - before[role]) / seconds for role in ROLES},
        memory,
        max(map(latency, windows)),
    )


def _check(trial: EdgeTrial, windows: list[dict[str, Any]]) -> None:
    reports = trial.reports()
    if isinstance(trial.fleet, FedFleet):
        # Of lines the sensor knows no schedule; whoever wrote them does.
        begun = trial.fleet.begun
        reports = [{**each, "start": begun[each["sensor"]], "left": False} for each in reports]
    wrong = Expected(trial.layout, reports).differences(windows)
    if wrong:
        raise RuntimeError(f"the cost of wrong answers: {wrong[0]}")
