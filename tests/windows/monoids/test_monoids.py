"""The ready-made monoids: their laws, their answers against recalculation, what they refuse."""

from __future__ import annotations

import doctest
import math
import pickle
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidArgumentError, InvalidValueError, TimeOrderError
from holdfast.windows import monoids as m
from holdfast.windows.amta import Amta
from holdfast.windows.monoid import HOLE, Monoid
from holdfast.windows.policies import last, two_argument

NAN, INF = math.nan, math.inf

NUMBERS = st.integers(-1000, 1000) | st.floats(-1e6, 1e6)
POSITIVE = st.integers(1, 1000) | st.floats(1e-3, 1e6)
WORDS = st.text("abc", max_size=3)
DATES = st.dates(date(2000, 1, 1), date(2000, 2, 1))


def exactly(answer: Any, expected: Any, _values: list[Any]) -> bool:
    return answer == expected


def nearly(answer: Any, expected: Any, values: list[Any]) -> bool:
    """Equal but for what rounding may do to values of this size."""
    if answer is None or expected is None:
        return answer is expected
    return math.isclose(
        answer, expected, rel_tol=1e-9, abs_tol=1e-9 * max(map(abs, values), default=0)
    )


def nearly_squared(answer: Any, expected: Any, values: list[Any]) -> bool:
    return nearly(answer, expected, [value * value for value in values])


@dataclass(frozen=True)
class Case:
    monoid: Monoid[Any, Any, Any]
    values: st.SearchStrategy[Any]
    oracle: Callable[[list[Any]], Any]
    """The answer by recalculation; the values are given oldest first."""
    same: Callable[[Any, Any, list[Any]], bool] = exactly
    name: str = ""


def if_any(batch: Callable[[list[Any]], Any], least: int = 1) -> Callable[[list[Any]], Any]:
    """The batch function, and None of fewer values than it needs."""
    return lambda values: batch(values) if len(values) >= least else None


def add_fractions(values: list[Any]) -> float:
    return float(sum(map(Fraction, values)))


def find_longest_run(values: list[Any]) -> int:
    return max(
        (
            stop - start
            for start in range(len(values))
            for stop in range(start + 1, len(values) + 1)
            if all(a < b for a, b in pairwise(values[start:stop]))
        ),
        default=0,
    )


def count_into_bins(values: list[Any]) -> m.Histogram:
    edges = [-10, 0, 0.5, 10]
    counts = [sum(a <= value < b for value in values) for a, b in pairwise(edges)]
    return m.Histogram(
        sum(value < -10 for value in values), tuple(counts), sum(value >= 10 for value in values)
    )


LONGEST = Monoid(
    "longest",
    identity="",
    lift=str,
    combine=lambda older, newer: newer if len(newer) > len(older) else older,
    lower=len,
)

CASES = [
    Case(m.count, NUMBERS | st.none(), len),
    Case(m.sum, st.integers() | st.booleans(), sum, name="sum of ints"),
    Case(m.sum, NUMBERS, add_fractions, nearly),
    Case(m.mean, NUMBERS, if_any(statistics.mean), nearly),
    Case(m.geometric_mean, POSITIVE, if_any(statistics.geometric_mean), nearly),
    Case(m.min, NUMBERS, if_any(min)),
    Case(m.min, WORDS, if_any(min), name="min of strings"),
    Case(m.max, st.decimals(-10, 10), if_any(max), name="max of decimals"),
    Case(m.max, DATES, if_any(max), name="max of dates"),
    Case(m.range, st.integers(), if_any(lambda values: max(values) - min(values))),
    Case(m.range, DATES, if_any(lambda values: max(values) - min(values)), name="range of dates"),
    Case(m.variance, NUMBERS, if_any(statistics.variance, 2), nearly_squared),
    Case(m.variance_population, NUMBERS, if_any(statistics.pvariance), nearly_squared),
    Case(m.stddev, NUMBERS, if_any(statistics.stdev, 2), nearly),
    Case(m.stddev_population, NUMBERS, if_any(statistics.pstdev), nearly),
    Case(m.first, WORDS | st.none(), if_any(lambda values: values[0])),
    Case(m.last, WORDS | st.none(), if_any(lambda values: values[-1])),
    Case(
        m.arg_min,
        st.tuples(st.integers(0, 3), WORDS),
        if_any(lambda pairs: min(pairs, key=lambda pair: pair[0])[1]),
    ),
    Case(
        m.arg_max,
        st.tuples(st.integers(0, 3), WORDS),
        if_any(lambda pairs: max(pairs, key=lambda pair: pair[0])[1]),
    ),
    Case(m.any, st.booleans() | st.integers(0, 2), any),
    Case(m.all, st.booleans() | st.integers(0, 2), all),
    Case(m.top_k(3), st.integers(0, 9), lambda values: sorted(values, reverse=True)[:3]),
    Case(m.histogram([-10, 0, 0.5, 10]), st.floats(-20, 20), count_into_bins),
    Case(m.collect, WORDS | st.none(), list),
    Case(m.longest_increasing_run, st.integers(0, 9), find_longest_run),
    Case(m.time, NUMBERS, if_any(max)),
    Case(m.approx_distinct(), WORDS, lambda values: len(set(values))),
    Case(
        m.product(low=m.min, words=m.collect, length=LONGEST),
        WORDS,
        lambda values: {
            "low": min(values, default=None),
            "words": values,
            "length": max(map(len, values), default=0),
        },
    ),
    Case(LONGEST, WORDS, lambda values: max(map(len, values), default=0)),
]

each_case = pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name or case.monoid.name) for case in CASES]
)


def fold(monoid: Monoid[Any, Any, Any], values: list[Any]) -> Any:
    """The state of the values, combined from the oldest on."""
    return reduce(monoid.combine, map(monoid.lift, values), monoid.identity)


def fold_in_halves(monoid: Monoid[Any, Any, Any], values: list[Any]) -> Any:
    """The state of the values, combined as a balanced tree."""
    if len(values) < 2:
        return fold(monoid, values)
    middle = len(values) // 2
    return monoid.combine(
        fold_in_halves(monoid, values[:middle]), fold_in_halves(monoid, values[middle:])
    )


def answer(monoid: Monoid[Any, Any, Any], *values: Any) -> Any:
    return monoid.lower(fold(monoid, list(values)))


@each_case
@given(data=st.data())
@settings(max_examples=30)
def test_answers_as_recalculation_however_the_updates_are_grouped(case: Case, data: st.DataObject):
    values = data.draw(st.lists(case.values, max_size=12))
    expected = case.oracle(values)
    assert case.same(answer(case.monoid, *values), expected, values)
    assert case.same(case.monoid.lower(fold_in_halves(case.monoid, values)), expected, values)


@each_case
@given(data=st.data())
@settings(max_examples=20)
def test_combining_is_associative(case: Case, data: st.DataObject):
    monoid = case.monoid
    stretches = [data.draw(st.lists(case.values, min_size=1, max_size=4)) for _ in range(3)]
    a, b, c = (fold(monoid, stretch) for stretch in stretches)
    left = monoid.combine(monoid.combine(a, b), c)
    right = monoid.combine(a, monoid.combine(b, c))
    assert case.same(monoid.lower(left), monoid.lower(right), [*chain(*stretches)])


@each_case
@given(data=st.data())
@settings(max_examples=20)
def test_combining_with_the_identity_changes_nothing(case: Case, data: st.DataObject):
    monoid = case.monoid
    values = data.draw(st.lists(case.values, max_size=4))
    state = fold(monoid, values)
    expected = monoid.lower(state)
    assert monoid.lower(monoid.combine(monoid.identity, state)) == expected
    assert monoid.lower(monoid.combine(state, monoid.identity)) == expected


@each_case
@given(data=st.data())
@settings(max_examples=10)
def test_combining_leaves_its_operands_alone_and_states_survive_pickling(
    case: Case, data: st.DataObject
):
    monoid = case.monoid
    older = monoid.lift(data.draw(case.values))
    newer = monoid.lift(data.draw(case.values))
    pickled = pickle.dumps((older, newer))
    expected = monoid.lower(monoid.combine(older, newer))
    assert pickle.dumps((older, newer)) == pickled
    assert monoid.lower(monoid.combine(*pickle.loads(pickled))) == expected


@each_case
def test_pickled_identity_is_still_the_identity(case: Case):
    monoid = case.monoid
    identity = pickle.loads(pickle.dumps(monoid.identity))
    assert monoid.lower(identity) == monoid.lower(monoid.identity)


def test_the_examples_in_the_documentation_hold():
    assert doctest.testmod(m) == doctest.TestResults(failed=0, attempted=6)


# Sums


@given(st.lists(st.floats(-1e300, 1e300), max_size=60))
def test_sum_of_floats_is_as_good_as_in_twice_the_precision(values: list[float]):
    exact = sum(map(Fraction, values))
    size = sum(abs(Fraction(value)) for value in values)
    bound = abs(exact) / 2**52 + size * (len(values) + 1) ** 2 / 2**104 + Fraction(5e-324)
    for state in (fold(m.sum, values), fold_in_halves(m.sum, values)):
        assert abs(Fraction(m.sum.lower(state)) - exact) <= bound


def test_sum_keeps_what_is_small_beside_what_is_huge():
    window = Amta(m.sum)
    assert window.roll([1e16, 1.0, -1e16, 1.0, 1e16, -1.0, -1e16] * 50, last(7))[6:] == [1.0] * 344


def test_sum_over_a_long_window_does_not_drift():
    window = Amta(m.sum)
    values = [0.1 * (-1) ** index * 10.0 ** (index % 16) for index in range(3000)]
    results = window.roll(values, last(1000))
    for index in range(1000, 3000, 37):
        exact = math.fsum(values[index - 999 : index + 1])
        assert math.isclose(results[index], exact, rel_tol=1e-15)


def test_sum_of_ints_is_exact_at_any_size():
    values = [2**64, 2**64 + 1, -1, 10**400]
    result = answer(m.sum, *values)
    assert result == 2**65 + 10**400
    assert type(result) is int


def test_sum_of_ints_and_floats_keeps_what_a_float_cannot_hold():
    assert answer(m.sum, 2**60 + 1, 0.5, -(2**60)) == 1.5
    assert answer(m.sum, 0.5, 2**60 + 1, -(2**60)) == 1.5


def test_sum_of_a_float_and_an_int_beyond_all_floats_is_infinite():
    assert answer(m.sum, 0.5, 10**400) == INF
    assert answer(m.sum, -(10**400), 0.5) == -INF


def test_sum_takes_booleans_as_0_and_1():
    result = answer(m.sum, True, False, True)
    assert result == 2
    assert type(result) is int


def test_sum_of_numpy_ints_cannot_overflow():
    result = answer(m.sum, *[np.int64(2**62)] * 4)
    assert result == 2**64
    assert type(result) is int
    assert answer(m.sum, np.uint8(200), np.uint8(100)) == 300


@pytest.mark.parametrize("value", [np.float64(0.5), np.float32(0.5), np.float16(0.5)])
@pytest.mark.parametrize("monoid", [m.sum, m.mean, m.min, m.max, m.time])
def test_numpy_floats_become_floats(monoid: Monoid[Any, Any, Any], value: Any):
    result = answer(monoid, value)
    assert result == 0.5
    assert type(result) is float


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, INF], INF),
        ([INF, 1.0], INF),
        ([INF, INF], INF),
        ([-INF, 1, 2.0], -INF),
        ([1, INF], INF),
        ([1e308, 1e308], INF),
        ([INF, -INF], NAN),
        ([NAN, 1.0], NAN),
        ([1, NAN], NAN),
    ],
)
@pytest.mark.parametrize("monoid", [m.sum, m.mean])
def test_sum_and_mean_treat_nan_and_infinity_as_ieee_754_does(
    monoid: Monoid[Any, Any, Any], values: list[Any], expected: float
):
    assert answer(monoid, *values) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("stranger", [NAN, INF, -INF])
@pytest.mark.parametrize("monoid", [m.sum, m.mean, m.variance, m.stddev_population])
def test_nan_and_infinity_leave_with_the_update_that_brought_them(
    monoid: Monoid[Any, Any, Any], stranger: float
):
    values = [1.0, 2.0, stranger, 3.0, 4.0, 6.0]
    results = Amta(monoid).roll(values, last(3))
    assert all(not math.isfinite(result) for result in results[2:5])
    assert results[5] == pytest.approx(answer(monoid, 3.0, 4.0, 6.0))


# Means and spread


def test_mean_of_ints_does_not_round_their_sum():
    assert answer(m.mean, 2**53, 1, 1, 2) == (2**53 + 4) / 4


def test_mean_of_ints_beyond_all_floats_is_infinite():
    assert answer(m.mean, 10**400, 10**400) == INF
    assert answer(m.mean, -(10**400)) == -INF


def test_variance_is_stable_far_from_zero():
    values = [1e9 + offset for offset in (4, 7, 13, 16)]
    assert answer(m.variance, *values) == 30.0
    assert m.variance.lower(fold_in_halves(m.variance, values)) == 30.0


def test_variance_follows_spark_where_there_is_too_little_to_vary():
    assert answer(m.variance) is None
    assert answer(m.variance, 5) is None
    assert answer(m.stddev, 5) is None
    assert answer(m.variance_population, 5) == 0.0
    assert answer(m.stddev_population, 5) == 0.0
    assert answer(m.variance_population) is None


def test_spread_of_two_values():
    assert answer(m.variance, 1, 3) == 2.0
    assert answer(m.variance_population, 1, 3) == 1.0
    assert answer(m.stddev, 1, 3) == math.sqrt(2)
    assert answer(m.stddev_population, 1, 3) == 1.0


def test_variance_agrees_with_numpy_on_a_long_window():
    values = [math.sin(index) * 1e3 + 1e6 for index in range(2000)]
    results = Amta(m.variance).roll(values, last(500))
    for index in range(499, 2000, 123):
        expected = np.var(values[index - 499 : index + 1], ddof=1)
        assert results[index] == pytest.approx(expected, rel=1e-9)


def test_geometric_mean_does_not_overflow_where_the_product_would():
    assert answer(m.geometric_mean, *[1e300] * 10) == pytest.approx(1e300)
    assert answer(m.geometric_mean, 1e-300, 1e300) == pytest.approx(1.0)
    assert answer(m.geometric_mean, INF, 1.0) == INF
    assert answer(m.geometric_mean, 10**400) == INF


# Order


@pytest.mark.parametrize(
    ("monoid", "expected"),
    [
        (m.count, 0),
        (m.sum, 0),
        (m.mean, None),
        (m.geometric_mean, None),
        (m.min, None),
        (m.max, None),
        (m.range, None),
        (m.first, None),
        (m.last, None),
        (m.arg_min, None),
        (m.arg_max, None),
        (m.any, False),
        (m.all, True),
        (m.top_k(2), []),
        (m.histogram([1]), m.Histogram(0, (), 0)),
        (m.collect, []),
        (m.longest_increasing_run, 0),
        (m.time, None),
        (m.approx_distinct(), 0),
        (m.approx_quantiles([0.5]), None),
    ],
    ids=lambda part: getattr(part, "name", None),
)
def test_an_empty_window_answers(monoid: Monoid[Any, Any, Any], expected: Any):
    window = Amta(monoid)
    assert window.result() == expected
    if monoid is not m.time:
        window.insert((1, 2) if monoid.name.startswith("arg") else 1)
        window.evict()
        assert window.result() == expected


@pytest.mark.parametrize("values", [[INF, 1], [-INF, 1], [1, INF], [-INF, INF], [INF]])
def test_extremes_may_be_infinite(values: list[float]):
    assert answer(m.min, *values) == min(values)
    assert answer(m.max, *values) == max(values)


def test_of_equal_extremes_the_oldest_is_answered():
    assert type(answer(m.min, 1.0, 1)) is float
    assert type(answer(m.max, 1, 1.0)) is int


def test_what_compares_only_by_less_than_has_a_minimum():
    class Version:
        def __init__(self, number: int) -> None:
            self.number = number

        def __lt__(self, other: object) -> bool:
            return isinstance(other, Version) and self.number < other.number

    versions = [Version(3), Version(1), Version(2)]
    assert answer(m.min, *versions) is versions[1]
    assert [version.number for version in answer(m.top_k(2), *versions)] == [3, 2]


def test_numpy_datetimes_have_extremes_and_a_range():
    early, late = np.datetime64("2000-01-01"), np.datetime64("2000-01-03")
    assert answer(m.min, late, early) == early
    assert answer(m.max, early, late) == late
    assert answer(m.range, late, early) == np.timedelta64(2, "D")


def test_of_equal_keys_the_oldest_value_is_answered():
    assert answer(m.arg_min, (1, "old"), (1, "new"), (2, "other")) == "old"
    assert answer(m.arg_max, (1, "other"), (2, "old"), (2, "new")) == "old"


def test_arg_extremes_never_compare_values():
    assert answer(m.arg_max, (1, {"a": 1}), (1, None), (2, {"b": 2})) == {"b": 2}


def test_top_k_puts_the_older_of_equals_first():
    result = answer(m.top_k(3), 1.0, 2, True, 1, 2.0)
    assert result == [2, 2.0, 1.0]
    assert list(map(type, result)) == [int, float, float]


def test_histogram_bins_hold_their_lower_edge():
    result = answer(m.histogram([0, 1, 2]), -0.5, 0, 0.5, 1, 2, 7)
    assert result == m.Histogram(under=1, counts=(2, 1), over=2)


def test_histogram_over_numpy_edges_and_over_dates():
    assert answer(m.histogram(np.linspace(0, 1, 3)), np.float32(0.6)).counts == (0, 1)
    days = [date(2000, 1, 1), date(2000, 1, 8)]
    assert answer(m.histogram(days), date(2000, 1, 3)).counts == (1,)


# Sequence


def test_first_and_last_answer_none_when_that_is_the_value():
    assert answer(m.first, None, 1) is None
    assert answer(m.last, 1, None) is None
    assert answer(m.first, 1, None) == 1


@pytest.mark.parametrize("monoid", [m.first, m.last])
def test_an_empty_slot_is_no_value(monoid: Monoid[Any, Any, Any]):
    window = Amta(monoid)
    window.insert(1)
    with pytest.raises(InvalidValueError, match="HOLE is no value"):
        window.insert(HOLE)
    assert (len(window), window.result()) == (1, 1)


def test_longest_increasing_run_is_strict_and_crosses_the_seams():
    assert answer(m.longest_increasing_run, 5, 1, 2, 2, 3, 4, 0) == 3
    window = Amta(m.longest_increasing_run)
    assert window.roll([1, 2, 3, 4, 0, 1, 2], last(4)) == [1, 2, 3, 4, 3, 2, 3]


@pytest.mark.parametrize(
    "times",
    [
        [3, 3.5, 7],
        [date(2000, 1, 1), date(2000, 1, 2)],
        [datetime(2000, 1, 1, tzinfo=UTC), datetime(2000, 1, 1, 1, tzinfo=UTC)],
        [np.datetime64("2000-01-01"), np.datetime64("2000-01-02")],
    ],
    ids=lambda times: type(times[0]).__name__,
)
def test_time_answers_the_newest_and_refuses_an_older_one(times: list[Any]):
    window = Amta(m.time)
    for moment in (*times, times[-1]):
        window.insert(moment)
    with pytest.raises(TimeOrderError, match="sort the updates"):
        window.insert(times[0])
    assert window.result() == times[-1]
    assert len(window) == len(times) + 1


def test_time_spans_slide_over_datetimes():
    start = datetime(2000, 1, 1, tzinfo=UTC)
    events = m.product(time=m.time.over("at"), n=m.count)
    updates = [{"at": start + timedelta(minutes=minute)} for minute in (0, 1, 2, 9, 10, 30)]
    old = two_argument(lambda all, old: all.value.time - old.value.time >= timedelta(minutes=9))
    results = Amta(events).roll(updates, old)
    assert [result.n for result in results] == [1, 2, 3, 3, 3, 1]


def test_times_of_two_kinds_are_refused():
    window = Amta(m.time)
    window.insert(datetime(2000, 1, 1))
    with pytest.raises(InvalidValueError, match="one kind of time"):
        window.insert(datetime(2000, 1, 2, tzinfo=UTC))
    assert len(window) == 1


# Refusals

ORDERED = [
    m.min,
    m.max,
    m.range,
    m.top_k(2),
    m.histogram([0, 1]),
    m.longest_increasing_run,
    m.time,
    m.approx_quantiles([0.5]),
    m.arg_min.over(lambda key: (key, "value")),
    m.arg_max.over(lambda key: (key, "value")),
]
NUMERIC = [
    m.sum,
    m.mean,
    m.variance,
    m.variance_population,
    m.stddev,
    m.stddev_population,
    m.geometric_mean,
    m.approx_quantiles([0.5]),
]


def refuses(monoid: Monoid[Any, Any, Any], value: Any, *, because: str) -> None:
    """The monoid refuses the value by name and reason, and a window over it stays as it was."""
    window = Amta(monoid)
    window.insert(1)
    before = window.result()
    with pytest.raises(InvalidValueError, match=rf"^{monoid.name}: .*{because}"):
        window.insert(value)
    assert len(window) == 1
    assert window.result() == before


@pytest.mark.parametrize("value", [NAN, np.float32(NAN), np.float64(NAN)], ids=repr)
@pytest.mark.parametrize("monoid", ORDERED, ids=lambda monoid: monoid.name)
def test_what_orders_its_values_refuses_nan(monoid: Monoid[Any, Any, Any], value: Any):
    refuses(monoid, value, because="NaN has no place in an order; filter it out or map it")


@pytest.mark.parametrize("value", [Decimal("NaN"), np.datetime64("NaT")], ids=repr)
def test_other_kinds_of_nan_are_refused_too(value: Any):
    refuses(m.max, value, because="NaN has no place in an order")


def test_a_missing_time_is_refused():
    refuses(m.time, np.datetime64("NaT"), because="NaN has no place in an order")


@pytest.mark.parametrize("value", [None, 1j, Decimal("sNaN"), {}, np.zeros(2)], ids=repr)
@pytest.mark.parametrize(
    "monoid", [m.min, m.range, m.top_k(1), m.histogram([0])], ids=lambda monoid: monoid.name
)
def test_what_cannot_be_ordered_is_refused(monoid: Monoid[Any, Any, Any], value: Any):
    refuses(monoid, value, because="cannot be ordered")


@pytest.mark.parametrize("value", ["abc", None, 1j, Decimal(1), [1.0], np.timedelta64(1, "s")])
@pytest.mark.parametrize("monoid", NUMERIC, ids=lambda monoid: monoid.name)
def test_what_is_no_number_is_not_added(monoid: Monoid[Any, Any, Any], value: Any):
    refuses(monoid, value, because="is not an int or a float; filter it out or convert it")


@pytest.mark.parametrize("value", [0, -1, -0.5, -INF, NAN, False])
def test_geometric_mean_refuses_what_is_not_above_zero(value: Any):
    refuses(m.geometric_mean, value, because="is not above 0")


@pytest.mark.parametrize("monoid", [m.variance, m.stddev_population])
def test_variance_refuses_ints_beyond_all_floats(monoid: Monoid[Any, Any, Any]):
    refuses(monoid, 10**400, because="beyond the range of a float")


def test_range_refuses_what_has_no_difference():
    refuses(m.range, "abc", because="has no difference")


def test_histogram_refuses_values_of_another_kind_than_its_edges():
    refuses(m.histogram([0, 1]), "abc", because="cannot be compared with the edges")


@pytest.mark.parametrize("value", [5, None, (1,), (1, 2, 3)])
def test_arg_extremes_refuse_what_is_no_pair(value: Any):
    with pytest.raises(InvalidValueError, match=r"^arg_min: .* is not a \(key, value\) pair"):
        m.arg_min.lift(value)


@pytest.mark.parametrize("value", ["2000-01-01", None, timedelta(1)])
def test_time_refuses_what_is_no_time(value: Any):
    refuses(m.time, value, because="is no time")


@pytest.mark.parametrize("value", [INF, -INF])
def test_time_refuses_infinity(value: float):
    refuses(m.time, value, because="is not finite")


@pytest.mark.parametrize("k", [0, -1, 2.0, "3", None])
def test_top_k_refuses_a_k_that_makes_no_sense(k: Any):
    with pytest.raises(InvalidArgumentError, match="top_k: k is"):
        m.top_k(k)


@pytest.mark.parametrize("edges", [[], [1, 1], [2, 1], [NAN], [0, NAN], [None], ["a", 1], 5])
def test_histogram_refuses_edges_that_do_not_increase(edges: Any):
    with pytest.raises(InvalidArgumentError, match="histogram: edges are"):
        m.histogram(edges)


# Use


def test_over_reads_a_field_of_an_update():
    window = Amta(m.sum.over("price"))
    assert window.roll([{"price": 1}, {"price": 2}], last(2)) == [1, 3]


def test_a_monoid_of_ones_own_works_in_a_window():
    window = Amta(LONGEST)
    assert window.roll(["a", "bcd", "", "ef"], last(2)) == [1, 3, 3, 2]


def test_the_compiled_and_the_vectorised_forms_are_those_of_the_same_name():
    ready_made = {name: getattr(m, name) for name in m.__all__}
    monoids = {name: part for name, part in ready_made.items() if isinstance(part, Monoid)}
    kernels = {name: part.kernel for name, part in monoids.items() if part.kernel is not None}
    vectorised = {name: part.columns.name for name, part in monoids.items() if part.columns}
    assert set(kernels) == {
        *("count", "sum", "mean", "geometric_mean", "min", "max", "range", "first", "last"),
        *("variance", "variance_population", "stddev", "stddev_population"),
    }
    assert set(vectorised) == {*kernels, "any", "all"}
    assert all(name == form for forms in (kernels, vectorised) for name, form in forms.items())
