"""Exclusive use of a folder: one process at a time, and no Spark of an earlier one."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from holdfast.errors import StoreUnavailableError
from holdfast.storage.atomic_file import write_whole

PATIENCE = 10.0
"""Seconds for an earlier process to be gone."""


class FolderGuard:
    """Holds a folder for this process; a context manager."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._spark = folder / "spark.pid"
        self._lock = (folder / "lock").open("a")
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > deadline:
                    self._lock.close()
                    raise StoreUnavailableError(
                        f"{folder}: another process has it; stop that one first"
                    ) from None
                time.sleep(0.1)
        self._end_spark()

    def note_spark(self, pid: int) -> None:
        """This is the JVM that writes the checkpoint: it may outlive us by a moment."""
        write_whole(self._spark, f"{pid} {_began(pid)}".encode())

    def _end_spark(self) -> None:
        """A JVM whose Python was killed ends by itself, but not at once."""
        with suppress(OSError, ValueError):
            pid, began = self._spark.read_text().split()
            while _began(int(pid)) == began:
                os.kill(int(pid), signal.SIGKILL)
                time.sleep(0.05)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()


def _began(pid: int) -> str:
    """When a process was started, in the machine's own terms; numbers of processes come again."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    fields = stat.rpartition(")")[2].split()
    # A dead process that nobody has looked after yet is gone for us.
    return "" if fields[0] == "Z" else fields[19]
