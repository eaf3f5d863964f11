"""The extremes that stand for empty orders; the checks are tested through the monoids."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from holdfast.windows.values import ABOVE, BELOW, to_plain


@pytest.mark.parametrize(
    "value",
    [
        0,
        -(10**400),
        float("inf"),
        float("-inf"),
        "",
        "zzz",
        b"",
        (),
        Decimal("Infinity"),
        date.max,
        datetime.min.replace(tzinfo=UTC),
        np.float64(1),
        np.datetime64("2000-01-01"),
    ],
    ids=repr,
)
def test_everything_lies_between_the_extremes(value: Any):
    for lesser, greater in ((value, ABOVE), (BELOW, value)):
        assert lesser < greater
        assert greater > lesser
        assert not lesser > greater
        assert not greater < lesser


def test_the_extremes_are_ordered_among_themselves():
    assert BELOW < ABOVE
    assert ABOVE > BELOW
    assert not ABOVE < ABOVE
    assert not BELOW > BELOW


def test_a_pickled_extreme_is_the_same_object():
    assert pickle.loads(pickle.dumps(ABOVE)) is ABOVE
    assert pickle.loads(pickle.dumps(BELOW)) is BELOW


@pytest.mark.parametrize("value", [np.int8(3), np.uint64(3), np.float32(3), np.float64(3)])
def test_numpy_numbers_become_plain(value: Any):
    assert to_plain(value) == 3
    assert type(to_plain(value)) in (int, float)


def test_everything_else_stays_as_it_is():
    for value in (np.datetime64("2000-01-01"), np.timedelta64(1, "ns"), "text", None):
        assert to_plain(value) is value
