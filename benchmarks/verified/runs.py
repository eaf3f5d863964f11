"""Whole runs, each timed from the first process to the result."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.processes import Family, spark_environment
from harness.verified.billing import small_config, verify_billing
from harness.verified.lies import Lie
from holdfast.protocol.verification import Mode

__all__ = ["run_copies", "run_killed", "run_verified"]

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


def run_copies(file: Path, folder: Path, count: int) -> list[float]:
    """Unverified, all at once: when the first was done, the second, and so on."""
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
    _clear(folder)
    return sorted(done.values())


def run_killed(file: Path, folder: Path, after: float) -> float:
    """One copy that is killed after so many seconds and begins again."""
    begun = time.perf_counter()
    with _start(file, folder, "killed") as copy:
        while time.perf_counter() - begun < after and copy.status is None:
            time.sleep(PAUSE)
    with _start(file, folder, "again") as copy:
        while copy.status is None:
            time.sleep(PAUSE)
        assert copy.status == 0, copy.tail()
    seconds = time.perf_counter() - begun
    _clear(folder)
    return seconds


def run_verified(file: Path, folder: Path, mode: Mode, lies: Sequence[Lie] = ()) -> float:
    """Four replicas, until their result is delivered."""
    account = verify_billing(file, small_config(folder, mode=mode, linger=0.0), folder, lies)
    assert account.is_verified, account.text()
    _clear(folder)
    return account.seconds


def _start(file: Path, folder: Path, name: str) -> Family:
    command = [
        *(sys.executable, "-m", "benchmarks.verified.copy"),
        *(str(file), str(folder / name), json.dumps(SETTINGS)),
    ]
    return Family(command, folder, spark_environment(folder), log=f"{name}.log")


def _clear(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and path.name != "job":
            shutil.rmtree(path, ignore_errors=True)
