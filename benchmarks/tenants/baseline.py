"""The engine of this revision beside that of an earlier one, in turn, by the same program."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.machine import git_revision
from benchmarks.report import Report
from benchmarks.timing import Spread
from harness.parts import REPOSITORY

__all__ = ["BASELINE", "compare"]

BASELINE = "e139b00"
"""Before issue 20: a row for each result, calculated and stored one after the other."""
SIZES = ("1:200000", "10:20000", "100:2000")
"""Hops, and updates of the burst: each makes 200,000 results, in several batches."""
ROUNDS = 3
PROGRAM = Path("benchmarks/tenants/throughput.py")
PATIENCE = 900.0
BOUND = 5


def compare(report: Report, folder: Path) -> None:
    """Rounds alternate, so that what else the machine does meets both."""
    trees = {git_revision() or "this one": REPOSITORY}
    earlier = folder / "baseline"
    if _check_out(earlier):
        trees[BASELINE] = earlier
    else:
        report.progress(f"there is no revision {BASELINE} here to compare with")
    measured: dict[str, list[list[Any]]] = {name: [] for name in trees}
    try:
        for number in range(ROUNDS):
            for name, tree in trees.items():
                report.progress(f"results a second, round {number + 1}, revision {name}")
                measured[name].append(_measured(tree))
    finally:
        if BASELINE in trees:
            _git("worktree", "remove", "--force", str(earlier))
    _show(report, measured)
    if BASELINE in trees:
        _claim(report, *measured.values())


def _show(report: Report, measured: dict[str, list[list[Any]]]) -> None:
    rows = []
    for at, size in enumerate(SIZES):
        for name, rounds in measured.items():
            some = [each[at] for each in rounds]
            rates = Spread.of([each["results"] / each["seconds"] for each in some])
            stages = {
                stage: statistics.median(each["stages"][stage] for each in some)
                for stage in some[0]["stages"]
            }
            hops, updates = map(int, size.split(":"))
            batches = statistics.median(each["batches"] for each in some)
            rows.append(
                [
                    hops,
                    updates,
                    name,
                    rates.median,
                    rates.low,
                    rates.high,
                    batches,
                    *stages.values(),
                ]
            )
    columns = ["hops", "updates", "revision", "results/s", "lowest", "highest", "batches"]
    report.table(
        "A burst through a chain, from the log to the store, on Spark; seconds of each stage",
        [*columns, "dispatch", "fetch", "operate", "store"],
        rows,
    )


def _claim(report: Report, mine: list[list[Any]], theirs: list[list[Any]]) -> None:
    for at, size in enumerate(SIZES):
        ratio = Spread.of(
            [b[at]["seconds"] / a[at]["seconds"] for a, b in zip(mine, theirs, strict=True)]
        )
        report.claim(
            f"results a second at {size.partition(':')[0]} hops",
            ratio.median,
            bound=BOUND,
            peer=f"revision {BASELINE}, in the same rounds",
            spread=ratio.range,
            unit=" times",
        )


def _check_out(tree: Path) -> bool:
    if _git("worktree", "add", "--detach", str(tree), BASELINE).returncode:
        return False
    shutil.copy(REPOSITORY / PROGRAM, tree / PROGRAM)
    return True


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", "-C", str(REPOSITORY), *arguments], capture_output=True, text=True, check=False
    )


def _measured(tree: Path) -> Any:
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.tenants.throughput", *SIZES],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}"},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    return json.loads(ended.stdout)


if __name__ == "__main__":
    import tempfile

    alone = Report("tenants-throughput")
    with tempfile.TemporaryDirectory() as place:
        compare(alone, Path(place))
    alone.print_claims()
    if len(sys.argv) > 1:
        alone.write(Path(sys.argv[1]))
