"""Seeds on several processes at once.

Each worker has a pipe of its own and takes one seed at a time. It ends when its pipe closes, so no
worker outlives the process that started it, however that one ends.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, Final

from simulator.campaign.result import Result

Run = Callable[[int], Result]
"""What to do with a seed; it is sent to other processes."""

SPAWN: Final = get_context("spawn")


def run_seeds(seeds: Sequence[int], run: Run, workers: int) -> Generator[Result, None, None]:
    """The results of the seeds, in the order in which they come.

    Close the iterator to end the workers early. One worker is this process itself.
    """
    if workers == 1:
        yield from map(run, seeds)
        return
    waiting = iter(seeds)
    busy: dict[Any, _Worker] = {}

    def give(worker: _Worker, seed: int) -> None:
        busy[worker.pipe] = worker
        worker.give(seed)

    try:
        for seed in islice(waiting, workers):
            give(_Worker(run), seed)
        while busy:
            for pipe in wait(list(busy)):
                worker = busy[pipe]
                yield worker.take()
                del busy[pipe]
                following = next(waiting, None)
                if following is None:
                    worker.end()
                    continue
                if worker.is_dead:
                    worker.end()
                    worker = _Worker(run)
                give(worker, following)
    finally:
        for worker in busy.values():
            worker.end()


class _Worker:
    """A process, our end of its pipe, and the seed it has."""

    def __init__(self, run: Run) -> None:
        self.pipe, theirs = SPAWN.Pipe()
        self.process = SPAWN.Process(target=_work, args=(theirs, run), daemon=True)
        with _interrupts_ignored():
            self.process.start()
        theirs.close()
        self.is_dead = False

    def give(self, seed: int) -> None:
        self.seed = seed
        # If it died, `take` will tell.
        with suppress(OSError):
            self.pipe.send(seed)

    def take(self) -> Result:
        try:
            result: Result = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            self.is_dead = True
            problem = f"its process died, with exit code {self.process.exitcode}"
            return Result(self.seed, (problem,))
        return result

    def end(self) -> None:
        self.pipe.close()
        self.process.terminate()
        self.process.join()


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Processes that start meanwhile ignore Ctrl-C for good: who started them ends them."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _work(pipe: Connection, run: Run) -> None:
    with suppress(EOFError, OSError):
        while True:
            pipe.send(run(pipe.recv()))
