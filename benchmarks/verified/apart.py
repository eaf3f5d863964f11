"""Replicas on machines of their own, in virtual time: the same figures on any machine.

Where replicas share the cores of one machine, one that waits makes the others faster, so that it
hardly shows whether a mode waits. Here nobody slows anybody down. What is decided, and what is
computed next, decide the real verifier and the real replicas' rule; how long a stage takes is made
up, and differs from one replica to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from hashlib import sha256
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Final

from holdfast.verify.machine import (
    Agreed,
    Compute,
    Computed,
    Holder,
    JobState,
    Mode,
    Model,
    Plan,
    Quorum,
    Report,
    Rules,
    Verifier,
    is_stale,
    next_steps,
)

__all__ = ["TAKES", "complete", "complete_copies"]

TAKES: Final = {"hourly": 60.0, "charges": 30.0, "bills": 20.0}
"""Seconds of a usual replica for each stage."""
VARIES: Final = 0.1
"""By how much: the deviation of the logarithm."""
MESSAGE: Final = 0.05
"""Seconds until a verifier has heard something, or a replica has heard of it."""
PLAN: Final = Plan({"hourly": (), "charges": ("hourly",), "bills": ("charges",)}, 1)
QUORUM: Final = Quorum(Model.BYZANTINE, 1)


def complete_copies(seed: int) -> float:
    """Seconds until so many copies that do not check each other are done as must agree."""
    done = sorted(sum(_takes(seed, each, stage, 1) for stage in TAKES) for each in QUORUM.numbers)
    return done[QUORUM.needed - 1]


def complete(mode: Mode, seed: int, lies: Collection[tuple[int, str]] = ()) -> tuple[float, int]:
    """Seconds until all is verified, and how often something was computed again. `lies`: replicas
    that are wrong at a stage, the first time. They are the first to come to it."""
    world = _World(mode, seed, lies)
    world.run()
    again = max(sum(verdict.run) for verdict in world.verifier.standing().verdicts.values())
    return world.now, again


def _takes(seed: int, replica: int, stage: str, time: int) -> float:
    """The same in all modes."""
    random = Random(f"{seed}/{replica}/{stage}/{time}")
    return TAKES[stage] * random.lognormvariate(0, VARIES)


class _World:
    def __init__(self, mode: Mode, seed: int, lies: Collection[tuple[int, str]]) -> None:
        self.now = 0.0
        rules = Rules(mode=mode, patience=1e6, limit=1e6)
        self.verifier = Verifier("job", PLAN, QUORUM, rules)
        self._mode = mode
        self._seed = seed
        self._lies = frozenset(lies)
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._number = count()
        self._computed: dict[int, dict[str, Computed]] = {each: {} for each in QUORUM.numbers}
        self._times: dict[tuple[int, str], int] = {}
        self._busy: dict[int, Compute] = {}

    def run(self) -> None:
        for replica in QUORUM.numbers:
            self._at(0.0, partial(self._look, replica))
        while self.verifier.state is JobState.RUNNING:
            self.now, _, call = heappop(self._queue)
            call()
        assert self.verifier.state is JobState.DONE, self.verifier.failure

    def _at(self, delay: float, call: Callable[[], None]) -> None:
        heappush(self._queue, (self.now + delay, next(self._number), call))

    def _look(self, replica: int) -> None:
        """See whether there is something to do, or something to be done no more."""
        standing, computed = self.verifier.standing(), self._computed[replica]
        busy = self._busy.get(replica)
        if busy and not is_stale(PLAN, self._mode, replica, standing, computed, busy):
            return
        self._busy.pop(replica, None)
        for step in next_steps(PLAN, self._mode, replica, standing, computed)[:1]:
            self._busy[replica] = step
            key = (replica, step.stage)
            self._times[key] = self._times.get(key, 0) + 1
            self._at(self._duration(*key), partial(self._finish, replica, step))

    def _duration(self, replica: int, stage: str) -> float:
        if (replica, stage) in self._lies and self._times[replica, stage] == 1:
            return min(_takes(self._seed, each, stage, 1) for each in QUORUM.numbers) - MESSAGE
        return _takes(self._seed, replica, stage, self._times[replica, stage])

    def _finish(self, replica: int, step: Compute) -> None:
        if self._busy.get(replica) is not step:
            return
        said = sha256(step.stage.encode() + step.basis)
        key = (replica, step.stage)
        if key in self._lies and self._times[key] == 1:
            said.update(b"wrong")
        digest, host, path = said.digest(), f"host {replica}", f"job/{replica}/{step.stage}"
        report = Report(
            job="job",
            stage=step.stage,
            run=step.run,
            slice=0,
            replica=replica,
            host=host,
            path=path,
            digest=digest,
            rows=1,
            basis=step.basis,
        )
        own = Agreed(digest, 1, (Holder(replica, host, path),))
        self._computed[replica][step.stage] = Computed(step.run, step.digests, (own,))
        del self._busy[replica]
        self._at(MESSAGE, partial(self._hear, report))
        self._look(replica)

    def _hear(self, report: Report) -> None:
        self.verifier.report(report, self.now)
        for replica in QUORUM.numbers:
            self._at(MESSAGE, partial(self._look, replica))
