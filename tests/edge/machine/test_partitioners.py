"""Every event goes to one partition, in order, by each way of dividing."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.edge.machine.backlog import partitioner
from holdfast.errors import InvalidArgumentError

KEYS = np.array([f"k{number % 7}" for number in range(50)], dtype=object)


@pytest.mark.parametrize("name", ["round-robin", "hash", "random", "primary"])
@pytest.mark.parametrize("taken", [0, 3, 1_000_001])
def test_every_event_goes_to_one(name: str, taken: int) -> None:
    choose = partitioner(name, "s", [0, 1, 2], np.random.default_rng(1))
    places = [np.arange(50)[choice].tolist() for choice in choose(taken, KEYS, 50)]
    assert sorted(each for place in places for each in place) == list(range(50))
    assert all(place == sorted(place) for place in places)


def test_round_robin_goes_on_where_it_was() -> None:
    choose = partitioner("round-robin", "s", [0, 1, 2], None)
    assert [np.arange(2)[choice].tolist() for choice in choose(2, None, 2)] == [[1], [], [0]]


def test_a_key_has_its_place_everywhere() -> None:
    for sensor in ("s", "t"):
        places = partitioner("hash", sensor, [0, 1, 2], None)(0, KEYS, 50)
        of_keys = [set(KEYS[choice]) for choice in places]
        assert sum(len(keys) for keys in of_keys) == 7


def test_what_it_needs() -> None:
    with pytest.raises(InvalidArgumentError, match="rng"):
        partitioner("random", "s", [0], None)
    with pytest.raises(InvalidArgumentError, match="round-robin, hash, random or primary"):
        partitioner("best", "s", [0], None)


def test_a_hash_divides_events_without_a_key_too() -> None:
    choices = partitioner("hash", "s", [0, 1, 2], None)(0, None, 7)
    assert sorted(len(range(7)[each]) for each in choices if isinstance(each, slice)) == [0, 0, 7]
