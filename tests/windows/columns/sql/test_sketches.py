"""Sketches of stretches, against sketches made value by value and against exact answers."""

import bisect
import math
import random
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.windows import monoids as m
from holdfast.windows.columns import sql

nan, inf = math.nan, math.inf

KINDS = {
    "floats": (st.one_of(st.floats(), st.sampled_from([-0.0, 0.0, 1.0, nan, inf])), float),
    "ints": (st.integers(-(2**63), 2**63 - 1), np.int64),
    "bools": (st.booleans(), np.bool_),
    "texts": (st.text(max_size=5), object),
    "bytes": (st.binary(max_size=5), object),
    "large ints": (st.integers(-(10**38), 10**38), object),
}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30)
@given(st.data())
def test_distinct_counts_are_those_of_the_monoid(kind: str, data: st.DataObject) -> None:
    values, dtype = KINDS[kind]
    parts = data.draw(st.lists(st.lists(values, min_size=1, max_size=20), min_size=1, max_size=4))
    column = np.empty(sum(map(len, parts)), dtype)
    column[:] = [value for part in parts for value in part]
    starts = np.cumsum([0, *map(len, parts)])[:-1]
    monoid = m.approx_distinct(10)
    (states,) = sql.sketch_distinct(10, column, starts)
    for state, part in zip(states, parts, strict=True):
        row_by_row = reduce(monoid.combine, map(monoid.lift, part))
        assert monoid.lower(state) == monoid.lower(row_by_row)
        # The same values add nothing, so they have become the same texts.
        assert monoid.lower(monoid.combine(state, row_by_row)) == monoid.lower(row_by_row)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 100, 384, 1_000, 20_000])
def test_distinct_counts_of_any_size_are_those_of_the_monoid(count: int) -> None:
    monoid = m.approx_distinct(12)
    column = np.random.default_rng(count).normal(size=count)
    (states,) = sql.sketch_distinct(12, column, np.array([0]))
    row_by_row = reduce(monoid.combine, map(monoid.lift, column.tolist()))
    assert monoid.lower(states[0]) == monoid.lower(row_by_row)


def test_without_starts_each_row_is_a_stretch() -> None:
    monoid = m.approx_distinct(12)
    (states,) = sql.sketch_distinct(12, np.array(["a", "b"], object), None)
    assert states.tolist() == [monoid.lift("a"), monoid.lift("b")]


SHARES = (0.0, 0.1, 0.5, 0.9, 0.99, 1.0)


def place(values: list[float], value: float) -> tuple[float, float]:
    """The least and the greatest share of the values, in Spark's order, that lie below this one."""
    order = sorted((v != v, 0.0 if v != v else v) for v in values)
    key = (value != value, 0.0 if value != value else value)
    return bisect.bisect_left(order, key) / len(order), bisect.bisect_right(order, key) / len(order)


@pytest.mark.parametrize("unbounded", [[], [nan] * 40, [inf] * 30 + [-inf] * 200, [-inf, inf, nan]])
@pytest.mark.parametrize("count", [1, 5, 100, 5_000])
def test_quantiles_have_about_their_rank(count: int, unbounded: list[float]) -> None:
    rng = random.Random(count)
    values = [rng.lognormvariate(0, 2) for _ in range(count)] + unbounded
    rng.shuffle(values)
    columns = sql.quantiles(SHARES, 200)
    cuts = sorted({0, *(rng.randrange(len(values)) for _ in range(3))})
    state = sql.sketch_quantiles(200, np.array(values), np.array(cuts))
    parts = [tuple(field[i : i + 1] for field in state) for i in range(len(cuts))]
    (answers,) = columns.lower(reduce(columns.combine, parts))
    slack = max(0.02, 1 / len(values))
    for share, answer in zip(SHARES, answers, strict=True):
        least, greatest = place(values, answer)
        assert least - slack <= share <= greatest + slack, (share, answer)
    in_order = sorted(values, key=lambda v: (v != v, v))
    np.testing.assert_array_equal([answers[0], answers[-1]], [in_order[0], in_order[-1]])


def test_ranks_of_what_is_not_finite_are_exact() -> None:
    columns = sql.quantiles((0.0, 0.25, 0.5, 0.75, 1.0), 200)
    state = sql.sketch_quantiles(200, np.array([-inf, -inf, inf, nan]), np.array([0]))
    (answers,) = columns.lower(state)
    np.testing.assert_array_equal(answers, [-inf, -inf, -inf, inf, nan])


def test_quantiles_of_rows_on_their_own() -> None:
    columns = sql.quantiles((0.5,), 200)
    answers = columns.lower(columns.lift(np.array([1.5, nan, -inf])))
    np.testing.assert_array_equal(answers.tolist(), [[1.5], [nan], [-inf]])
