"""When a stream begins that several replicas publish."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from holdfast.pipeline.machine.states import State
from holdfast.pipeline.machine.vote_subscription import Barrier

WELL, GONE = State.STABLE, State.FAILURE


def states(there: int) -> Mapping[str, State]:
    return {name: WELL if at < there else GONE for at, name in enumerate("wxyz")}


@pytest.mark.parametrize(
    ("there", "waited", "begins"),
    [
        (4, 0, True),
        (3, 0, False),
        (3, 99, False),
        (3, 100, True),
        (2, 100, False),
        (2, 9999, False),
    ],
)
def test_when_it_begins(there: int, waited: int, begins: bool) -> None:
    barrier = Barrier(enough=3, patience=100)
    assert not barrier.look(states(0), 1000)
    assert barrier.look(states(there), 1000 + waited) is begins
    assert barrier.missing == tuple("wxyz"[there:])


def test_once_begun_it_goes_on_whoever_is_gone() -> None:
    barrier = Barrier(enough=3, patience=100)
    assert barrier.look(states(4), 0)
    assert barrier.look(states(1), 1)


def test_replicas_that_correct_are_there() -> None:
    assert Barrier(3, 100).look({"w": WELL, "x": State.STABILIZATION, "y": State.UP_FAILURE}, 0)


def test_without_patience_there_is_none() -> None:
    assert Barrier(3, 0).look(states(0), 0)
