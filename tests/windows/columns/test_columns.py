"""Every vectorised monoid against its scalar form, and what a column may hold."""

import math
import pickle
import sys
import warnings
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidArgumentError, InvalidValueError
from holdfast.windows import columns as c
from holdfast.windows import monoids as m
from holdfast.windows.columns import Columns, as_column, objects, put, reduce_segments
from holdfast.windows.monoid import Monoid

TWINS = {
    "count": (c.COUNT, m.count),
    "sum": (c.SUM, m.sum),
    "mean": (c.MEAN, m.mean),
    "min": (c.MIN, m.min),
    "max": (c.MAX, m.max),
    "range": (c.RANGE, m.range),
    "variance": (c.VARIANCE, m.variance),
    "variance_population": (c.VARIANCE_POPULATION, m.variance_population),
    "stddev": (c.STDDEV, m.stddev),
    "stddev_population": (c.STDDEV_POPULATION, m.stddev_population),
    "geometric_mean": (c.GEOMETRIC_MEAN, m.geometric_mean),
    "first": (c.FIRST, m.first),
    "last": (c.LAST, m.last),
    "any": (c.ANY, m.any),
    "all": (c.ALL, m.all),
}
EXACT = ["count", "sum", "min", "max", "range", "first", "last", "any", "all"]

concat = Monoid("concat", "", lift=str, combine=lambda older, newer: older + newer, lower=str)

ints = st.integers(-(2**50), 2**50)
floats = st.floats(-1e6, 1e6, allow_subnormal=False)


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def frozen(state: c.State) -> c.State:
    """The same state in arrays that raise when they are written to."""
    copies = tuple(field.copy() for field in state)
    for field in copies:
        field.flags.writeable = False
    return copies


def lift(columns: Columns, values: object) -> c.State:
    return frozen(columns.lift(as_column(values)))


def fold(monoid: Monoid, values: list) -> object:
    return monoid.lower(reduce(monoid.combine, map(monoid.lift, values)))


def segments(values: list, lengths: list[int]) -> list[list]:
    bounds = np.cumsum([0, *lengths]).tolist()
    return [values[start:stop] for start, stop in pairwise(bounds)]


def same(answer: object, expected: object, exact: bool) -> bool:
    if expected is None:
        return math.isnan(answer)
    return answer == expected if exact else answer == pytest.approx(expected, rel=1e-9, abs=1e-6)


def stretches(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.lists(st.lists(values, min_size=1, max_size=9), min_size=1, max_size=8)


@pytest.mark.parametrize("name", TWINS)
@settings(max_examples=30)
@given(st.one_of(stretches(ints), stretches(floats)))
def test_stretches_reduce_to_what_the_scalar_monoid_answers(name: str, parts: list[list]) -> None:
    columns, monoid = TWINS[name]
    if name == "geometric_mean":
        parts = [[abs(value) + 1 for value in part] for part in parts]
    starts = np.cumsum([0, *map(len, parts)])[:-1]
    state = lift(columns, [value for part in parts for value in part])
    answers = columns.lower(reduce_segments(columns, state, starts)).tolist()
    exact = name in EXACT and not (name == "sum" and isinstance(parts[0][0], float))
    assert len(answers) == len(parts)
    for answer, part in zip(answers, parts, strict=True):
        assert same(answer, fold(monoid, part), exact), part


@pytest.mark.parametrize("name", TWINS)
@settings(max_examples=30)
@given(st.lists(st.tuples(st.one_of(ints, floats), st.one_of(ints, floats)), min_size=1))
def test_combine_joins_row_by_row_and_writes_into_neither_operand(name: str, pairs: list) -> None:
    columns, monoid = TWINS[name]
    if name == "geometric_mean":
        pairs = [(abs(a) + 1, abs(b) + 1) for a, b in pairs]
    older = lift(columns, [a for a, _ in pairs])
    newer = lift(columns, [b for _, b in pairs])
    before = [field.copy() for field in (*older, *newer)]
    answers = columns.lower(columns.combine(older, newer)).tolist()
    for field, copy in zip((*older, *newer), before, strict=True):
        np.testing.assert_array_equal(field, copy)
    for answer, pair in zip(answers, pairs, strict=True):
        assert same(answer, fold(monoid, list(pair)), exact=name in EXACT and name != "sum")


@pytest.mark.parametrize("name", TWINS)
def test_what_lower_answers_is_not_the_state(name: str) -> None:
    columns, _ = TWINS[name]
    state = columns.lift(np.array([1.0, 2.0, 3.0]))
    answer = columns.lower(state)
    assert not any(np.shares_memory(answer, field) for field in state)


@pytest.mark.parametrize("name", TWINS)
def test_columns_can_be_sent_to_another_process(name: str) -> None:
    columns, monoid = TWINS[name]
    sent = pickle.loads(pickle.dumps(columns))
    state = sent.combine(lift(sent, [1, 2]), lift(sent, [3, 4]))
    expected = [fold(monoid, [1, 3]), fold(monoid, [2, 4])]
    assert sent.lower(state).tolist() == pytest.approx(expected)


# Segments


def test_segments_keep_the_order_of_a_monoid_that_does_not_commute() -> None:
    letters = list("abcdefghijklmnopqrstuvwxyz")
    lengths = [1, 2, 3, 7, 1, 8, 4]
    starts = np.cumsum([0, *lengths])[:-1]
    columns = objects(concat)
    reduced = reduce_segments(columns, lift(columns, letters), starts)
    assert columns.lower(reduced).tolist() == list(map("".join, segments(letters, lengths)))


def test_segments_take_a_pass_per_doubling_and_combine_each_row_once() -> None:
    sizes: list[int] = []

    def combine(older: c.State, newer: c.State) -> c.State:
        sizes.append(len(older[0]))
        return (older[0] + newer[0],)

    counting = Columns("counting", lambda v: (v,), combine, lambda s: s[0])
    lengths = [1] * 500 + [1000] + [3] * 100
    starts = np.cumsum([0, *lengths])[:-1]
    ones = np.ones(sum(lengths), np.int64)
    assert reduce_segments(counting, (ones,), starts)[0].tolist() == lengths
    assert len(sizes) == 10
    assert sum(sizes) == len(ones) - len(lengths)


def test_rows_that_are_segments_of_their_own_stay_as_they_are() -> None:
    state = c.SUM.lift(np.array([1.0, 2.0]))
    assert reduce_segments(c.SUM, state, np.array([0, 1])) is state


# Sums


def test_int_sums_are_exact_beyond_what_a_float_holds() -> None:
    state = c.SUM.combine(lift(c.SUM, [2**53, -(2**62)]), lift(c.SUM, [1, -1]))
    answer = c.SUM.lower(state)
    assert answer.dtype == np.int64
    assert answer.tolist() == [2**53 + 1, -(2**62) - 1]


@pytest.mark.parametrize("top", [2**63 - 1, -(2**63)])
def test_an_int_sum_beyond_int64_is_refused_when_it_is_answered(top: int) -> None:
    state = c.SUM.combine(lift(c.SUM, [top, 5]), lift(c.SUM, [top, 5]))
    with pytest.raises(InvalidValueError, match=r"does not fit into int64.*floats.*objects"):
        c.SUM.lower(state)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_stretch_whose_sum_is_beyond_int64_does_not_wrap_around(sign: int) -> None:
    values = [sign * value for value in (2**62, 2**62, 1, 7)]
    reduced = reduce_segments(c.SUM, lift(c.SUM, values), np.array([0, 3]))
    assert reduced[0].tolist() == [sign * (2**63 + 1), sign * 7]


def test_an_int_sum_may_pass_beyond_int64_on_its_way() -> None:
    top = 2**63 - 1
    beyond = c.SUM.combine(lift(c.SUM, [top, 1]), lift(c.SUM, [top, 2]))
    back = c.SUM.combine(beyond, lift(c.SUM, [-top, 3]))
    assert back[0].dtype == np.int64
    assert c.SUM.lower(back).tolist() == [top, 6]
    reduced = reduce_segments(c.SUM, lift(c.SUM, [top, top, -top, 4, 5]), np.array([0, 3]))
    assert c.SUM.lower(reduced).tolist() == [top, 9]


def test_an_int_sum_beyond_int64_next_to_rows_that_fit_stays_exact() -> None:
    top = 2**63 - 1
    beyond = c.SUM.combine(lift(c.SUM, [top]), lift(c.SUM, [top]))
    table = put(c.SUM, c.SUM.lift(as_column([1, 2])), np.array([1]), beyond)
    assert table[0].tolist() == [1, 2 * top]


def test_ints_that_are_not_int64_are_refused_in_a_sum() -> None:
    with pytest.raises(InvalidValueError, match="does not fit into int64"):
        c.SUM.lift(np.array([1, 2**63], np.uint64))


def test_ints_and_floats_meet_in_a_sum_without_losing_the_low_digits() -> None:
    whole, part = lift(c.SUM, [2**62 + 1]), lift(c.SUM, [0.5])
    for older, newer in ((whole, part), (part, whole)):
        state = c.SUM.combine(older, newer)
        state = c.SUM.combine(state, lift(c.SUM, [-float(2**62)]))
        assert c.SUM.lower(state).tolist() == [1.5]


def test_float_sums_keep_what_rounding_would_take() -> None:
    values = [1e16, 1.0, -1e16, 1.0] * 50
    reduced = reduce_segments(c.SUM, lift(c.SUM, values), np.array([0]))
    assert c.SUM.lower(reduced).tolist() == [100.0]


@pytest.mark.parametrize("columns", [c.SUM, c.MEAN], ids=lambda columns: columns.name)
def test_infinities_and_nan_pass_through_sums(columns: Columns) -> None:
    inf, nan = math.inf, math.nan
    older = lift(columns, [inf, -inf, inf, nan, 1e308, 1.0])
    newer = lift(columns, [1.0, -inf, -inf, 1.0, 1e308, 2.0])
    last = lift(columns, [1.0] * 6)
    answers = columns.lower(columns.combine(columns.combine(older, newer), last)).tolist()
    assert answers[:2] == [inf, -inf]
    assert all(map(math.isnan, answers[2:4]))
    assert answers[4] == inf
    assert answers[5] == (4.0 if columns is c.SUM else 4.0 / 3)


@pytest.mark.parametrize("columns", [c.SUM, c.MEAN, objects(m.sum), objects(m.mean)])
def test_a_sum_that_only_its_rest_takes_beyond_all_floats_is_infinite(columns: Columns) -> None:
    values = [sys.float_info.max, 2.0**969, 2.0**969]
    state = reduce_segments(columns, lift(columns, values), np.array([0]))
    assert fold(m.sum, values) == math.inf
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert columns.lower(state).tolist() == [math.inf]


def test_infinities_and_nan_pass_through_variances() -> None:
    parts = [[math.inf, 1.0], [math.inf, 1.0, 2.0], [1.0, math.nan], [1e200, -1e200], [1.0, 3.0]]
    starts = np.cumsum([0, *map(len, parts)])[:-1]
    state = lift(c.VARIANCE, [value for part in parts for value in part])
    answers = c.VARIANCE.lower(reduce_segments(c.VARIANCE, state, starts))
    np.testing.assert_array_equal(answers, [fold(m.variance, part) for part in parts])


def test_the_sample_variance_of_one_value_is_nan_and_the_population_variance_zero() -> None:
    assert math.isnan(c.VARIANCE.lower(lift(c.VARIANCE, [3.0]))[0])
    assert math.isnan(c.STDDEV.lower(lift(c.STDDEV, [3.0]))[0])
    assert c.VARIANCE_POPULATION.lower(lift(c.VARIANCE_POPULATION, [3.0])).tolist() == [0.0]


def test_variance_does_not_drown_in_a_large_mean() -> None:
    state = c.VARIANCE.combine(lift(c.VARIANCE, [1e9 + 1]), lift(c.VARIANCE, [1e9 + 2]))
    assert c.VARIANCE.lower(state).tolist() == [0.5]


@pytest.mark.parametrize("value", [0, -1.0, math.nan])
def test_a_geometric_mean_refuses_what_is_not_above_zero(value: float) -> None:
    with pytest.raises(InvalidValueError, match="not above 0"):
        c.GEOMETRIC_MEAN.lift(as_column([1.0, value]))


@pytest.mark.parametrize("name", ["sum", "mean", "variance", "geometric_mean"])
@pytest.mark.parametrize("value", ["7", None, Decimal(1), (1, 2)])
def test_what_is_no_number_is_refused_where_one_is_needed(name: str, value: object) -> None:
    with pytest.raises(InvalidValueError, match=name):
        TWINS[name][0].lift(as_column([1, value]))


# Order


@pytest.mark.parametrize("name", ["min", "max", "range"])
@pytest.mark.parametrize(
    "values",
    [[1.0, math.nan], np.array(["2020", "NaT"], "M8[D]"), [Decimal(1), Decimal("nan")]],
    ids=["float", "datetime", "decimal"],
)
def test_nan_is_refused_where_order_matters(name: str, values: object) -> None:
    with pytest.raises(InvalidValueError, match=name):
        TWINS[name][0].lift(as_column(values))


def test_min_and_max_of_ints_are_exact_next_to_floats() -> None:
    whole, part = lift(c.MAX, [2**53 + 1, 3]), lift(c.MAX, [2.0**53, 3.5])
    for older, newer in ((whole, part), (part, whole)):
        assert c.MAX.lower(c.MAX.combine(older, newer)).tolist() == [2**53 + 1, 3.5]


def test_min_and_max_take_whatever_compares() -> None:
    words = lift(c.MIN, ["pear", "fig"]), lift(c.MIN, ["apple", "kiwi"])
    assert c.MIN.lower(c.MIN.combine(*words)).tolist() == ["apple", "fig"]
    days = np.array(["2020-01-01", "2021-01-01"], "M8[D]")
    hours = np.array(["2020-01-01T05", "2019-01-01T05"], "M8[h]")
    latest = c.MAX.lower(c.MAX.combine(lift(c.MAX, days), lift(c.MAX, hours)))
    assert latest.tolist() == [hours[0].item(), np.datetime64("2021-01-01T00", "h").item()]
    dates = lift(c.RANGE, [date(2020, 1, 1)]), lift(c.RANGE, [date(2020, 1, 3)])
    assert c.RANGE.lower(c.RANGE.combine(*dates))[0].days == 2


def test_values_that_do_not_compare_with_each_other_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="keep to values that compare"):
        c.MIN.combine(lift(c.MIN, [1]), lift(c.MIN, ["a"]))
    mixed = lift(c.MIN, [1, "a"])
    with pytest.raises(InvalidValueError, match="keep to values that compare"):
        reduce_segments(c.MIN, mixed, np.array([0]))


def test_a_range_needs_values_with_a_difference() -> None:
    with pytest.raises(InvalidValueError, match="no difference"):
        c.RANGE.lift(as_column(["a", "b"]))
    assert c.RANGE.lower(lift(c.RANGE, [True])).tolist() == [0]


def test_an_int_range_beyond_int64_is_refused_when_it_is_answered() -> None:
    state = c.RANGE.combine(lift(c.RANGE, [2**63 - 1]), lift(c.RANGE, [-1]))
    with pytest.raises(InvalidValueError, match="does not fit into int64"):
        c.RANGE.lower(state)


def test_first_and_last_hold_anything() -> None:
    older, newer = lift(c.FIRST, [None, 1, (1, 2)]), lift(c.FIRST, [2, "b", math.inf])
    assert c.FIRST.lower(c.FIRST.combine(older, newer)).tolist() == [None, 1, (1, 2)]
    assert c.LAST.lower(c.LAST.combine(older, newer)).tolist() == [2, "b", math.inf]


def test_any_and_all_use_truth_in_the_sense_of_python() -> None:
    assert c.ANY.lower(lift(c.ANY, [0, "", None, (), "x", math.nan])).tolist() == [
        False,
        False,
        False,
        False,
        True,
        True,
    ]


# Any monoid


@pytest.mark.parametrize(
    "monoid",
    [m.collect, m.top_k(2), m.histogram([0, 10]), m.product(n=m.count, total=m.sum), concat],
    ids=lambda monoid: monoid.name,
)
@settings(max_examples=30)
@given(parts=stretches(st.integers(-20, 20)))
def test_any_monoid_runs_over_objects(monoid: Monoid, parts: list[list[int]]) -> None:
    columns = c.columns_of(monoid)
    starts = np.cumsum([0, *map(len, parts)])[:-1]
    state = lift(columns, [value for part in parts for value in part])
    answers = columns.lower(reduce_segments(columns, state, starts))
    assert list(answers) == [fold(monoid, part) for part in parts]


def test_a_monoid_brings_its_own_columns_or_runs_over_objects() -> None:
    fast = Monoid("fast", 0, lift=int, combine=max, lower=int, columns=c.MAX)
    assert c.columns_of(fast) is c.MAX
    assert c.columns_of(concat).name == "concat"


def test_objects_see_python_values_and_whole_datetimes() -> None:
    columns = objects(m.collect)
    assert [type(v[0]) for v in lift(columns, np.array([1, 2], np.int32))[0]] == [int, int]
    at = np.array(["2020-01-01T00:00:00.000000001"], "M8[ns]")
    assert lift(columns, at)[0][0] == (at[0],)


# What a column may be


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2], "i"),
        ((1.5, 2), "f"),
        ([True, False], "b"),
        ([True, 2], "O"),
        ([1, None], "O"),
        ([1, "a"], "O"),
        (["a", "b"], "O"),
        ([(1, 2), (3, 4)], "O"),
        ([2**70, 1], "O"),
        ([2**53 + 1, 0.5], "O"),
        ([np.float32(1), np.int8(2)], "f"),
        (range(3), "i"),
        (np.array([1, 2], np.uint8), "i"),
        (np.array([1, 2**63], np.uint64), "O"),
        (np.array([1, 2], np.float32), "f"),
        (np.array([1, 2], object), "i"),
        (np.array(["a"]), "O"),
        (np.array(["2020"], "M8[D]"), "M"),
        ([], "O"),
    ],
)
def test_a_column_has_the_narrowest_type_that_loses_nothing(values: object, kind: str) -> None:
    column = as_column(values)
    assert column.dtype.kind == kind
    assert column.tolist() == (values.tolist() if isinstance(values, np.ndarray) else list(values))


@pytest.mark.parametrize("values", [7, np.zeros((2, 2)), np.array(3.0)])
def test_what_is_no_column_is_refused_by_name(values: object) -> None:
    with pytest.raises(InvalidArgumentError, match="price"):
        as_column(values, "price")
