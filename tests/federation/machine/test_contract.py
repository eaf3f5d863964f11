from __future__ import annotations

import math

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.federation.machine import Contract, Contracts


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("", "b", 1, 1), "no name"),
        (("a", "a", 1, 1), "of itself"),
        (("a", "b", 1, 2), "upside down"),
        (("a", "b", 0, 0), "above 0"),
        (("a", "b", math.inf, 1), "above 0"),
        (("a", "b", math.nan, 1), "above 0"),
        (("a", "b", 1, 1, 0), "too short"),
    ],
)
def test_a_contract_that_makes_no_sense_is_refused(arguments, word: str) -> None:
    with pytest.raises(InvalidArgumentError, match=word):
        Contract(*arguments)
    with pytest.raises(InvalidArgumentError, match="no kind"):
        Contract("a", "b", 1, 1, kinds=frozenset())


def test_one_contract_for_each_pair_and_direction() -> None:
    mine = Contracts("a", [Contract("a", "b", 2, 2), Contract("b", "a", 3, 3)])
    with pytest.raises(InvalidArgumentError, match="there is one already"):
        mine.add(Contract("a", "b", 1, 1))
    with pytest.raises(InvalidArgumentError, match="not one of a"):
        mine.add(Contract("b", "c", 1, 1))
    mine.remove(Contract("a", "b", 2, 2))
    mine.add(Contract("a", "b", 1, 1))
    assert [each.high for each in mine] == [1, 3]
    with pytest.raises(InvalidArgumentError, match="none to end"):
        mine.remove(Contract("a", "c", 1, 1))


def test_the_cheapest_are_asked_first_then_the_preferred() -> None:
    mine = Contracts(
        "a",
        [
            Contract("a", "b", 3, 3),
            Contract("a", "c", 5, 1, rank=2),
            Contract("a", "d", 1, 1, rank=1),
        ],
    )
    assert [each.seller for each in mine.buying] == ["d", "c", "b"]
