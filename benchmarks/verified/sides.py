"""Two runs at the same time, each on half of the cores: what slows the machine slows both."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

__all__ = ["side_by_side"]

T = TypeVar("T")


def side_by_side(
    first: Callable[[Path], T], second: Callable[[Path], T], folder: Path, number: int
) -> tuple[T, T]:
    """What both give; each has a folder of its own. They change their cores with the number."""
    cores = sorted(os.sched_getaffinity(0))
    halves = [cores[::2], cores[1::2] or cores]
    if number % 2:
        halves.reverse()
    # Processes that begin anew, with their own children to wait for.
    with ProcessPoolExecutor(2, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        given = [
            pool.submit(_run, run, folder / side, half)
            for run, side, half in zip((first, second), ("one", "other"), halves, strict=True)
        ]
        one, other = (each.result() for each in given)
    return one, other


def _run(run: Callable[[Path], T], folder: Path, cores: list[int]) -> T:
    os.sched_setaffinity(0, cores)
    folder.mkdir(exist_ok=True)
    return run(folder)
