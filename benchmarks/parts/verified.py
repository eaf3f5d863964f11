"""Verified jobs: what it costs that four replicas check each other, with faults and without.

All replicas share this machine's cores, so that every copy slows the others down; ratios are taken
within a round. A verified job is compared with as many copies that do not check each other, at the
moment when so many of them were done as must agree. Time begins with the first process, so that the
start of Spark is in all figures alike.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.report import Report
from benchmarks.timing import Spread
from benchmarks.verified.runs import run_copies, run_killed, run_verified
from harness.verified.billing import write_billing
from harness.verified.lies import Lie, Wrong
from holdfast.protocol.verification import Mode

USES_SPARK = True
REPLICAS: Final = 4
NEEDED: Final = 3
CRASH: Final = (Lie(1, "charges", Wrong.CRASH),)
ONE: Final = (Lie(1, "hourly", Wrong.VALUE, sticky=True),)
SPREAD: Final = (*ONE, Lie(2, "charges", Wrong.VALUE, sticky=True))
"""One fault in each of two stages that follow each other."""


def run(report: Report) -> None:
    is_smoke = os.environ.get("HOLDFAST_BENCH") == "smoke"
    rounds, meters = (1, 5) if is_smoke else (5, 500)
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        folder = Path(name)
        file = write_billing(folder / "job", meters=meters, days=1 if is_smoke else 7)
        for number in range(1, rounds + 1):
            report.progress(f"round {number} of {rounds}")
            for what, taken in _round(file, folder).items():
                seconds.setdefault(what, []).append(taken)
    report.table(
        "billing, seconds until the result is there (median, lowest, highest)",
        ["run", "median", "low", "high"],
        [[what, *vars(Spread.of(taken)).values()] for what, taken in seconds.items()],
    )
    _claim(report, seconds)


def _round(file: Path, folder: Path) -> dict[str, float]:
    (alone,) = run_copies(file, folder, 1)
    copies = run_copies(file, folder, REPLICAS)
    found = {
        "1 copy": alone,
        f"{REPLICAS} copies unverified, {NEEDED} done": copies[NEEDED - 1],
        f"{REPLICAS} copies unverified, all done": copies[-1],
    }
    for mode in Mode:
        found[f"{mode}"] = run_verified(file, folder, mode)
        found[f"{mode}, 1 liar"] = run_verified(file, folder, mode, ONE)
        found[f"{mode}, a liar in each of 2 stages"] = run_verified(file, folder, mode, SPREAD)
    found["hybrid, 1 crash"] = run_verified(file, folder, Mode.HYBRID, CRASH)
    found["1 copy, killed near its end and begun again"] = run_killed(file, folder, 0.8 * alone)
    return found


def _claim(report: Report, seconds: dict[str, list[float]]) -> None:
    def ratio(what: str, peer: str) -> Spread:
        pairs = zip(seconds[what], seconds[peer], strict=True)
        return Spread.of([mine / theirs for mine, theirs in pairs])

    unverified = f"{REPLICAS} copies unverified, {NEEDED} done"
    spread = "a liar in each of 2 stages"
    for name, what, peer, bound in (
        ("hybrid without faults", "hybrid", unverified, 1.06),
        ("hybrid without faults", "hybrid", "non-blocking", 1.03),
        ("hybrid without faults", "hybrid", "blocking", 1.0),
        ("hybrid, corruption spread", f"hybrid, {spread}", f"non-blocking, {spread}", 1.0),
        ("hybrid, one crash", "hybrid, 1 crash", "hybrid", 1.05),
    ):
        found = ratio(what, peer)
        report.claim(f"{name}, time", found.median, bound, peer, at_least=False, spread=found.range)
