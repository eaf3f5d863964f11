"""What of each operator matters to fault tolerance, and which ones make no sense."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.windows import monoids as m
from simulator.diagram import (
    CountWindow,
    Filter,
    Join,
    Map,
    Merge,
    Operator,
    OrderedJoin,
    Sort,
    Timeout,
    Union,
    WindowAggregate,
)

YES, NO = True, False


@pytest.mark.parametrize(
    ("operator", "deterministic", "convergent", "blocking", "span"),
    [
        (Filter((("kept", bool),)), YES, YES, NO, 0),
        (Map(lambda row: (row.key, row.value)), YES, YES, NO, 0),
        (Union(), YES, YES, NO, 0),
        (Merge(), YES, YES, NO, 0),
        (Join(30), YES, YES, YES, 30),
        (OrderedJoin(30), YES, YES, YES, 30),
        (WindowAggregate(100, 10, m.sum), YES, YES, NO, 100),
        (WindowAggregate(100, 10, m.sum, anchored=True), YES, NO, NO, math.inf),
        (WindowAggregate(None, 10, m.sum), YES, NO, NO, math.inf),
        (CountWindow(5, m.sum), YES, NO, NO, math.inf),
        (Sort(5, lambda row: row.value), YES, NO, NO, math.inf),
        (Timeout(1000), NO, NO, NO, math.inf),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, int | float) else str(value),
)
def test_classification(
    operator: Operator, deterministic: bool, convergent: bool, blocking: bool, span: float
) -> None:
    assert operator.deterministic is deterministic
    assert operator.convergent is convergent
    assert operator.blocking is blocking
    assert operator.span == span


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Filter(()), "Filter: there are no predicates; give"),
        (lambda: Join(-1), "Join: window is -1; give 0 or more"),
        (lambda: WindowAggregate(10, 0, m.sum), "slide is 0; give at least 1"),
        (lambda: WindowAggregate(25, 10, m.sum), "size is 25; give a multiple of the slide, 10"),
        (lambda: WindowAggregate(5, 10, m.sum), "size is 5; give a multiple of the slide, 10"),
        (lambda: WindowAggregate(0, 10, m.sum), "size is 0; give a multiple"),
        (lambda: WindowAggregate(None, 10, m.sum, anchored=True), "landmark window is not anch"),
        (lambda: WindowAggregate(10, 10, sum), "monoid: is"),  # type: ignore[arg-type]
        (lambda: CountWindow(0, m.sum), "CountWindow: rows is 0; give at least 1"),
        (lambda: CountWindow(3, max), "monoid: is"),  # type: ignore[arg-type]
        (lambda: Sort(0, lambda row: row.value), "Sort: rows is 0; give at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], Operator], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        make()
