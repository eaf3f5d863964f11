"""A window on disk in a process of its own, which is killed again and again and always resumes.

Run as a module, it is that process: it slides the window and prints position and answer.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from holdfast.disk import DiskStore
from holdfast.windows import Amta, open_window, policies
from holdfast.windows import monoids as m

__all__ = ["Crash", "survive_kills"]

POLICY = policies.last(3_000)


@dataclass(frozen=True)
class Crash:
    """How the killed window's answers compare with an uninterrupted one's."""

    kills: int
    answers: int
    repeated: int
    different: int


def reading(number: int) -> float:
    """The same odd-looking reading for the same number, whoever asks."""
    return (number * 7919 % 10_007) / 97


def survive_kills(folder: Path, updates: int, kills: int, seed: int = 1) -> Crash:
    """Kill the sliding process at random moments, let it resume, compare all it ever answered."""
    shutil.rmtree(folder, ignore_errors=True)
    moments = random.Random(seed)
    given: list[tuple[int, str]] = []
    for _ in range(kills):
        given += answers_until(folder, updates, moments.randrange(1, updates // kills))
    given += answers_until(folder, updates, None)
    window = Amta(m.mean)
    right = list(map(repr, window.roll(map(reading, range(updates)), POLICY)))
    answered = {position for position, _ in given}
    return Crash(
        kills=kills,
        answers=len(answered),
        repeated=len(given) - len(answered),
        different=sum(answer != right[position - 1] for position, answer in given)
        + len(set(range(1, updates + 1)) - answered),
    )


def answers_until(folder: Path, updates: int, kill_after: int | None) -> list[tuple[int, str]]:
    """What one process answers until it is killed after so many answers, or until it is done."""
    command = [sys.executable, "-m", "holdfast.demo.crash", str(folder), str(updates)]
    given: list[tuple[int, str]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if not line.endswith("\n"):
                break  # cut short by the kill
            position, answer = line.split()
            given.append((int(position), answer))
            if len(given) == kill_after:
                process.kill()
    if kill_after is None and process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return given


def slide_on(folder: Path, updates: int) -> None:
    """Resume the window, or begin, and slide it over the first `updates` readings."""
    with DiskStore(folder) as store:
        window = open_window(m.mean, store, "demo", buffer=64, cache=64)
        for number in range(window.position, updates):
            window.insert(reading(number))
            window.slide(POLICY)
            print(window.position, repr(window.result()), flush=True)
        window.checkpoint()


if __name__ == "__main__":
    # Ctrl-C reaches this process too, and its reader may be gone: it ends without a traceback.
    for ending in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(ending, signal.SIG_DFL)
    slide_on(Path(sys.argv[1]), int(sys.argv[2]))
