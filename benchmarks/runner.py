"""The command line of the benchmarks: runs one part here, or each of them in its own process."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from rich.console import Console

from benchmarks import parts
from benchmarks.report import Report
from harness.parts import REPOSITORY, UnknownPartError, load_part, part_names, prepare_part

__all__ = ["main"]

RESULTS = REPOSITORY / "benchmarks" / "results"


def main(
    arguments: list[str],
    folder: ModuleType = parts,
    results: Path = RESULTS,
    console: Console | None = None,
) -> int:
    """Run what the arguments ask for; 0 if every claim holds, 1 if one does not, 2 on bad usage."""
    names = part_names(folder)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure, print tables and claims, write benchmarks/results/PART.json.",
        epilog=f"parts: {', '.join(names) or 'none yet'}",
    )
    parser.add_argument("part", nargs="?", help="the part to run (default: all of them)")
    wanted = parser.parse_args(arguments).part
    try:
        if wanted is None:
            return run_all(names)
        return run_part(load_part(folder, wanted), wanted, results, console or Console())
    except UnknownPartError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def run_part(part: ModuleType, name: str, results: Path, console: Console) -> int:
    prepare_part(part)
    report = Report(name, console)
    part.run(report)
    report.print_claims()
    report.write(results)
    return 0 if report.holds else 1


def run_all(names: list[str]) -> int:
    """Run every part in a fresh process, so that none inherits another's heap or JVM."""
    if not names:
        raise UnknownPartError("there is nothing to run: benchmarks/parts has no parts yet")
    failed = [name for name in names if subprocess.call([sys.executable, "-m", "benchmarks", name])]
    if failed:
        print(f"error: these parts failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0
