"""Processes of an edge on this machine: started, watched, broken on purpose, ended.

What each says goes into a file of its own. None outlives whoever started it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, Self

from holdfast.edge.process.config import Layout
from holdfast.edge.process.runner import SUPERVISOR
from holdfast.errors import NodeEndedError

PATIENCE: Final = 5.0
"""Seconds for processes to end when they are asked to."""
PAUSES: Final = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds before a node is started again, by how often it has ended in a row."""


@dataclass
class Fleet:
    """A context manager. `options`: by node, what its command is given beyond file and name."""

    layout: Layout
    file: Path
    folder: Path
    """Where their logs and reports go."""
    options: Mapping[str, Sequence[str]] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _ended: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    def start(self, *names: str, fed: bool = False) -> IO[bytes] | None:
        """`fed`: returns the standard input of the last one, whose it is; else none has one."""
        for name in names:
            role = self.layout.role(name)
            command = [sys.executable, "-m", "holdfast", "edge", role, str(self.file), name]
            command += self.options.get(name, ())
            if role == "sensor":
                command += ["--report", str(self.report(name))]
            with self.log(name).open("ab") as log:
                self.processes[name] = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE if fed else subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, SUPERVISOR: str(os.getpid())},
                    # Ctrl-C is for whoever started them: it ends them in order.
                    start_new_session=True,
                )
        return self.processes[names[-1]].stdin if fed else None

    def start_all(self) -> None:
        """Everybody of the file, the root first."""
        layout = self.layout
        self.start("root", *layout.intermediates, *layout.children, *layout.sensors)

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def report(self, name: str) -> Path:
        """What a sensor says of itself."""
        return self.folder / f"{name}.json"

    def signal(self, name: str, number: int) -> None:
        with suppress(ProcessLookupError):
            self.processes[name].send_signal(number)

    def kill(self, *names: str) -> None:
        """As a power cut would; all of them before any is waited for."""
        for name in names:
            self.signal(name, signal.SIGKILL)
        for name in names:
            self.processes.pop(name).wait()

    def end(self, *names: str) -> None:
        """Ask them to end, and see that they do."""
        going = [(name, self.processes.pop(name)) for name in names if name in self.processes]
        for _, process in going:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.terminate()
        deadline = time.monotonic() + PATIENCE
        for _, process in going:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def check(self) -> None:
        """Raises if a process has ended that nobody ended."""
        for name, process in self.processes.items():
            code = process.poll()
            if code is not None and not (code == 0 and name in self.layout.sensors):
                said = self.log(name).read_text(errors="replace")[-2_000:]
                raise NodeEndedError(f"{name}: has ended with {code}; it said:\n{said}")

    def restart_ended(self) -> list[str]:
        """Start again what has ended by itself, after a pause that grows; who that was."""
        started = []
        now = time.monotonic()
        for name, process in list(self.processes.items()):
            code = process.poll()
            if code is None or (code == 0 and name in self.layout.sensors):
                continue
            times = self._ended.setdefault(name, [])
            if len(times) == 0 or times[-1] < 0:
                times.append(now)
            pause = PAUSES[min(len(times), len(PAUSES)) - 1]
            if now - abs(times[-1]) >= pause:
                times[-1] = -now
                self.start(name)
                started.append(name)
        return started

    def close(self) -> None:
        """The sensors first, so that none waits for children that are gone."""
        sensors = [name for name in self.processes if name in self.layout.sensors]
        self.end(*sensors)
        self.end(*list(self.processes))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
