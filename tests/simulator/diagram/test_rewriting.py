"""The stages that diagrams become, and how inputs reach their outputs."""

from __future__ import annotations

import math
from typing import Any

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.windows import monoids as m
from simulator.diagram import (
    CountWindow,
    Diagram,
    Filter,
    Join,
    Map,
    Merge,
    OrderedJoin,
    Output,
    Placed,
    StagePlan,
    Union,
    WindowAggregate,
    rewrite,
)


def is_blocked(output: Output, missing: set[str]) -> bool:
    """Whether nothing can come while these inputs are missing."""
    return any(need <= missing for need in output.needs)


def keep(row: Any) -> tuple[Any, Any]:
    return row.key, row.value


def sets(*needs: str) -> frozenset[frozenset[str]]:
    """Sets of inputs with one letter each."""
    return frozenset(frozenset(need) for need in needs)


def output_of(plan: StagePlan, stream: str) -> Output:
    return next(output for output in plan.outputs if output.stream == stream)


def test_streams_meet_in_a_fixed_order_and_cross_stages_by_name() -> None:
    window, match = WindowAggregate(60, 10, m.sum), bool
    cases = Filter((("warm", bool),), no_match="cold")
    diagram = Diagram(
        sources=("b", "a"),
        operators=(
            Placed("pairs", Join(20, match), ("hourly", "a"), "second"),  # type: ignore[arg-type]
            Placed("all", Union(), ("a", "b"), "first"),
            Placed("cases", cases, ("all",), "first"),
            Placed("hourly", window, ("warm",), "second"),
            Placed("inner", Map(keep), ("pairs",), "second"),
        ),
        outputs=("inner", "cold"),
    )
    first, second = rewrite(diagram)
    assert (first.name, first.inputs) == ("first", ("b", "a"))
    assert [(s.name, s.operator, s.inputs, s.outputs) for s in first.steps] == [
        ("all", Merge(), ("a", "b"), ("all",)),
        ("cases", cases, ("all",), ("warm", "cold")),
    ]
    assert [output.stream for output in first.outputs] == ["warm", "cold"]
    assert (first.convergent, first.span) == (True, 0)
    assert (second.name, second.inputs) == ("second", ("a", "warm"))
    assert [(s.operator, s.inputs) for s in second.steps[:2]] == [
        (window, ("warm",)),
        (OrderedJoin(20, match), ("hourly", "a")),  # type: ignore[arg-type]
    ]
    assert [output.stream for output in second.outputs] == ["inner"]
    assert (second.convergent, second.span) == (True, 80)


def test_a_join_and_a_union_on_one_node() -> None:
    """The example of App A: a and b are united, c joins one copy of that."""
    (plan,) = rewrite(
        Diagram(
            ("a", "b", "c"),
            (
                Placed("u", Union(), ("a", "b"), "n"),
                Placed("j", Join(10), ("u", "c"), "n"),
            ),
            ("u", "j"),
        )
    )
    ab, abc = frozenset("ab"), frozenset("abc")
    assert output_of(plan, "u") == Output("u", ab, frozenset(), (("u", ab),), sets("ab"))
    joined = output_of(plan, "j")
    assert joined == Output("j", abc, abc, (("u", ab), ("j", abc)), sets("ab", "c"))
    assert not is_blocked(joined, {"a"})
    assert is_blocked(joined, {"a", "b"})
    assert is_blocked(joined, {"c"})
    assert not is_blocked(output_of(plan, "u"), {"a", "c"})


def test_a_filter_before_a_union_does_not_block_it() -> None:
    (plan,) = rewrite(
        Diagram(
            ("a", "b"),
            (
                Placed("x", Map(keep), ("a",), "n"),
                Placed("u", Union(), ("x", "b"), "n"),
            ),
            ("u",),
        )
    )
    (output,) = plan.outputs
    assert output.operators == (("x", frozenset("a")), ("u", frozenset("ab")))
    assert not is_blocked(output, {"a"})
    assert is_blocked(output, {"a", "b"})


def test_a_union_of_joins_needs_one_side_of_each_pair() -> None:
    (plan,) = rewrite(
        Diagram(
            ("a", "b", "c"),
            (
                Placed("l", Join(1), ("a", "b"), "n"),
                Placed("r", Join(1), ("b", "c"), "n"),
                Placed("u", Union(), ("l", "r"), "n"),
            ),
            ("u",),
        )
    )
    (output,) = plan.outputs
    assert output.needs == sets("b", "ac")
    assert output.blocking == frozenset("abc")


def test_one_operator_that_does_not_converge_marks_its_stage() -> None:
    plans = rewrite(
        Diagram(
            ("a",),
            (
                Placed("w", WindowAggregate(60, 10, m.sum), ("a",), "first"),
                Placed("c", CountWindow(3, m.sum), ("w",), "second"),
                Placed("x", Map(keep), ("c",), "second"),
            ),
            ("x",),
        )
    )
    assert [(plan.convergent, plan.span) for plan in plans] == [(True, 60), (False, math.inf)]


def test_stages_that_read_from_each_other_are_refused() -> None:
    diagram = Diagram(
        ("a",),
        (
            Placed("x", Map(keep), ("a",), "one"),
            Placed("y", Map(keep), ("x",), "two"),
            Placed("z", Map(keep), ("y",), "one"),
        ),
        ("z",),
    )
    with pytest.raises(InvalidArgumentError, match=r"stages: (one -> two|two -> one).*is a loop"):
        rewrite(diagram)
