"""Two runs at the same time, each on half of the cores: what slows the machine slows both.

Cores are not equally fast, and which of them is slower changes within minutes: by a tenth, where
machines are virtual. So the two change places every few seconds, and see the same of it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from threading import Event, Thread
from typing import Final, TypeVar

from benchmarks.processes import family_of

__all__ = ["side_by_side"]

T = TypeVar("T")

EVERY: Final = 2.0
"""Seconds between two changes."""


def side_by_side(
    first: Callable[[Path], T], second: Callable[[Path], T], folder: Path
) -> tuple[T, T]:
    """What both give; each has a folder of its own."""
    # Processes that begin anew, with their own children to wait for.
    with ProcessPoolExecutor(2, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        given = [
            pool.submit(_run, run, folder / side, number)
            for number, (run, side) in enumerate(((first, "one"), (second, "other")))
        ]
        one, other = (each.result() for each in given)
    return one, other


def _run(run: Callable[[Path], T], folder: Path, side: int) -> T:
    cores = sorted(os.sched_getaffinity(0))
    halves = [cores[::2], cores[1::2] or cores]
    ending = Event()
    os.sched_setaffinity(0, halves[side])

    def change_places() -> None:
        while not ending.wait(EVERY - time.monotonic() % EVERY):
            # By the clock of the machine: both do it at the same time.
            half = halves[(side + round(time.monotonic() / EVERY)) % len(halves)]
            for thread in _threads(os.getpid()):
                with suppress(OSError):
                    os.sched_setaffinity(thread, half)

    changing = Thread(target=change_places)
    changing.start()
    try:
        folder.mkdir(exist_ok=True)
        return run(folder)
    finally:
        ending.set()
        changing.join()


def _threads(root: int) -> Iterator[int]:
    """Those of a process and of all that it or they have started."""
    for process in family_of(root):
        # One may end while we look at it.
        with suppress(OSError):
            yield from map(int, os.listdir(f"/proc/{process}/task"))
