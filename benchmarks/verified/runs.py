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
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from harness.processes import Family, spark_environment
from harness.verified.billing import small_config, verify_billing
from harness.verified.holds import Hold
from harness.verified.lies import Lie
from holdfast.protocol.verification import Mode

__all__ = ["Taken", "run_copies", "run_killed", "run_verified"]

T = TypeVar("T")

SETTINGS: Final = {
    "spark.master": "local[1]",
    "spark.driver.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
}
PAUSE: Final = 0.05
ORPHANS: Final = 20.0
"""Seconds for processes to end that others have left behind."""
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
        copies = [_start(file, folder, f"copy {number}") for number in range(count)]
        done: dict[int, float] = {}
        try:
            while len(done) < count:
                for number, copy in enumerate(copies):
                    if number not in done and copy.status is not None:
                        assert copy.status == 0, copy.tail()
                        done[number] = time.perf_counter() - begun
                time.sleep(PAUSE)
        finally:
            for copy in copies:
                copy.kill()
        return tuple(sorted(done.values()))

    seconds, processors = _counted(folder, run)
    return Taken(seconds, processors)


def run_killed(file: Path, folder: Path, after: float) -> Taken:
    """One copy that is killed after so many seconds and begins again."""

    def run() -> tuple[float, ...]:
        begun = time.perf_counter()
        with _start(file, folder, "killed") as copy:
            while time.perf_counter() - begun < after and copy.status is None:
                time.sleep(PAUSE)
        with _start(file, folder, "again") as copy:
            while copy.status is None:
                time.sleep(PAUSE)
            assert copy.status == 0, copy.tail()
        return (time.perf_counter() - begun,)

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
    # Without faults all come to their end, as copies do; else some never would.
    config = small_config(folder, mode=mode, linger=0.0 if lies else 60.0)
    account, processors = _counted(
        folder, lambda: verify_billing(file, config, folder, lies, holds)
    )
    assert account.is_verified, account.text()
    again = max(run.epoch + run.attempt for run in account.runs.values())
    return Taken((account.seconds,), processors, again)


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
        if path.is_dir() and path.name != "job":
            shutil.rmtree(path, ignore_errors=True)
    return given, _processors() - before


def _processors() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _start(file: Path, folder: Path, name: str) -> Family:
    command = [
        *(sys.executable, "-m", "benchmarks.verified.copy"),
        *(str(file), str(folder / name), json.dumps(SETTINGS)),
    ]
    return Family(command, folder, spark_environment(folder), log=f"{name}.log")
