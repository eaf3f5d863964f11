"""A crash in the middle of 800,000 tuples: at least once without a gate, exactly once with one.

The comparison of the founding document, which counted 803,809 tuples behind an operator that goes
on from its last checkpoint, and 800,000 behind one whose copies are numbered.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, zip_longest

import pytest

from holdfast.pipeline.gates import First, Gate, Vote
from holdfast.pipeline.gates.gate import Copy, Release

TUPLES = 800_000
CHECKPOINT = 10_000
"""Tuples between two checkpoints."""
CRASH = 403_809
"""Tuples that are out when the operator is killed."""
BUCKET = 100


def checkpointed(crashes: int | None) -> Iterator[int]:
    """What an operator sends that is started again from its last checkpoint."""
    if crashes is None:
        return iter(range(TUPLES))
    return chain(range(crashes), range(crashes // CHECKPOINT * CHECKPOINT, TUPLES))


def buckets(crashes: int | None) -> Iterator[int]:
    """The same, as one that sends whole buckets: that in which it was killed comes later."""
    whole = (each for each in _whole(checkpointed(crashes)) if len(each) == BUCKET)
    return (each[0] // BUCKET for each in whole)


def _whole(sent: Iterator[int]) -> Iterator[tuple[int, ...]]:
    """Tuples of one bucket that were sent side by side."""
    held: list[int] = []
    for each in sent:
        if held and each != held[-1] + 1:
            held.clear()
        held.append(each)
        if each % BUCKET == BUCKET - 1:
            yield tuple(held)
            held.clear()


def test_from_a_checkpoint_tuples_come_again() -> None:
    received = list(checkpointed(CRASH))
    assert len(received) == 803_809
    assert sorted(set(received)) == list(range(TUPLES))


@pytest.mark.parametrize(
    ("gate", "count"), [(First(("r0", "r1")), 2), (Vote([f"r{at}" for at in range(4)]), 4)]
)
def test_behind_a_gate_each_comes_once_and_in_order(gate: Gate, count: int) -> None:
    """The first replica is killed; the others are a few buckets behind it."""
    lines = [buckets(CRASH), *(chain([None] * at, buckets(None)) for at in range(1, count))]
    released = [
        command.bucket
        for turn in zip_longest(*lines)
        for at, bucket in enumerate(turn)
        if bucket is not None
        for command in gate.take(Copy(f"r{at}", bucket, str(bucket).encode()))
        if isinstance(command, Release)
    ]
    assert released == list(range(TUPLES // BUCKET))
