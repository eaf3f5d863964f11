"""Verified jobs: what it costs that four replicas check each other, with faults and without.

All replicas share this machine's cores, so that every copy slows the others down; ratios are taken
within a round. A verified job is compared with as many copies that do not check each other, at the
moment when so many of them have written their result as must agree. Time begins with the first
process, so that the start of Python and Spark is in all figures. What verification adds to it, and
the start of a replica in place of one that has crashed, is the same for all jobs, whatever their
length: so what they cost is measured with a job of minutes, and modes and lies with one of a fifth
of its readings. All JVMs have the options of short-lived ones, as everywhere in the harness.

One that waits leaves its core to the others here, so that all modes take as long as there is to
compute. That one is not slower than another can be told only as far as runs of one and the same
differ: by 3 %. Where nobody shares a core it is exact: that is another table, in virtual time.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import partial
from operator import truediv
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.report import Report
from benchmarks.timing import Spread
from benchmarks.verified.apart import TAKES, complete, complete_copies
from benchmarks.verified.runs import Taken, run_copies, run_killed, run_verified
from harness.verified.billing import write_billing
from harness.verified.holds import Hold, Seen
from harness.verified.lies import Lie, Wrong
from holdfast.protocol.verification import Mode

USES_SPARK = True
REPLICAS: Final = 4
NEEDED: Final = 3
ROUNDS: Final = 3
"""Against copies and with a crash; modes against each other and corruption that spreads twice, with
one liar each once."""
SAME: Final = 1.03
"""As far as two runs of one and the same differ here: more than that is slower."""
ALL_COPIES: Final = f"{REPLICAS} copies unverified"
COPIES: Final = f"{ALL_COPIES}, {NEEDED} done"
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

Runs = dict[str, Callable[[], Taken]]


def run(report: Report) -> None:
    is_smoke = os.environ.get("HOLDFAST_BENCH") == "smoke"
    rounds = 1 if is_smoke else ROUNDS
    large: dict[str, list[Taken]] = {}
    small: dict[str, list[Taken]] = {}
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        folder = Path(name)
        many, few, minutes = (6, 3, 15) if is_smoke else (2000, 400, 1)
        file = write_billing(folder / "job", meters=many, days=2, minutes=minutes)
        for number in range(rounds):
            report.progress(f"{many} meters, round {number + 1} of {rounds}")
            _round(report, large, _large_runs(file, folder), number)
        file = write_billing(folder / "job", meters=few, days=2, minutes=minutes)
        for number in range(min(rounds, 2)):
            report.progress(f"{few} meters, modes, round {number + 1}")
            _round(report, small, _modes(file, folder), number)
        report.progress(f"{few} meters, one copy and one liar")
        _round(report, small, _faulty_runs(file, folder), 0)
    _report_apart(report, 50 if is_smoke else 1000)
    _tabulate(report, f"{many} meters", large)
    _tabulate(report, f"{few} meters", small)
    _report_runs(report, large, small)


def _report_runs(
    report: Report, large: dict[str, list[Taken]], small: dict[str, list[Taken]]
) -> None:
    seconds = _seconds(large)
    _claim(report, "no faults", seconds, HYBRID, COPIES, 1.06)
    _claim(report, "one of four crashes", seconds, CRASHED, HYBRID, 1.05)
    seconds = _seconds(small)
    _claim(report, "no faults", seconds, HYBRID, "non-blocking", SAME)
    _claim(report, "no faults", seconds, HYBRID, "blocking", SAME)
    spread = {mode: f"{mode}, {SPREAD}" for mode in Mode}
    what = "corruption spreads"
    _claim(report, what, seconds, spread[Mode.HYBRID], spread[Mode.BLOCKING], SAME)
    _claim(report, what, seconds, spread[Mode.HYBRID], spread[Mode.NON_BLOCKING], 1.0)


def _large_runs(file: Path, folder: Path) -> Runs:
    return {
        ALL_COPIES: partial(run_copies, file, folder, REPLICAS),
        HYBRID: partial(run_verified, file, folder, Mode.HYBRID),
        CRASHED: partial(run_verified, file, folder, Mode.HYBRID, CRASH),
    }


def _modes(file: Path, folder: Path) -> Runs:
    """Without faults and where corruption spreads."""
    runs: Runs = {}
    for mode in Mode:
        runs[f"{mode}"] = partial(run_verified, file, folder, mode)
        runs[f"{mode}, {SPREAD}"] = partial(run_verified, file, folder, mode, TWO, LATE)
    return runs


def _faulty_runs(file: Path, folder: Path) -> Runs:
    alone: list[float] = []

    def run_alone() -> Taken:
        taken = run_copies(file, folder, 1)
        alone.append(taken.seconds[0])
        return taken

    runs: Runs = {
        "1 copy": run_alone,
        KILLED: lambda: run_killed(file, folder, 0.8 * alone[-1]),
    }
    for mode in Mode:
        runs[f"{mode}, {LIAR}"] = partial(run_verified, file, folder, mode, ONE)
    return runs


def _round(report: Report, taken: dict[str, list[Taken]], runs: Runs, number: int) -> None:
    """Each once, in the other order in every other round: what slows the machine down over time
    slows all of them alike."""
    for what, run_it in list(runs.items())[:: 1 if number % 2 == 0 else -1]:
        taken.setdefault(what, []).append(found := run_it())
        report.progress(f"  {what}: {found.seconds[0]:.1f} s")


def _seconds(taken: dict[str, list[Taken]]) -> dict[str, list[float]]:
    found = {what: [each.seconds[0] for each in runs] for what, runs in taken.items()}
    # A job is verified when enough agree: its peer is the copy by which so many are done.
    if ALL_COPIES in taken:
        found[COPIES] = [each.seconds[NEEDED - 1] for each in taken[ALL_COPIES]]
    return found


def _tabulate(report: Report, job: str, taken: dict[str, list[Taken]]) -> None:
    rows: list[list[object]] = []
    seconds = _seconds(taken)
    for what, runs in taken.items():
        name = COPIES if what == ALL_COPIES else what
        spread = Spread.of(seconds[name])
        processors = median(each.processors for each in runs)
        again = ", ".join(str(each.again) for each in runs)
        rows.append([name, spread.median, spread.low, spread.high, processors, again])
    report.table(
        f"{job}, 2 days, a reading a minute: seconds until the result is there, and of processors "
        "until all is over",
        ["run", "median s", "low", "high", "processors s", "computed again"],
        rows,
    )


def _report_apart(report: Report, seeds: int) -> None:
    copies = [complete_copies(seed) for seed in range(seeds)]
    rows: list[list[object]] = [["none", ALL_COPIES, median(copies), 1.0, 0]]
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
        _claim_ratios(report, f"apart, {fault}", list(ratios), HYBRID, "blocking", 1.0)
    ratios = map(truediv, found[SPREAD, Mode.HYBRID], found[SPREAD, Mode.NON_BLOCKING])
    _claim_ratios(report, f"apart, {SPREAD}", list(ratios), HYBRID, "non-blocking", 1.0)


def _claim(
    report: Report,
    name: str,
    seconds: dict[str, list[float]],
    what: str,
    peer: str,
    bound: float,
) -> None:
    """Within each round; what ran once is compared with the median of what ran in all."""
    mine, theirs = seconds[what], seconds[peer]
    if len(mine) != len(theirs):
        mine, theirs = [median(mine)], [median(theirs)]
    _claim_ratios(report, name, list(map(truediv, mine, theirs)), what, peer, bound)


def _claim_ratios(
    report: Report, name: str, ratios: list[float], what: str, peer: str, bound: float
) -> None:
    found = Spread.of(ratios)
    report.claim(
        f"{name}: time of {what}", found.median, bound, peer, at_least=False, spread=found.range
    )
