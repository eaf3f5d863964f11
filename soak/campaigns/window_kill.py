"""Windows on disk whose process is killed again and again, against one that was never killed.

A child process slides a window over a series of numbers and says each result. It is killed with
SIGKILL while it does, started again, and goes on from where the store has the window. On the way
it forks tentative windows and drops them, and now and then drops the base instead.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness.parts import REPOSITORY
from holdfast.disk import DiskStore
from holdfast.windows import Amta, Monoid, Policy
from holdfast.windows.policies import last, two_argument
from holdfast.windows.stores.stored import open_window

__all__ = ["DESCRIPTION", "run"]

DESCRIPTION = "kill -9 of a process with a window on disk; it resumes with the same results"

DEADLINE = 60.0

# Plain float sums: any other order of additions shows in the last bits.
FLOATS: Monoid[float, float, float] = Monoid(
    "floats", 0.0, float, lambda older, newer: older + newer, float
)


class Case:
    """What is fed, and what is done after each update: all of it follows from the seed."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.seed = seed
        self.length = rng.randrange(200, 1200)
        self.sizes = [rng.choice([1, 2, 3, 10, 64, 100, 500]) for _ in range(8)]
        self.buffer = rng.choice([2, 16, 64, 256])
        self.cache = rng.choice([0, 4, 64, 256])
        self.threads = rng.choice([0, 1, 2])
        self.fork_every = rng.choice([7, 50, 211])
        self.replace_every = rng.choice([23, 173, 10**9])
        self.kills = rng.randrange(1, 5)

    def value(self, number: int) -> float:
        return random.Random(self.seed * 1_000_003 + number).lognormvariate(0, 9)

    def policy(self, number: int) -> Policy:
        size = self.sizes[number // 100 % len(self.sizes)]
        if number % 3:
            return last(size)
        return two_argument(lambda total, old: total.size - old.size >= size)


def slide(case: Case, window: Amta[Any, Any, Any]) -> Iterator[tuple[int, str]]:
    """Each position from the window's on, and the result there to the bit."""
    fork: Amta[Any, Any, Any] | None = None
    for number in range(window.position, case.length):
        if number % case.fork_every == 0 or number % case.replace_every == 0:
            if fork is not None:
                fork.drop()
            if number % case.replace_every == 0:
                base, window = window, window.fork()
                base.drop()
            fork = window.fork()
        window.insert(case.value(number))
        window.slide(case.policy(number))
        if fork is not None:
            fork.insert(-1.0)
            fork.slide(last(20))
        yield number, float(window.result()).hex()


def run(seed: int) -> str:
    """Kill the child as often as the seed says, then let it end; compare all it ever said."""
    case = Case(seed)
    expected = dict(slide(case, Amta(FLOATS)))
    rng = random.Random(~seed)
    seen: set[int] = set()
    starts = []
    with TemporaryDirectory() as folder:
        for kill in range(case.kills + 1):
            typical = case.length // (case.kills + 1)
            patience = rng.randrange(2 * typical) if kill < case.kills else None
            said = watch_child(case, folder, patience)
            starts.append(check(case, expected, said, max(seen, default=-1)))
            seen.update(number for number, _ in said)
    if seen != set(expected):
        raise AssertionError(f"positions never seen: {sorted(set(expected) - seen)[:10]}")
    return f"{case.length} updates, {case.kills} kills, resumed at {starts[1:]}"


def watch_child(case: Case, folder: str, patience: int | None) -> list[tuple[int, str]]:
    """What a child says until it ends or, after `patience` lines, is killed."""
    command = [sys.executable, "-m", __name__, str(case.seed), folder]
    child = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    lines = []
    try:
        for line in child.stdout:
            lines.append(line)
            if patience is not None and len(lines) > patience:
                break
        if patience is not None:
            child.kill()
        # What it said before it died counts too; a line may have been cut short.
        lines += [line for line in child.stdout if line.endswith("\n")]
        status = child.wait(DEADLINE)
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    if status not in (0, -9) or (status == -9 and patience is None):
        raise AssertionError(f"the child ended with status {status} after {len(lines)} lines")
    return [(int(number), result) for number, result in map(str.split, lines)]


def check(
    case: Case, expected: dict[int, str], said: list[tuple[int, str]], newest: int
) -> int | None:
    """Compare what a child said, to the bit; answer where it started."""
    for number, result in said:
        if expected[number] != result:
            raise AssertionError(f"position {number}: {result}, without kills {expected[number]}")
    if not said:
        return None
    start = said[0][0]
    # A batch is written at least every `buffer` operations, and one may have been under way.
    if not newest - 2 * case.buffer - 2 <= start <= newest + 1 and newest >= 0:
        raise AssertionError(f"resumed at {start} after position {newest} had been seen")
    return start


def child(seed: int, folder: str) -> None:
    case = Case(seed)
    with ExitStack() as stack:
        store = stack.enter_context(DiskStore(Path(folder)))
        executor: Executor | None = None
        if case.threads:
            executor = stack.enter_context(ThreadPoolExecutor(case.threads))
        window = open_window(
            FLOATS, store, "killed", buffer=case.buffer, cache=case.cache, executor=executor
        )
        for number, result in slide(case, window):
            print(number, result, flush=True)


if __name__ == "__main__":
    child(int(sys.argv[1]), sys.argv[2])
