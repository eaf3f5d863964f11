"""How much of each stream is kept so that every stage behind it finds its state again."""

from __future__ import annotations

import math

import pytest

from holdfast.windows import monoids as m
from simulator.diagram import (
    CountWindow,
    Diagram,
    Join,
    Operator,
    Placed,
    StagePlan,
    Union,
    WindowAggregate,
    retention,
    rewrite,
)


def plans_ending_with(last: Operator) -> tuple[StagePlan, ...]:
    return rewrite(
        Diagram(
            ("a", "b"),
            (
                Placed("u", Union(), ("a", "b"), "one"),
                Placed("w", WindowAggregate(60, 10, m.sum), ("u",), "two"),
                Placed("j", Join(20), ("w", "u"), "three"),
                Placed("last", last, ("j",), "four"),
            ),
            ("last", "w"),
        )
    )


@pytest.mark.parametrize(
    ("stream", "kept"), [("a", 185), ("u", 185), ("w", 125), ("j", 105), ("last", 5)]
)
def test_the_windows_on_the_longest_path_and_what_is_to_be_corrected(
    stream: str, kept: int
) -> None:
    plans = plans_ending_with(WindowAggregate(100, 100, m.sum))
    assert retention(plans, stream, corrected=5) == kept


def test_nothing_is_dropped_before_a_stage_that_does_not_converge() -> None:
    plans = plans_ending_with(CountWindow(3, m.sum))
    assert retention(plans, "a", corrected=5) == math.inf
    assert retention(plans, "last", corrected=5) == 5
