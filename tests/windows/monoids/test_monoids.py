"""All ready-made monoids: their laws, their answers against recalculation, what they refuse."""

from __future__ import annotations

import doctest
import math
import pickle
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.windows import monoids as m
from holdfast.windows.amta import Amta
from holdfast.windows.monoid import Monoid
from holdfast.windows.policies import last
from tests.windows.monoids.folds import answer, fold, fold_in_halves, refuses

NAN = math.nan

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


@pytest.mark.parametrize("value", [np.float64(0.5), np.float32(0.5), np.float16(0.5)])
@pytest.mark.parametrize("monoid", [m.sum, m.mean, m.min, m.max, m.time])
def test_numpy_floats_become_floats(monoid: Monoid[Any, Any, Any], value: Any):
    result = answer(monoid, value)
    assert result == 0.5
    assert type(result) is float


def test_the_examples_in_the_documentation_hold():
    assert doctest.testmod(m) == doctest.TestResults(failed=0, attempted=6)


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


@pytest.mark.parametrize("value", [NAN, np.float32(NAN), np.float64(NAN)], ids=repr)
@pytest.mark.parametrize("monoid", ORDERED, ids=lambda monoid: monoid.name)
def test_what_orders_its_values_refuses_nan(monoid: Monoid[Any, Any, Any], value: Any):
    refuses(monoid, value, because="NaN has no place in an order; filter it out or map it")


@pytest.mark.parametrize("value", ["abc", None, 1j, Decimal(1), [1.0], np.timedelta64(1, "s")])
@pytest.mark.parametrize("monoid", NUMERIC, ids=lambda monoid: monoid.name)
def test_what_is_no_number_is_not_added(monoid: Monoid[Any, Any, Any], value: Any):
    refuses(monoid, value, because="is not an int or a float; filter it out or convert it")


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
