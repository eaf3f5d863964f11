from __future__ import annotations

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.verify.machine import Plan, basis_of


def test_stages_come_after_their_parents() -> None:
    plan = Plan({"d": ("b", "c"), "b": ("a",), "c": ("a",), "a": (), "e": ()})
    order = list(plan.stages)
    assert all(order.index(p) < order.index(s) for s in order for p in plan.parents(s))
    assert plan.outputs == ("e", "d")
    assert plan.children("a") == ("b", "c")


@pytest.mark.parametrize(
    ("stages", "slices", "message"),
    [
        ({}, 1, "none"),
        ({"a": ("b",), "b": ("a",)}, 1, "circle"),
        ({"a": ("a",)}, 1, "circle"),
        ({"a": ("x",)}, 1, "no stage"),
        ({"a": (), "b": ("a", "a")}, 1, "twice"),
        ({"": ()}, 1, "no name"),
        ({"a": ()}, 0, "slices"),
    ],
)
def test_what_makes_no_plan(stages: dict[str, tuple[str, ...]], slices: int, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Plan(stages, slices)


def test_a_basis_knows_parents_slices_and_their_order() -> None:
    first = basis_of({"a": [b"1", b"2"], "b": [b"3"]})
    assert first == basis_of({"b": [b"3"], "a": [b"1", b"2"]})
    others = [
        {"a": [b"2", b"1"], "b": [b"3"]},
        {"a": [b"1", b"2", b"3"], "b": []},
        {"a": [b"1"], "b": [b"2", b"3"]},
        {"c": [b"1", b"2"], "b": [b"3"]},
        {},
    ]
    assert first not in [basis_of(each) for each in others]
