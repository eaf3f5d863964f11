"""Processes that are started to be killed, with everything they have started themselves.

Used by the campaigns and the live tests that need Spark in other processes. Each is the leader of a
Unix session of its own, by which its JVM and its Python workers are found: these are in process
groups of their own.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.parts import REPOSITORY
from harness.waiting import wait_for
from holdfast.spark.sessions import SHORT_LIVED

__all__ = ["JAVA_OPTIONS", "Family", "Member", "spark_environment"]

JAVA_OPTIONS = "SPARK_SUBMIT_OPTS"
"""Where tests say how JVMs start sooner."""
SHOWN = 20
"""Lines of a log that an error shows."""


@dataclass(frozen=True)
class Member:
    """A live process of a family."""

    pid: int
    command: str

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


class Family:
    """A process and its descendants. Used as a context, it leaves none behind."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        *,
        log: str,
        orders: bytes | None = None,
    ) -> None:
        """Runs in the folder and writes all it says to the log there. If it is given `orders` to
        read, its standard input stays open."""
        self.log = folder / log
        with self.log.open("ab") as output:
            self._leader = subprocess.Popen(
                list(command),
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL if orders is None else subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        if self._leader.stdin is not None and orders is not None:
            self._leader.stdin.write(orders)
            self._leader.stdin.flush()

    @property
    def status(self) -> int | None:
        """How the leader has ended, if it has."""
        return self._leader.poll()

    @property
    def leader(self) -> Member:
        return Member(self._leader.pid, " ".join(map(str, self._leader.args)))  # type: ignore[arg-type]

    def members(self, mark: str = "") -> list[Member]:
        """Those alive whose command line contains the mark, oldest first."""
        return [member for member in _of_session(self._leader.pid) if mark in member.command]

    def send(self, number: signal.Signals) -> None:
        """Send all a signal."""
        for member in self.members():
            with suppress(ProcessLookupError):
                os.kill(member.pid, number)

    def terminate(self) -> None:
        """Ask the leader to end."""
        self._leader.terminate()

    def kill(self) -> None:
        """Kill all and wait until they are gone."""
        wait_for(lambda: f"the end of {self.members()}", self._is_killed, 30)

    def wait_gone(self, seconds: float) -> None:
        """Wait until all have ended by themselves."""
        wait_for(
            lambda: f"the end of {self.members()}",
            lambda: self.status is not None and not self.members(),
            seconds,
        )

    def _is_killed(self) -> bool:
        members = self.members()
        for member in members:
            member.kill()
        return not members and self.status is not None

    def tail(self) -> str:
        """What the log says of errors, and its end."""
        lines = self.log.read_text(errors="replace").splitlines()
        errors = [line for line in lines if re.search(r"(Error|Exception)\b(?!.*\.scala)", line)]
        return "\n".join(line[:300] for line in [*errors[-SHOWN:], "...", *lines[-SHOWN:]])

    def __enter__(self) -> Family:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        if self._leader.stdin is not None:
            self._leader.stdin.close()


def spark_environment(folder: Path) -> dict[str, str]:
    """For a process with Spark in it: this Python, loopback, and no files outside the folder.

    A JVM that is killed leaves its temporary files behind; these go with the folder.
    """
    temporary = folder / "temporary"
    temporary.mkdir(exist_ok=True)
    kept = {
        name: value
        for name, value in os.environ.items()
        if name == JAVA_OPTIONS or not name.startswith("SPARK_")
    }
    paths = [str(REPOSITORY), kept.get("PYTHONPATH", "")]
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(temporary),
        "TMPDIR": str(temporary),
        "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={temporary} {SHORT_LIVED}",
    }


def _of_session(leader: int) -> Iterator[Member]:
    for pid in sorted(int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
        # A process may end while we look at it.
        with suppress(FileNotFoundError, ProcessLookupError):
            # After the name, which may contain anything: state, parent, group, session.
            state, _, _, session = _read(pid, "stat").rpartition(")")[2].split()[:4]
            if int(session) == leader and state not in "ZX":
                yield Member(pid, _read(pid, "cmdline").replace("\0", " "))


def _read(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
