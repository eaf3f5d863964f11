"""The least and the greatest value as SQL orders them, against sorting."""

import math
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.windows.columns import Columns, reduce_segments, sql

nan = math.nan
doubles = st.one_of(st.floats(), st.sampled_from([nan, -0.0, 0.0, math.inf, -math.inf]))
large = st.integers(-(10**38), 10**38)
KINDS = [
    (doubles, np.float64),
    (st.integers(-(2**63), 2**63 - 1), np.int64),
    (st.booleans(), np.bool_),
    (large, object),
    (st.text(max_size=4), object),
    (st.binary(max_size=4), object),
]


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def order(value: object) -> tuple:
    return (True, 0) if value != value else (False, value)


def lift(columns: Columns, values: list, dtype: type) -> tuple:
    column = np.empty(len(values), dtype)
    column[:] = values
    column.flags.writeable = False
    return columns.lift(column)


@pytest.mark.parametrize(("values", "dtype"), KINDS)
@given(st.data())
def test_stretches_and_combines_answer_what_sorting_does(
    values: st.SearchStrategy, dtype: type, data: st.DataObject
) -> None:
    stretch = st.lists(values, min_size=1, max_size=6)
    parts = data.draw(st.lists(stretch, min_size=1, max_size=5))
    starts = np.cumsum([0, *map(len, parts)])[:-1]
    for columns, pick in ((sql.LEAST, min), (sql.GREATEST, max)):
        wanted = [pick(part, key=order) for part in parts]
        every = lift(columns, [value for part in parts for value in part], dtype)
        assert_same(columns.lower(reduce_segments(columns, every, starts)), wanted)
        ends = lift(columns, [part[-1] for part in parts], dtype)
        others = lift(columns, [pick(part[:-1] or part, key=order) for part in parts], dtype)
        assert_same(columns.lower(columns.combine(ends, others)), wanted)


def assert_same(answers: np.ndarray, wanted: list) -> None:
    assert list(map(order, answers.tolist())) == list(map(order, wanted))


@pytest.mark.parametrize("columns", [sql.LEAST, sql.GREATEST])
def test_zero_has_no_sign(columns: Columns) -> None:
    answer = columns.lower(lift(columns, [-0.0], np.float64))
    assert math.copysign(1, answer[0]) == 1


def test_ints_of_any_size_compare_with_int64() -> None:
    small, huge = lift(sql.LEAST, [5], np.int64), lift(sql.LEAST, [10**30], object)
    assert sql.LEAST.lower(sql.LEAST.combine(small, huge)).tolist() == [5]
    assert sql.GREATEST.lower(sql.GREATEST.combine(huge, small)).tolist() == [10**30]


@pytest.mark.parametrize(("values", "dtype"), [KINDS[1], KINDS[3]])
@pytest.mark.parametrize("unit", [1, 86_400_000_000])
@given(st.data())
def test_spans_of_whole_numbers_are_exact(
    values: st.SearchStrategy, dtype: type, unit: int, data: st.DataObject
) -> None:
    part = data.draw(st.lists(values, min_size=1, max_size=6))
    columns = sql.span(unit)
    state = reduce_segments(columns, lift(columns, part, dtype), np.array([0]))
    assert columns.lower(state).tolist() == [(max(part) - min(part)) * unit]


def test_spans_of_floats_follow_ieee_754() -> None:
    columns = sql.span()
    parts = [[1.0, nan], [math.inf, 1.0], [math.inf], [nan], [3.5, 1.0, 2.0], [-0.0, 0.0]]
    starts = np.cumsum([0, *map(len, parts)])[:-1]
    state = lift(columns, [value for part in parts for value in part], np.float64)
    answers = columns.lower(reduce_segments(columns, state, starts))
    np.testing.assert_array_equal(answers, [nan, math.inf, nan, nan, 2.5, 0.0])
