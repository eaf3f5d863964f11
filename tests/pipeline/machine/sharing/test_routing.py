"""Tuples are divided over the seats, and those done again go where they went before."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from holdfast.pipeline.machine.sharing import (
    Routing,
    TupleId,
    at_random,
    by_key,
    primary,
    round_robin,
)

IDS = [TupleId("s", number, path) for number in range(1, 301) for path in ((), (0,), (1,))]


@pytest.mark.parametrize("routing", [round_robin, by_key(lambda value: value % 50)])
def test_every_seat_gets_its_share_and_again_the_same(routing: Routing) -> None:
    seats = [routing(each, each.number, 3) for each in IDS]
    assert min(Counter(seats).values()) > 150
    assert seats == [routing(each, each.number, 3) for each in IDS]


def test_the_same_key_goes_to_the_same_seat() -> None:
    routing = by_key(lambda value: value["key"])
    assert len({routing(each, {"key": "k", "n": each.number}, 4) for each in IDS}) == 1


def test_at_random_every_seat_gets_its_share() -> None:
    routing = at_random(Random(1))
    assert min(Counter(routing(each, None, 3) for each in IDS).values()) > 200


def test_the_primary_gets_all() -> None:
    assert {primary(each, None, 3) for each in IDS} == {0}
