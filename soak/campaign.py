"""Running one campaign: case after case, seed by seed, until the seeds or the time are used up."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["Failure", "Observer", "Outcome", "run_cases", "seeds_from", "until_deadline"]

ENOUGH_FAILURES = 5
"""After this many a campaign stops: more of them would hide the first ones."""


@dataclass(frozen=True)
class Failure:
    seed: int
    reason: str


@dataclass
class Outcome:
    """What a campaign has come to, so far or in the end."""

    name: str
    passed: int = 0
    failures: list[Failure] = field(default_factory=list)
    interrupted: bool = False

    def __str__(self) -> str:
        line = f"{self.name}: {self.passed} passed, {len(self.failures)} failed"
        return f"{line}, interrupted" if self.interrupted else line


class Observer(Protocol):
    """Told of every case as it goes."""

    def started(self, outcome: Outcome, seed: int) -> None: ...
    def passed(self, outcome: Outcome, seed: int, line: str) -> None: ...
    def failed(self, outcome: Outcome, failure: Failure) -> None: ...


def seeds_from(first: int, count: int | None) -> Iterator[int]:
    """Consecutive seeds, without end if `count` is None."""
    return itertools.count(first) if count is None else iter(range(first, first + count))


def until_deadline(
    seeds: Iterable[int], seconds: float, clock: Callable[[], float] = time.monotonic
) -> Iterator[int]:
    """The same seeds, ending once the time is used up (a case that has begun is finished)."""
    end = clock() + seconds
    return itertools.takewhile(lambda _: clock() < end, seeds)


def run_cases(
    name: str, case: Callable[[int], str], seeds: Iterable[int], observer: Observer
) -> Outcome:
    """Run the case of every seed and keep the score. Ctrl-C ends it in good order."""
    outcome = Outcome(name)
    try:
        for seed in seeds:
            observer.started(outcome, seed)
            try:
                line = case(seed)
            except Exception as error:
                failure = Failure(seed, f"{type(error).__name__}: {error}")
                outcome.failures.append(failure)
                observer.failed(outcome, failure)
                if len(outcome.failures) >= ENOUGH_FAILURES:
                    break
            else:
                outcome.passed += 1
                observer.passed(outcome, seed, line)
    except KeyboardInterrupt:
        outcome.interrupted = True
    return outcome
