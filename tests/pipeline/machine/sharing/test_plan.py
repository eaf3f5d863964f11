"""Graphs of operators, and which make no sense."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.machine.sharing import Operator, Plan, Rules

DIAMOND = Plan(
    [
        Operator("s", ("s1", "s2"), ("a",)),
        Operator("t", ("t1",), ("c",)),
        Operator("a", ("a1",), ("b", "c")),
        Operator("b", ("b1",), ("d",)),
        Operator("c", ("c1", "c2"), ("d",)),
        Operator("d", ("d1",)),
    ]
)


def test_neighbours() -> None:
    assert DIAMOND.above("d") == ("b", "c")
    assert DIAMOND.near("a") == ("s", "a", "b", "c")
    assert DIAMOND.of("c2") == "c"
    assert DIAMOND.is_source("t")
    assert not DIAMOND.knows("x")


def test_whose_tuples_come_where() -> None:
    assert DIAMOND.origins["b"] == {"s1", "s2"}
    assert DIAMOND.origins["d"] == {"s1", "s2", "t1"}


def test_a_chain() -> None:
    plan = Plan.chain(source=1, a=2, sink=1)
    assert plan.replicas("a") == ("a/0", "a/1")
    assert plan.below("a") == ("sink",)


@pytest.mark.parametrize(
    ("operators", "message"),
    [
        ([Operator("a", ("x",)), Operator("b", ("x",))], "each replica once"),
        ([Operator("a", ("x",)), Operator("a", ("y",))], "each operator"),
        ([Operator("a", ())], "give at least 1"),
        ([Operator("a", ("x",), ("b",))], "is no operator"),
        ([Operator("a", ("x", "y"))], "is a sink; give it 1"),
        ([Operator("a", ("x",), ("b",)), Operator("b", ("y",), ("a",))], "no cycle"),
    ],
)
def test_what_makes_no_sense_is_refused(operators: list[Operator], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Plan(operators)


@pytest.mark.parametrize("name", ["hops", "capacity", "period", "missed", "retry", "nudge"])
def test_rules_that_make_no_sense_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{name} is 0; give at least 1"):
        Rules(**{name: 0})
    with pytest.raises(InvalidArgumentError, match="linger is -1"):
        Rules(linger=-1)
