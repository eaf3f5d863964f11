"""Published cases: the figures of Akka's GCounterSpec and PNCounterSpec (akka-distributed-data) and
of Baquero's delta-tests.cc (delta-enabled-crdts)."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest

from holdfast.crdt import GCounter, PerReplica, PNCounter, Shared
from holdfast.edge.machine.aggregates import aggregate
from holdfast.errors import InvalidArgumentError


def counted(*steps: tuple[str, float]) -> GCounter:
    return reduce(lambda state, step: state.join(state.increment(*step)), steps, GCounter())


def moved(*steps: tuple[str, float]) -> PNCounter:
    def step(state: PNCounter, replica: str, by: float) -> PNCounter:
        delta = state.increment(replica, by) if by > 0 else state.decrement(replica, -by)
        return state.join(delta)

    return reduce(lambda state, each: step(state, *each), steps, PNCounter())


def test_akka_increments_by_one_and_their_deltas() -> None:
    c1 = GCounter()
    d2 = c1.increment("1")
    c2 = c1.join(d2)
    c3 = c2.join(c2.increment("1"))
    assert d2.counts == {"1": 1}
    assert c1.join(d2) == c2
    group = d2.join(c2.increment("1"))
    assert group.counts == {"1": 2}
    assert c2.join(group) == c3
    c5 = reduce(lambda state, _: state.join(state.increment("2")), range(2), c3)
    d6 = c5.increment("2")
    assert d6.counts == {"2": 3}
    assert c5.join(d6).counts == {"1": 2, "2": 3}


def test_akka_increments_by_any_number_and_their_value() -> None:
    c6 = counted(("1", 3), ("1", 4), ("2", 2), ("2", 7), ("2", 1))
    assert c6.counts == {"1": 7, "2": 10}
    assert c6.value() == 17


MERGES: list[tuple[list[tuple[str, float]], list[tuple[str, float]], dict[str, float]]] = [
    (
        [("1", 3), ("1", 4), ("2", 2), ("2", 7), ("2", 1)],
        [("1", 2), ("1", 2), ("2", 3), ("2", 2), ("2", 1)],
        {"1": 7, "2": 10},
    ),
    (
        [("1", 2), ("1", 2), ("2", 2), ("2", 7), ("2", 1)],
        [("1", 3), ("1", 4), ("2", 3), ("2", 2), ("2", 1)],
        {"1": 7, "2": 10},
    ),
    ([("1", 3), ("1", 4)], [("2", 5), ("2", 1)], {"1": 7, "2": 6}),
]


@pytest.mark.parametrize(("one", "other", "both"), MERGES)
def test_akka_merges_both_ways(
    one: list[tuple[str, float]], other: list[tuple[str, float]], both: dict[str, float]
) -> None:
    a, b = counted(*one), counted(*other)
    assert a.join(b).counts == b.join(a).counts == both
    assert a.join(b).value() == sum(both.values())


def test_akka_prunes_a_gcounter() -> None:
    """After the pruning Akka lets the pruned node write on and cleans up later; here it is refused,
    and its old entries do not come back."""
    c3 = counted(("1", 1), ("2", 1))
    assert (set(c3.counts), c3.value()) == ({"1", "2"}, 2)
    c4 = c3.join(c3.retire("1", "2"))
    assert (set(c4.counts), c4.value()) == ({"2"}, 2)
    with pytest.raises(InvalidArgumentError, match="retired"):
        c4.increment("1")
    c5 = c4.join(counted(("1", 2)))
    assert (set(c5.counts), c5.value()) == ({"2"}, 2)


def test_akka_increments_of_a_pncounter() -> None:
    c1 = PNCounter()
    c2 = c1.join(c1.increment("1"))
    delta = c2.increment("1")
    assert delta.value() == 2
    c6 = moved(("1", 1), ("1", 1), ("2", 1), ("2", 1), ("2", 1))
    assert c6.increments.counts == {"1": 2, "2": 3}
    assert moved(("1", 3), ("1", 4), ("2", 2), ("2", 7), ("2", 1)).increments.counts == {
        "1": 7,
        "2": 10,
    }


def test_akka_decrements_of_a_pncounter() -> None:
    c1 = PNCounter()
    c2 = c1.join(c1.decrement("1"))
    delta = c2.decrement("1")
    assert delta.value() == -2
    assert delta.decrements.counts == {"1": 2}
    c6 = moved(("1", -3), ("1", -4), ("2", -2), ("2", -7), ("2", -1))
    assert c6.decrements.counts == {"1": 7, "2": 10}


def test_akka_merges_a_pncounter_both_ways() -> None:
    """The case in which a versioned register answers 5 one way and 1 the other."""
    one = moved(("1", 3), ("1", -2), ("2", 5), ("2", -2), ("2", 1))
    other = moved(("1", 2), ("1", -3), ("2", 3), ("2", -2), ("2", 1))
    assert (one.increments.value(), one.decrements.value(), one.value()) == (9, 4, 5)
    assert (other.increments.value(), other.decrements.value(), other.value()) == (6, 5, 1)
    for both in (one.join(other), other.join(one)):
        assert (both.increments.value(), both.decrements.value(), both.value()) == (9, 5, 4)


def test_akka_prunes_a_pncounter() -> None:
    c3 = moved(("1", 1), ("2", -1))
    c4 = c3.join(c3.retire("1", "2"))
    assert set(c4.increments.counts) | set(c4.decrements.counts) == {"2"}
    assert c4.value() == c3.value() == 0
    assert c4.join(moved(("1", 3))) == c4


@pytest.mark.parametrize(
    ("one", "other", "value"),
    [
        (counted(("idx", 1), ("idx", 4)), counted(("idy", 1), ("idy", 1)), 7),
        (moved(("2", 3.5), ("2", -1)), moved(("5", 1), ("5", 1)), 4.5),
    ],
)
def test_baquero_counters_and_redundant_joins(one: Any, other: Any, value: float) -> None:
    """gcounter<> and pncounter<int, float>; o4 joins the deltas of o1 into both once more."""
    o3 = one.join(other)
    o4 = one.join(one).join(other.join(one))
    assert o3 == o4
    assert o3.value() == value


def test_baquero_maxord() -> None:
    bottom = Shared(aggregate("max"))
    one, other = (
        reduce(lambda state, v: state.join(state.add(np.array([v]))), values, bottom)
        for values in ([6.0, 3.0], [5.0, 10.0])
    )
    assert one.value() == 6
    assert one.join(other).value() == other.join(one).value() == 10
    assert one.join(one).join(other.join(one)) == one.join(other)


def test_the_same_cases_as_events_in_an_aggregate() -> None:
    """GCounter 7 as a count of unit events, PNCounter 4.5 as a sum of signed ones."""
    x = PerReplica(aggregate("count"))
    x = x.join(x.add("idx", np.ones(1))).join(x.add("idy", np.ones(2)))
    x = x.join(x.add("idx", np.ones(4)))
    assert x.value() == 7
    s = PerReplica(aggregate("sum"))
    s = s.join(s.add("2", np.array([3.5, -1.0]))).join(s.add("5", np.array([1.0, 1.0])))
    assert s.value() == 4.5
