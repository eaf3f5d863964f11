"""The highest sustained rate of events that are arrays already, and what it says of replication.

An event is an element of two arrays here, without a key: nothing is parsed, and no event is an
object. `inputs` measures events as JSON lines with keys. Sensors offer more than can be taken, and
back-pressure holds them.

Two edges are started once, one with neither heartbeats nor replication and one with both every
100 ms. Then they run in turns of a few seconds, off, on, on, off, while all processes of the other
are stopped: whatever else the machine does meanwhile is shared by both, and no start counts. What
is compared are the four turns of a round. What counts is what is in the root's windows, over the
time in which they came; beside it stands the processor time that all processes took for it. A turn
in which a sensor kept to its schedule has measured what was offered and not what can be taken: the
part then fails.

The difference between the two is a table and no claim. "off" is not "on" without its work: without
replication nothing is ever safe, so that its sensors must forget events frame by frame
(at-most-once), which makes taking an event about a tenth dearer for them, and turns of one
configuration differ by more than the two do. That does not explain all of the difference that one
run showed (a third); its cause is not known. What heartbeats and replication cost is measured by
`grid`, at a rate that both sides take.
"""

from __future__ import annotations

import signal
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.edge.meters import cpu_by_role, sent, statuses
from benchmarks.edge.scale import Scale
from benchmarks.report import Report
from benchmarks.timing import Spread
from harness.edge import EdgeTrial

__all__ = ["report_rates"]

BUFFER: Final = 1_000_000
"""Events for each partition: at this rate, and twice that, what is not replicated yet. With fewer
sensors would wait for that, and not for the processors."""
OFF: Final = {"detection": False, "guarantee": "at-most-once", "buffer": BUFFER}
"""Without replication nothing is ever safe, so sensors keep nothing of what they have sent."""
ON: Final = {"detection": True, "buffer": BUFFER}
RAW: Final = 16
"""Bytes of an event in a frame: its time and its value."""
PANE: Final = "100ms"
"""Of event time: behind schedule it takes longer."""
SETTLE: Final = 0.7
"""Seconds after a turn begins that do not count."""
CHECKED: Final = 100
"""Windows at the end that are recalculated."""
ROUND: Final = ("off", "on", "on", "off")
NAMES: Final = {"off": "off", "on": "both every 100 ms"}


@dataclass(frozen=True)
class Turn:
    rate: float
    cpu: float
    """Seconds of processors, of all nodes, for a million events."""
    memory: int
    """Bytes, of the largest child."""
    replicated: float
    """Bytes a second that children sent each other to replicate, and to say they are alive."""
    beats: float
    """And as heartbeats alone."""
    raw: float
    """Bytes a second, had they sent the events themselves to the same peers."""
    takeovers: int
    behind: float
    """Seconds by which the sensor that is least behind its schedule has fallen behind meanwhile."""


def report_rates(report: Report, scale: Scale) -> None:
    turns: dict[str, list[Turn]] = {name: [] for name in NAMES}
    losses, costs = [], []
    with ExitStack() as stack:
        # As Ctrl-C: processes that stand still would outlive this one.
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        stack.callback(signal.signal, signal.SIGTERM, before)
        trials = {
            name: stack.enter_context(_stopped(scale, settings))
            for name, settings in (("off", OFF), ("on", ON))
        }
        for number in range(scale.rounds):
            report.progress(f"rate, round {number + 1} of {scale.rounds}")
            here: dict[str, list[Turn]] = {name: [] for name in NAMES}
            for name in ROUND:
                here[name].append(_turn(scale, trials[name]))
            for name, found in here.items():
                turns[name] += found
            off, on = (_mean([turn.rate for turn in here[name]]) for name in ("off", "on"))
            losses.append(100 * (1 - on / off))
            off, on = (_mean([turn.cpu for turn in here[name]]) for name in ("off", "on"))
            costs.append(100 * (on / off - 1))
        for trial in trials.values():
            _check(trial)
    _report(report, turns, Spread.of(losses), Spread.of(costs))


def _check(trial: EdgeTrial) -> None:
    """That the newest windows are right: of thousands of millions of events not all are made again
    here."""
    wrong = trial.expected().differences(trial.windows()[-CHECKED:])
    if wrong:
        raise RuntimeError(f"the rate of wrong answers: {wrong[0]}")


def _mean(figures: list[float]) -> float:
    return statistics.geometric_mean(figures)


def _report(report: Report, turns: dict[str, list[Turn]], loss: Spread, cost: Spread) -> None:
    rates = {name: Spread.of([turn.rate for turn in found]) for name, found in turns.items()}
    report.table(
        "Highest sustained rate of un-keyed events from arrays",
        ["heartbeats and replication", "events/s", "lowest", "highest", "CPU s a million events",
         "largest child (MB)", "replicated (KB/s)", "heartbeats (KB/s)", "false take-overs",
         "sensors fell behind (s)"],
        [
            [
                NAMES[name],
                rates[name].median,
                rates[name].low,
                rates[name].high,
                statistics.median(turn.cpu for turn in found),
                max(turn.memory for turn in found) / 1e6,
                max(turn.replicated for turn in found) / 1e3,
                max(turn.beats for turn in found) / 1e3,
                max(turn.takeovers for turn in found),
                min(turn.behind for turn in found),
            ]
            for name, found in turns.items()
        ],
    )  # fmt: skip
    report.table(
        "Both against neither at the highest rate, by rounds, in %; no claim (see rates.py)",
        ["what", "median", "lowest", "highest"],
        [
            ["events a second, less", loss.median, loss.low, loss.high],
            ["processor time an event, more", cost.median, cost.low, cost.high],
        ],
    )
    report.claim(
        "un-keyed events a second from arrays, with both on",
        rates["on"].median,
        1_000_000,
        "the bound of the design",
        spread=rates["on"].range,
    )
    memory = Spread.of([turn.memory / 1e6 for turn in turns["on"]])
    report.claim(
        "memory of a child at that rate",
        memory.high,
        80,
        "the bound of the design",
        at_least=False,
        spread=memory.range,
        unit=" MB",
    )
    less = Spread.of([turn.raw / turn.replicated for turn in turns["on"]])
    report.claim(
        "bytes replicated, times less",
        less.median,
        100,
        "the events themselves, 16 bytes each, to the same peers",
        spread=less.range,
    )


@contextmanager
def _stopped(scale: Scale, settings: Mapping[str, Any]) -> Iterator[EdgeTrial]:
    """An edge that has begun, and stands still."""
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
            _signal(trial, signal.SIGSTOP)
            try:
                yield trial
            finally:
                _signal(trial, signal.SIGCONT)


def _turn(scale: Scale, trial: EdgeTrial) -> Turn:
    _signal(trial, signal.SIGCONT)
    time.sleep(SETTLE)
    before, lag, seen = statuses(trial), _lag(trial), _counts(trial)
    since, used = time.monotonic(), sum(cpu_by_role(trial).values())
    time.sleep(scale.measured)
    used = sum(cpu_by_role(trial).values()) - used
    seconds = time.monotonic() - since
    windows = _counts(trial)[len(seen) :]
    after = statuses(trial)
    behind = min(now - lag[name] for name, now in _lag(trial).items())
    _signal(trial, signal.SIGSTOP)
    if scale.saturates and behind < scale.measured / 10:
        raise RuntimeError(
            f"a sensor fell only {behind:.2f} s behind: the rate is what was offered, not the "
            "highest; let Scale.offered be larger"
        )
    counted = sum(window["answer"] for window in windows[1:])
    rate = counted / ((windows[-1]["at"] - windows[0]["at"]) / 1e6)

    return Turn(
        rate,
        used / seconds / rate * 1e6,
        max(status["memory"] for status in after.values()),
        sent(before, after, "Payload") / seconds,
        sent(before, after, "Beat") / seconds,
        rate * RAW * (scale.children - 1),
        sum(status["takeovers"] for status in after.values()),
        behind,
    )


def _signal(trial: EdgeTrial, number: int) -> None:
    for name in trial.fleet.processes:
        trial.fleet.signal(name, number)


def _counts(trial: EdgeTrial) -> list[dict[str, Any]]:
    return [window for window in trial.windows() if window["query"] == "count"]


def _lag(trial: EdgeTrial) -> dict[str, float]:
    """Seconds that each sensor is behind its schedule."""
    return {each["sensor"]: (each["at"] - each["newest"]) / 1e6 for each in trial.reports()}
