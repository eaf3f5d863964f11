"""Extremes, top k and histograms: which of equals they answer, and what they refuse."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from holdfast.errors import InvalidArgumentError, InvalidValueError
from holdfast.windows import monoids as m
from holdfast.windows.monoid import Monoid
from tests.windows.monoids.folds import answer, refuses

NAN, INF = math.nan, math.inf


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


# Refusals


@pytest.mark.parametrize("value", [Decimal("NaN"), np.datetime64("NaT")], ids=repr)
def test_other_kinds_of_nan_are_refused_too(value: Any):
    refuses(m.max, value, because="NaN has no place in an order")


@pytest.mark.parametrize("value", [None, 1j, Decimal("sNaN"), {}, np.zeros(2)], ids=repr)
@pytest.mark.parametrize(
    "monoid", [m.min, m.range, m.top_k(1), m.histogram([0])], ids=lambda monoid: monoid.name
)
def test_what_cannot_be_ordered_is_refused(monoid: Monoid[Any, Any, Any], value: Any):
    refuses(monoid, value, because="cannot be ordered")


def test_range_refuses_what_has_no_difference():
    refuses(m.range, "abc", because="has no difference")


def test_histogram_refuses_values_of_another_kind_than_its_edges():
    refuses(m.histogram([0, 1]), "abc", because="cannot be compared with the edges")


@pytest.mark.parametrize("value", [5, None, (1,), (1, 2, 3)])
def test_arg_extremes_refuse_what_is_no_pair(value: Any):
    with pytest.raises(InvalidValueError, match=r"^arg_min: .* is not a \(key, value\) pair"):
        m.arg_min.lift(value)


@pytest.mark.parametrize("k", [0, -1, 2.0, "3", None])
def test_top_k_refuses_a_k_that_makes_no_sense(k: Any):
    with pytest.raises(InvalidArgumentError, match="top_k: k is"):
        m.top_k(k)


@pytest.mark.parametrize("edges", [[], [1, 1], [2, 1], [NAN], [0, NAN], [None], ["a", 1], 5])
def test_histogram_refuses_edges_that_do_not_increase(edges: Any):
    with pytest.raises(InvalidArgumentError, match="histogram: edges are"):
        m.histogram(edges)
