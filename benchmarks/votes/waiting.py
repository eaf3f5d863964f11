"""How long a bucket waits for a decision, in virtual time: the same figures on any machine.

Copies of a bucket arrive after its end, each replica's with a delay of its own. What a gate adds is
what it waits for; what it calculates is in the other table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from benchmarks.votes.reading import REPLICAS
from holdfast.pipeline.gates import Copy, First, Gate, Latest, Release, Sample, Vote, VoteLatest
from holdfast.pipeline.gates.sample import KEY_BYTES

__all__ = ["CASES", "Case", "Waited", "wait"]

PERIOD: Final = 1.0
"""Seconds from one bucket to the next."""
USUAL: Final = 0.2
"""Seconds that a copy takes: at least half of it, twice as much on average."""
NOTICED: Final = 0.5
"""Seconds until a crash is known."""


@dataclass(frozen=True)
class Case:
    """What is wrong with the first replica."""

    slower: float = 1.0
    crashes: bool = False
    lies: bool = False


CASES: Final[Mapping[str, Case]] = {
    "none": Case(),
    "one ten times slower": Case(slower=10),
    "one crashes": Case(crashes=True),
    "one lies": Case(lies=True),
}


@dataclass(frozen=True)
class Waited:
    """Delays of the buckets that came through, in seconds, and how many did not or were wrong."""

    delays: tuple[float, ...]
    skipped: int
    wrong: int

    def quantile(self, share: float) -> float:
        return sorted(self.delays)[int(share * (len(self.delays) - 1))]


def _gate(policy: str) -> Gate:
    match policy:
        case "vote":
            return Vote(REPLICAS)
        case "vote-latest":
            return VoteLatest(REPLICAS)
        case "sample":
            return Sample(REPLICAS, key=bytes(KEY_BYTES))
        case "first":
            return First(REPLICAS)
        case _:
            return Latest(REPLICAS)


def wait(policy: str, case: Case, buckets: int, seed: int = 1) -> Waited:
    """Let the copies of so many buckets arrive; a crash is half-way."""
    gate = _gate(policy)
    delays: list[float] = []
    wrong = 0
    told = False
    for moment, copy in sorted(_arrivals(case, buckets, Random(seed)), key=lambda each: each[0]):
        if case.crashes and isinstance(gate, Sample) and not told:
            crashed = buckets / 2 * PERIOD + NOTICED
            if moment >= crashed:
                gate.fail(REPLICAS[:1])
                told = True
        for command in gate.take(copy):
            if isinstance(command, Release):
                delays.append(moment - (command.bucket + 1) * PERIOD)
                wrong += command.digest != b"right"
    return Waited(tuple(delays), buckets - len(delays), wrong)


def _arrivals(case: Case, buckets: int, random: Random) -> Iterator[tuple[float, Copy]]:
    for at, name in enumerate(REPLICAS):
        last = 0.0
        for bucket in range(buckets):
            if case.crashes and at == 0 and bucket >= buckets / 2:
                break
            slower = case.slower if at == 0 else 1.0
            took = slower * USUAL * (0.5 + random.expovariate(2))
            # A replica publishes in order.
            last = max(last, (bucket + 1) * PERIOD + took)
            said = b"wrong" if case.lies and at == 0 else b"right"
            yield last, Copy(name, bucket, said)
