"""Whole runs, each timed from the first process to the result.

What all their processes have taken of the processors is counted too: other work on the machine
makes a run longer, but hardly takes more of them.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from harness.processes import Family, spark_environment
from harness.verified.holds import Hold, Parts
from harness.verified.lies import Lie
from holdfast.verify.machine import Mode
from holdfast.verify.process.report import Account

__all__ = ["Taken", "run_copies", "run_killed", "run_verified"]

T = TypeVar("T")

SETTINGS: Final = {
    "spark.master": "local[1]",
    # So much that nothing is spilled: whether it is depends on little things.
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.default.parallelism": "4",
}
WRITTEN: Final = "bills/_SUCCESS"
"""What Spark writes last."""
BEGUN: Final = "bills/**/part-*"
"""What it writes first of it."""
PAUSE: Final = 0.02
ORPHANS: Final = 90.0
"""Seconds for processes to come to their end, and for those that others have left behind."""
PR_SET_CHILD_SUBREAPER: Final = 36
"""Of <linux/prctl.h>."""


@dataclass(frozen=True)
class Taken:
    seconds: tuple[float, ...]
    """Until a result was there; of several copies, of the first, the second and so on."""
    processors: float
    """Seconds of them, until all processes had ended."""
    again: int = 0
    """How often a stage or the job was computed again."""


def run_copies(file: Path, folder: Path, count: int) -> Taken:
    """Unverified, all at once."""

    def run() -> tuple[float, ...]:
        begun = time.perf_counter()
        with ExitStack() as stack:
            copies = [
                stack.enter_context(_copy(file, folder, f"copy {number}"))
                for number in range(count)
            ]
            done: dict[int, float] = {}
            while len(done) < count:
                for number, copy in enumerate(copies):
                    if number not in done and _is_there(copy, folder / f"copy {number}" / WRITTEN):
                        done[number] = time.perf_counter() - begun
                time.sleep(PAUSE)
            _end(copies)
        return tuple(sorted(done.values()))

    seconds, processors = _counted(folder, run)
    return Taken(seconds, processors)


def run_killed(file: Path, folder: Path) -> Taken:
    """One copy that is killed when it writes the first rows of its result, and begins again."""

    def run() -> tuple[float, ...]:
        begun = time.perf_counter()
        with _copy(file, folder, "killed") as copy:
            while not any((folder / "killed").glob(BEGUN)):
                assert copy.status is None, copy.tail()
                time.sleep(PAUSE)
        with _copy(file, folder, "again") as copy:
            while not _is_there(copy, folder / "again" / WRITTEN):
                time.sleep(PAUSE)
            seconds = time.perf_counter() - begun
            _end([copy])
        return (seconds,)

    seconds, processors = _counted(folder, run)
    return Taken(seconds, processors)


def run_verified(
    file: Path,
    folder: Path,
    mode: Mode,
    lies: Sequence[Lie] = (),
    holds: Sequence[Hold] = (),
) -> Taken:
    """Four replicas, until their result is delivered."""
    parts = folder / "given.json"
    Parts(tuple(lies), tuple(holds)).write(parts)

    def run() -> tuple[float, Account]:
        begun = time.perf_counter()
        words = ("benchmarks.verified.submit", str(parts), str(file), str(folder), str(mode))
        with _start(folder, "verified", *words) as job:
            while not _is_there(job, folder / "output"):
                time.sleep(PAUSE)
            seconds = time.perf_counter() - begun
            _end([job])
        (account,) = (folder / "work").glob("*/account.json")
        return seconds, Account.read(account.parent)

    (seconds, account), processors = _counted(folder, run)
    again = max(run.epoch + run.attempt for run in account.runs.values())
    return Taken((seconds,), processors, again)


def _is_there(process: Family, result: Path) -> bool:
    """Whether it has written its result; it must not end before."""
    if result.exists():
        return True
    assert process.status in (None, 0), process.tail()
    return False


def _end(processes: Sequence[Family]) -> None:
    """Let them come to their end by themselves."""
    for process in processes:
        process.wait_gone(ORPHANS)
        assert process.status == 0, process.tail()


def _counted(folder: Path, run: Callable[[], T]) -> tuple[T, float]:
    """What a run gives, and the seconds of processors that all its processes have taken."""
    # Let orphans become children of this process, so that they are counted when they end.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = _processors()
    given = run()
    end = time.monotonic() + ORPHANS
    try:
        while time.monotonic() < end:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(PAUSE)
    except ChildProcessError:
        pass
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
    return given, _processors() - before


def _processors() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _copy(file: Path, folder: Path, name: str) -> Family:
    words = (str(file), str(folder / name), json.dumps(SETTINGS))
    return _start(folder, name, "benchmarks.verified.copy", *words)


def _start(folder: Path, name: str, *words: str) -> Family:
    command = [sys.executable, "-m", *words]
    return Family(command, folder, spark_environment(folder), log=f"{name}.log")
