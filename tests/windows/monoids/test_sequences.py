"""First, last, runs and time: what depends on the order in which updates came."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from holdfast.errors import InvalidValueError, TimeOrderError
from holdfast.windows import monoids as m
from holdfast.windows.amta import Amta
from holdfast.windows.monoid import HOLE, Monoid
from holdfast.windows.policies import last, two_argument
from tests.windows.monoids.folds import answer, refuses

INF = math.inf


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


def test_a_missing_time_is_refused():
    refuses(m.time, np.datetime64("NaT"), because="NaN has no place in an order")


@pytest.mark.parametrize("value", ["2000-01-01", None, timedelta(1)])
def test_time_refuses_what_is_no_time(value: Any):
    refuses(m.time, value, because="is no time")


@pytest.mark.parametrize("value", [INF, -INF])
def test_time_refuses_infinity(value: float):
    refuses(m.time, value, because="is not finite")
