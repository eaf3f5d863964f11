"""Panes of queries."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.edge.machine.messages import Query
from holdfast.edge.machine.queries import Paned, ceil_to, floor_to
from holdfast.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("size", "slide", "length"), [(10, 10, 10), (30, 20, 10), (10, 3, 1), (20, 50, 10)]
)
def test_the_pane_is_the_greatest_common_divisor(size: int, slide: int, length: int) -> None:
    assert Paned(Query("q", "count", size, slide)).length == length


@pytest.mark.parametrize(
    ("time", "down", "up"), [(0, 0, 0), (1, 0, 10), (10, 10, 10), (-1, -10, 0)]
)
def test_alignment(time: int, down: int, up: int) -> None:
    assert (floor_to(time, 10), ceil_to(time, 10)) == (down, up)


def test_nothing_is_nothing() -> None:
    plain, keyed = Paned(Query("q", "sum", 1, 1)), Paned(Query("q", "sum", 1, 1, keyed=True))
    assert plain.answer(None) is None
    assert keyed.answer(None) == {}
    some = plain.add(None, np.array([1.0, 2.0]), None)
    assert plain.combine(None, some) == plain.combine(some, None) == some
    assert plain.answer(plain.combine(some, some)) == 6.0
    one, other = (keyed.add(None, np.array([1.0]), [key]) for key in "ab")
    assert keyed.answer(keyed.combine(one, other)) == {"a": 1.0, "b": 1.0}


def test_sizes_are_positive() -> None:
    with pytest.raises(InvalidArgumentError, match="must be positive"):
        Paned(Query("q", "count", 0, 1))
