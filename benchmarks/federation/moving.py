"""A stage on Spark that moves to a partner and back with its load, beside one that is restarted
elsewhere by hand from its checkpoint.

Both participants share this machine: a move relieves whom it is taken from, not the machine.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

from benchmarks.federation.scale import Scale
from benchmarks.report import Report
from harness.federation import Federated, Utility
from harness.waiting import wait_for

__all__ = ["report_moving"]

STAGE = "n1"
FULL = 2_000
"""Rows a second that take all of a participant."""
LOW, HIGH = 400, 2_400
BUCKET = 2.0
PATIENCE = 240.0
UTILITIES = {
    "north": Utility(owns=[STAGE]),
    "east": Utility(hosts=[STAGE], scale=0.2),
}


@dataclass(frozen=True)
class Change:
    """How a stage got to another place. In seconds, and input rows."""

    way: str
    relief: float
    """From the overload, or the operator's command, until it is away and up to date."""
    stall: float
    """How much later than usual its results came at worst."""
    late: float
    """Rows in results that came more than a bucket later than usual."""


def report_moving(report: Report, scale: Scale) -> None:
    if not scale.moves:
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-moving-") as name:
        stopped = Federated(Path(name), UTILITIES, duration="5s", full=FULL)
        with stopped as grid:
            changes = [*_move(report, grid, scale.moves), *_restart(report, grid, scale.moves)]
            grid.check()
    report.table(
        f"A stage on Spark at {HIGH:,} rows/s, buckets of {BUCKET:g} s, {scale.moves} times each; "
        "loads smoothed over 5 s",
        ["way", "relief, s", "later than usual, s", "rows late"],
        [[each.way, each.relief, each.stall, each.late] for each in changes],
    )
    moved, back, by_hand = (
        [each for each in changes if each.way == way] for way in ("moved", "came back", "by hand")
    )
    peer = "restarting the stage by hand from its checkpoint"
    ratios = [one.relief / other.relief for one, other in zip(moved, by_hand, strict=True)]
    report.claim(
        "time from overload to relief, with the time that loads are smoothed over",
        statistics.median(ratios),
        6,
        peer + ", by an operator who acts at once",
        at_least=False,
        spread=(min(ratios), max(ratios)),
        unit=" times",
    )
    lost = [
        one.late / max(other.late, 1)
        for some in (moved, back)
        for one, other in zip(some, by_hand, strict=True)
    ]
    report.claim(
        "rows late by a move, there or back",
        statistics.median(lost),
        0.1,
        peer,
        at_least=False,
        spread=(min(lost), max(lost)),
        unit=" times",
    )


def _move(report: Report, grid: Federated, times: int) -> list[Change]:
    """By load managers: away when it is too much, back when it is not."""
    changes = []
    grid.rates[STAGE] = LOW
    grid.agree(("north", "east"))
    grid.start("north", "east")
    wait_for("rows", grid.has_rows, PATIENCE)
    for number in range(1, times + 1):
        for way, rate, there, left in (
            ("moved", HIGH, "east", f"{STAGE}/1"),
            ("came back", LOW, "north", f"{STAGE}/2"),
        ):
            usual = _usual(grid)
            begun = time.time()
            grid.rates[STAGE] = rate
            wait_for(way, partial(_has_moved, grid, there, left), PATIENCE)
            changes.append(_measure(grid, way, begun, usual, rate))
            report.progress(f"{number}: {changes[-1]}")
    grid.end()
    return changes


def _has_moved(grid: Federated, there: str, left: str) -> bool:
    return grid.runs(STAGE) == [there] and not grid.is_answering(left)


def _restart(report: Report, grid: Federated, times: int) -> list[Change]:
    """By hand: stop it, copy its folder, start it there."""
    changes = []
    grid.rates[STAGE] = HIGH
    replicas = [f"{STAGE}/1", f"{STAGE}/2"]
    folder = grid.topology.state_folder
    grid.start_replica(replicas[0])
    begun = time.time()
    wait_for("it to be up to date", lambda: _current(grid, begun, BUCKET), PATIENCE)
    for number in range(times):
        here, there = replicas[number % 2], replicas[(number + 1) % 2]
        usual = _usual(grid)
        begun = time.time()
        family = grid.processes.pop(here)
        family.terminate()
        family.wait_gone(60)
        shutil.rmtree(folder / there, ignore_errors=True)
        shutil.copytree(folder / here, folder / there)
        grid.start_replica(there)
        changes.append(_measure(grid, "by hand", begun, usual, HIGH))
        report.progress(f"{number + 1}: {changes[-1]}")
    return changes


def _usual(grid: Federated) -> float:
    """How late results are when nothing happens: of five buckets."""
    since = time.time()
    wait_for("some buckets", lambda: len(grid.delays(STAGE, since)) >= 5, PATIENCE)
    return statistics.median(delay for _, delay, _ in grid.delays(STAGE, since))


def _current(grid: Federated, since: float, usual: float) -> list[float]:
    """When pieces came that were no later than usual, but for a bucket."""
    return [moment for moment, delay, _ in grid.delays(STAGE, since) if delay <= usual + BUCKET]


def _measure(grid: Federated, way: str, begun: float, usual: float, rate: float) -> Change:
    away = time.time()
    recovered = wait_for("results of now", lambda: _current(grid, away, usual), PATIENCE)
    over = [each - usual for each in _delays(grid, begun)]
    late = rate * BUCKET * sum(each > BUCKET for each in over)
    return Change(way, recovered[0] - begun, max(0.0, *over), late)


def _delays(grid: Federated, since: float) -> list[float]:
    """How late each bucket was that came after this time: several may come in one piece."""
    found, bucket = [], round(BUCKET * 1e6)
    pieces = grid.delays(STAGE)
    for (_, _, before), (moment, _, boundary) in pairwise(pieces):
        if moment >= since:
            ends = range(before + bucket, boundary + 1, bucket)
            found += [moment - end / 1e6 for end in ends]
    return found
