"""The highest sustained rate: sensors offer more than can be taken, and back-pressure holds them.

Measured twice in turns: with neither heartbeats nor replication, and with both every 100 ms. What
counts is what is in the root's windows, over the time in which they came. A run in which a sensor
kept to its schedule has measured what was offered and not what can be taken: it is refused.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.edge.scale import Scale
from benchmarks.report import Report
from benchmarks.timing import Spread
from harness.edge import EdgeTrial

__all__ = ["report_rates"]

OFF: Final = {"detection": False, "on_full": "drop"}
"""Nothing is ever safe without replication: sensors keep what fits, and nobody asks for it."""
ON: Final = {"detection": True}
RAW: Final = 16
"""Bytes of an event in a frame: its time and its value."""
PANE: Final = "100ms"
"""Of event time: behind schedule it takes longer."""
PROTOTYPE: Final = 109_800
"""Events a second of the document's prototype."""


@dataclass(frozen=True)
class Run:
    rate: float
    memory: int
    """Bytes, of the largest child."""
    replicated: float
    """Bytes a second that children sent each other to replicate."""
    beats: float
    """And as heartbeats."""
    raw: float
    """Bytes a second, had they sent the events themselves to the same peers."""
    takeovers: int
    behind: float
    """Seconds by which the sensor that is least behind its schedule has fallen behind meanwhile."""


def report_rates(report: Report, scale: Scale) -> None:
    runs: dict[str, list[Run]] = {"off": [], "on": []}
    for number in range(scale.rounds):
        for name, settings in (("off", OFF), ("on", ON)):
            report.progress(f"rate, round {number + 1} of {scale.rounds}, both {name}")
            runs[name].append(_measure(scale, settings))
    rates = {name: Spread.of([run.rate for run in found]) for name, found in runs.items()}
    report.table(
        "Highest sustained rate",
        ["heartbeats and replication", "events/s", "lowest", "highest", "largest child (MB)",
         "replicated (KB/s)", "heartbeats (KB/s)", "false take-overs", "sensors fell behind (s)"],
        [
            [
                "off" if name == "off" else "both every 100 ms",
                rates[name].median,
                rates[name].low,
                rates[name].high,
                max(run.memory for run in found) / 1e6,
                max(run.replicated for run in found) / 1e3,
                max(run.beats for run in found) / 1e3,
                sum(run.takeovers for run in found),
                min(run.behind for run in found),
            ]
            for name, found in runs.items()
        ],
    )  # fmt: skip
    losses = [
        100 * (1 - on.rate / off.rate) for on, off in zip(runs["on"], runs["off"], strict=True)
    ]
    loss = Spread.of(losses)
    report.claim(
        "rate lost to heartbeats and replication",
        loss.median,
        3,
        "neither, in the same round",
        at_least=False,
        spread=loss.range,
        unit=" %",
    )
    report.claim(
        "events a second with both on",
        rates["on"].median,
        1_000_000,
        f"the document's prototype, {PROTOTYPE:,}",
        spread=rates["on"].range,
    )
    memory = Spread.of([run.memory / 1e6 for run in runs["on"]])
    report.claim(
        "memory of a child at that rate",
        memory.high,
        80,
        "the bound of the design",
        at_least=False,
        spread=memory.range,
        unit=" MB",
    )
    less = Spread.of([run.raw / run.replicated for run in runs["on"]])
    report.claim(
        "bytes replicated, times less",
        less.median,
        100,
        "the events themselves, 16 bytes each, to the same peers",
        spread=less.range,
    )


def _measure(scale: Scale, settings: Mapping[str, Any]) -> Run:
    with TemporaryDirectory(prefix="holdfast-edge-") as folder:
        trial = EdgeTrial(
            Path(folder),
            sensors=scale.sensors,
            children=scale.children,
            rate=scale.offered,
            queries={
                "mean": {"aggregate": "mean", "size": PANE},
                "count": {"aggregate": "count", "size": PANE},
            },
            settings=settings,
        )
        with trial:
            trial.wait(lambda: len(trial.windows()) > 20)
            before, since, lag = _statuses(trial), time.monotonic(), _lag(trial)
            seen = len(trial.windows())
            time.sleep(scale.measured)
            after, seconds = _statuses(trial), time.monotonic() - since
            behind = min(now - lag[name] for name, now in _lag(trial).items())
            windows = [each for each in trial.check()[seen:] if each["query"] == "count"]
    if scale.saturates and behind < scale.measured / 10:
        raise RuntimeError(
            f"a sensor fell only {behind:.2f} s behind: the rate is what was offered, not the "
            "highest; let Scale.offered be larger"
        )
    counted = sum(window["answer"] for window in windows[1:])
    rate = counted / ((windows[-1]["at"] - windows[0]["at"]) / 1e6)

    def grown(kind: str) -> float:
        return sum(
            (after[name]["bytes"].get(kind, 0) - before[name]["bytes"].get(kind, 0)) / seconds
            for name in after
        )

    return Run(
        rate,
        max(status["memory"] for status in after.values()),
        grown("Payload") + grown("PayloadAck"),
        grown("Beat"),
        rate * RAW * (scale.children - 1),
        sum(status["takeovers"] for status in after.values()),
        behind,
    )


def _lag(trial: EdgeTrial) -> dict[str, float]:
    """Seconds that each sensor is behind its schedule."""
    return {each["sensor"]: (each["at"] - each["newest"]) / 1e6 for each in trial.reports()}


def _statuses(trial: EdgeTrial) -> dict[str, Any]:
    return {name: trial.client.ask(name, "status", patience=10) for name in trial.layout.children}
