"""Verified jobs: what it costs that four replicas check each other, with faults and without.

What is compared runs at the same time, each on half of the cores, which they exchange every few
seconds: what slows the machine or a core down slows both. All replicas of a job share its cores, so
that every copy slows the others down. A verified job is compared with as many copies that do not
check each other, at the moment when so many of them have written their result as must agree. Time
begins with the first process, so that the start of Python and Spark is in all figures. What
verification adds to it, and the start of a replica in place of one that has crashed, is the same
for all jobs, whatever their length: so what they cost is measured with a job of minutes, and modes
and lies with a job of fewer readings. All JVMs have the options of short-lived ones, as all of the
harness.

One that waits leaves its core to the others here, so that all modes take as long as there is to
compute. That one is not slower than another can be told only as far as runs of one and the same
differ: by 3 %. Where nobody shares a core it is exact: that is another table, in virtual time.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from operator import truediv
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.report import Report
from benchmarks.timing import Spread
from benchmarks.verified.apart import TAKES, complete, complete_copies
from benchmarks.verified.runs import Taken, run_copies, run_killed, run_verified
from benchmarks.verified.sides import side_by_side
from harness.verified.billing import write_billing
from harness.verified.holds import Hold, Seen
from harness.verified.lies import Lie, Wrong
from holdfast.verify.machine import Mode

USES_SPARK = True
REPLICAS: Final = 4
NEEDED: Final = 3
SAME: Final = 1.03
"""As far as two runs of one and the same differ here: more than that is slower."""
COPIES: Final = f"{REPLICAS} copies unverified, {NEEDED} done"
ALONE: Final = "1 copy"
HYBRID: Final = "hybrid"
LIAR: Final = "1 liar"
SPREAD: Final = "a liar in each of 2 stages"
CRASHED: Final = "hybrid, 1 crash"
KILLED: Final = "1 copy, killed near its end and begun again"

CRASH: Final = (Lie(1, "charges", Wrong.CRASH),)
ONE: Final = (Lie(1, "hourly", Wrong.VALUE, sticky=True),)
TWO: Final = (Lie(1, "hourly", Wrong.VALUE), Lie(2, "charges", Wrong.VALUE))
"""One fault in each of two stages that follow each other."""
LATE: Final = tuple(Hold(other, "hourly", Seen(1, "hourly", "made")) for other in (3, 4))
"""The corruption spreads where it can: nothing is agreed upon before the liar goes on."""

APART: Final = {
    "none": (),
    LIAR: ((1, "hourly"),),
    SPREAD: ((1, "hourly"), (2, "charges")),
    "2 liars in one stage": ((1, "hourly"), (2, "hourly")),
}
"""Who is wrong at what, where all have machines of their own."""

Run = Callable[[Path], Taken]


@dataclass
class Pair:
    """Two that are compared, and what they took in each round."""

    what: str
    peer: str
    bound: float | None = None
    """At most so many times as long as the peer, if that is claimed."""
    about: str = ""
    rounds: int = 1
    taken: list[tuple[Taken, Taken]] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        return [_seconds(self.what, what) / _seconds(self.peer, peer) for what, peer in self.taken]


def run(report: Report) -> None:
    is_smoke = os.environ.get("HOLDFAST_BENCH") == "smoke"
    minutes = 15 if is_smoke else 1
    large, small = _large_pairs(), _small_pairs()
    jobs = [(6, 2, large), (3, 1, small)] if is_smoke else [(1500, 4, large), (400, 2, small)]
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        folder = Path(name)
        for meters, days, pairs in jobs:
            job = f"{meters} meters, {days} days"
            file = write_billing(folder / job, meters=meters, days=days, minutes=minutes)
            _measure(report, job, pairs, _runs(file), folder, is_smoke=is_smoke)
    _report_apart(report, 50 if is_smoke else 1000)
    for meters, days, pairs in jobs:
        _tabulate(report, f"{meters} meters, {days} days, a reading in {minutes} min", pairs)
    for pair in (*large, *small):
        if pair.bound is not None:
            _claim(report, pair.about, pair.ratios, pair.what, pair.peer, pair.bound)


def _large_pairs() -> list[Pair]:
    return [
        Pair(HYBRID, COPIES, 1.06, "no faults", rounds=3),
        Pair(CRASHED, HYBRID, 1.05, "one of four crashes", rounds=3),
    ]


def _small_pairs() -> list[Pair]:
    """Modes, lies, and what verification adds to a short job. Where corruption spreads, what was
    begun from something wrong and thrown away takes time from the others here: so hybrid is held
    against blocking in virtual time alone."""
    spread = {mode: f"{mode}, {SPREAD}" for mode in Mode}
    return [
        Pair(HYBRID, "non-blocking", SAME, "no faults", rounds=4),
        Pair(HYBRID, "blocking", SAME, "no faults", rounds=2),
        Pair(spread[Mode.HYBRID], spread[Mode.NON_BLOCKING], 1.0, "corruption spreads", rounds=2),
        Pair(spread[Mode.HYBRID], spread[Mode.BLOCKING]),
        *(Pair(f"{mode}, {LIAR}", f"{mode}") for mode in Mode),
        Pair(HYBRID, COPIES),
        Pair(KILLED, ALONE),
    ]


def _runs(file: Path) -> dict[str, Run]:
    runs: dict[str, Run] = {
        COPIES: partial(run_copies, file, count=REPLICAS),
        CRASHED: partial(run_verified, file, mode=Mode.HYBRID, lies=CRASH),
        ALONE: partial(run_copies, file, count=1),
        KILLED: partial(run_killed, file),
    }
    for mode in Mode:
        runs[f"{mode}"] = partial(run_verified, file, mode=mode)
        runs[f"{mode}, {LIAR}"] = partial(run_verified, file, mode=mode, lies=ONE)
        runs[f"{mode}, {SPREAD}"] = partial(run_verified, file, mode=mode, lies=TWO, holds=LATE)
    return runs


def _measure(
    report: Report,
    job: str,
    pairs: list[Pair],
    runs: dict[str, Run],
    folder: Path,
    *,
    is_smoke: bool,
) -> None:
    for pair in pairs:
        rounds = 1 if is_smoke else pair.rounds
        for number in range(rounds):
            report.progress(f"{job}, round {number + 1} of {rounds}: {pair.what}, {pair.peer}")
            pair.taken.append(side_by_side(runs[pair.what], runs[pair.peer], folder))
            report.progress(f"  {pair.ratios[-1]:.3f} times as long")


def _seconds(name: str, taken: Taken) -> float:
    # A job is verified when enough agree: its peer is the copy by which so many are done.
    return taken.seconds[NEEDED - 1 if name == COPIES else 0]


def _tabulate(report: Report, job: str, pairs: list[Pair]) -> None:
    rows: list[list[object]] = []
    for pair in pairs:
        for at, name in enumerate((pair.what, pair.peer)):
            runs = [each[at] for each in pair.taken]
            spread = Spread.of([_seconds(name, each) for each in runs])
            processors = median(each.processors for each in runs)
            again = ", ".join(str(each.again) for each in runs)
            beside = (pair.peer, pair.what)[at]
            rows.append([name, beside, spread.median, spread.low, spread.high, processors, again])
    report.table(
        f"{job}: seconds until the result is there, and of processors until all is over",
        ["run", "beside", "median s", "low", "high", "processors s", "computed again"],
        rows,
    )


def _report_apart(report: Report, seeds: int) -> None:
    copies = [complete_copies(seed) for seed in range(seeds)]
    rows: list[list[object]] = [["none", f"{REPLICAS} copies unverified", median(copies), 1.0, 0]]
    found: dict[tuple[str, Mode], list[float]] = {}
    for fault, lies in APART.items():
        for mode in Mode:
            runs = [complete(mode, seed, lies) for seed in range(seeds)]
            seconds = found[fault, mode] = [each for each, _ in runs]
            ratio = median(map(truediv, seconds, copies))
            rows.append([fault, str(mode), median(seconds), ratio, max(each for _, each in runs)])
    report.table(
        f"machines of their own, virtual time, {seeds:,} jobs of three stages of "
        f"{', '.join(f'{each:g}' for each in TAKES.values())} s, which vary by a tenth",
        ["fault", "run", "median s", "of copies", "computed again"],
        rows,
    )
    for fault in APART:
        ratios = map(truediv, found[fault, Mode.HYBRID], found[fault, Mode.BLOCKING])
        _claim(report, f"apart, {fault}", list(ratios), HYBRID, "blocking", 1.0)
    ratios = map(truediv, found[SPREAD, Mode.HYBRID], found[SPREAD, Mode.NON_BLOCKING])
    _claim(report, f"apart, {SPREAD}", list(ratios), HYBRID, "non-blocking", 1.0)


def _claim(
    report: Report, name: str, ratios: list[float], what: str, peer: str, bound: float
) -> None:
    found = Spread.of(ratios)
    report.claim(
        f"{name}: time of {what}", found.median, bound, peer, at_least=False, spread=found.range
    )
