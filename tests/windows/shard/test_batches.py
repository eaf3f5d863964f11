"""The rows of one batch: their order, what is refused, and that a refusal changes nothing."""

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas
import pytest

from holdfast.errors import InvalidArgumentError, InvalidValueError
from holdfast.windows import columns as c
from holdfast.windows import monoids as m
from holdfast.windows.shard import ShardWindow
from tests.windows.shard.model import answers, concat, total


def test_rows_of_a_pane_combine_by_call_then_time_then_position() -> None:
    window = ShardWindow({"words": (concat, "w")}, 10, 10)
    window.add([5, 3, 5, 1], ["a", "a", "a", "b"], w=["c", "a", "d", "z"])
    window.add([4, 0], ["a", "a"], w=["f", "e"])
    assert answers(window.advance(10), "words") == [(10, {"a": "acdef", "b": "z"})]


def test_a_batch_of_many_panes_and_keys_in_any_order_is_taken_at_once() -> None:
    rng = np.random.default_rng(5)
    count = 200_000
    times, keys = rng.integers(0, 50, count), rng.integers(0, 3000, count) * 7
    values = rng.integers(-5, 6, count)
    window = total(50, 10)
    assert len(window.add(times, keys, v=values)) == 0
    emission = window.advance(50)[-1]
    expected = np.zeros(21000, int)
    np.add.at(expected, keys, values)
    assert emission["total"].tolist() == expected[emission.keys].tolist()
    assert emission["n"].sum() == count


def test_panes_far_apart_and_many_keys_do_not_overflow_the_order_of_rows() -> None:
    window = total(1, 1)
    far = 2**60
    keys = list("abcdefgh")
    window.add([far, -far] * 8, np.repeat(keys, 2), v=[1, 2] * 8)
    assert answers(window.advance(2**61)) == [
        (1 - far, dict.fromkeys(keys, 2)),
        (1 + far, dict.fromkeys(keys, 1)),
    ]


def test_no_rows_are_no_news() -> None:
    window = total(4, 2)
    assert window.add([], [], v=[]).tolist() == []
    assert window.add(np.array([]), np.array([]), v=np.array([])).tolist() == []
    assert window.stats.rows == 0


def test_arrays_of_the_caller_and_of_the_window_are_not_the_same() -> None:
    window = ShardWindow({"total": (c.SUM, "v"), "last": (c.LAST, "v")}, 2, 1)
    times, keys, values = np.zeros(3, int), np.arange(3), np.array([1.0, 2.0, 3.0])
    window.add(times, keys, v=values)
    for array in (times, keys, values):
        array[:] = 77
    first = window.advance(1)[0]
    assert answers([first]) == [(1, {0: 1.0, 1: 2.0, 2: 3.0})]
    first["last"][:] = 99
    first["total"][:] = 99
    with pytest.raises(ValueError, match="read-only"):
        first.keys[:] = 99
    assert answers(window.advance(2), "last") == [(2, {0: 1.0, 1: 2.0, 2: 3.0})]


# Bad input changes nothing


def picture(window: ShardWindow) -> tuple[Any, ...]:
    """All that a caller can see, from a fork that is run to its end."""
    fork = window.fork()
    seen = [window.stats, window.keys, window.watermark]
    return (*seen, answers(fork.advance(10**6)))


BAD = {
    "lengths": ([1, 2], ["a"], {"v": [1, 2]}, InvalidArgumentError),
    "column length": ([1, 2], ["a", "b"], {"v": [1]}, InvalidArgumentError),
    "missing column": ([1], ["a"], {}, InvalidArgumentError),
    "unknown column": ([1], ["a"], {"v": [1], "x": [2]}, InvalidArgumentError),
    "two dimensions": (np.ones((1, 1), int), ["a"], {"v": [1]}, InvalidArgumentError),
    "keys in two dimensions": ([1], np.ones((1, 2), int), {"v": [1]}, InvalidArgumentError),
    "no sequence of keys": ([1], 1, {"v": [1]}, InvalidArgumentError),
    "no sequence of times": (1, ["a"], {"v": [1]}, InvalidArgumentError),
    "NaN time": ([1.0, math.nan], ["new", "b"], {"v": [1, 2]}, InvalidValueError),
    "float time": ([1.5], ["new"], {"v": [1]}, InvalidValueError),
    "bool time": ([True], ["new"], {"v": [1]}, InvalidValueError),
    "text time": (["1"], ["new"], {"v": [1]}, InvalidValueError),
    "datetime time": (np.array(["2020"], "M8[us]"), ["new"], {"v": [1]}, InvalidValueError),
    "far time": ([2**62], ["new"], {"v": [1]}, InvalidValueError),
    "NaN key": ([1, 1], ["new", math.nan], {"v": [1, 2]}, InvalidValueError),
    "NA key": ([1, 1], ["new", pandas.NA], {"v": [1, 2]}, InvalidValueError),
    "NaN in a key": ([1], [("new", (math.nan,))], {"v": [1]}, InvalidValueError),
    "unhashable key": ([1, 1], ["new", []], {"v": [1, 2]}, InvalidValueError),
    "text in a sum": ([1, 1], ["new", "a"], {"v": [1, "x"]}, InvalidValueError),
    "NaN in an order": ([1, 1], ["new", "a"], {"v": [1, math.nan]}, InvalidValueError),
    "text after numbers": ([1], ["new"], {"v": ["x"]}, InvalidValueError),
    "second pane": ([1, 9], ["new", "a"], {"v": [1, None]}, InvalidValueError),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_rows_are_refused_and_change_nothing(case: str) -> None:
    times, keys, columns, error = BAD[case]
    window = ShardWindow({"total": (c.SUM, "v"), "least": (c.MIN, "v")}, 4, 2)
    window.add([0, 1, 3], ["a", "b", "a"], v=[1, 2, 3])
    window.advance(1)
    before = picture(window)
    with pytest.raises(error):
        window.add(times, keys, **columns)
    assert picture(window) == before


def test_a_column_that_changes_its_kind_is_refused_before_panes_must_be_combined() -> None:
    window = ShardWindow({"least": (c.MIN, "v"), "first": (c.FIRST, "w")}, 4, 2)
    window.add([0], ["a"], v=[1], w=[1])
    with pytest.raises(InvalidValueError, match="compare"):
        window.add([2], ["b"], v=["x"], w=["x"])
    window.add([2], ["a"], v=[0.5], w=["x"])
    assert answers(window.advance(4), "least")[-1] == (4, {"a": 0.5})


@pytest.mark.parametrize("monoid", [m.min, m.max, m.range])
@pytest.mark.parametrize(
    "values",
    [[date(2020, 1, 2), Decimal(1)], [Decimal(1), datetime(2020, 1, 2)], [Decimal(1), date.max]],
    ids=str,
)
def test_objects_that_could_not_be_compared_when_panes_are_combined_are_refused(
    monoid: Any, values: list[Any]
) -> None:
    window = ShardWindow({"x": (monoid, "v")}, 4, 2)
    with pytest.raises(InvalidValueError, match="compare"):
        window.add([0, 0], ["a", "b"], v=values)
    window.add([0], ["a"], v=[date(2020, 1, 1)])
    with pytest.raises(InvalidValueError, match="compare"):
        window.add([2, 2], ["a", "b"], v=values)
    window.add([2], ["a"], v=[date(2020, 1, 3)])
    assert [e.end for e in window.advance(9)] == [2, 4, 6]


def test_columns_may_be_called_times_keys_or_self() -> None:
    spec = {name: (c.SUM, name) for name in ("times", "keys", "self")}
    columns = {name: [1, 2] for name in spec}
    window = ShardWindow(spec, 1, 1)
    with pytest.raises(InvalidArgumentError, match="keys has 1 rows, times has 2"):
        window.add([0, 0], ["a"], **columns)
    window.add([0, 0], ["a", "b"], **columns)
    (emission,) = window.advance(1)
    assert [emission[name].tolist() for name in spec] == [[1, 2]] * 3


def test_a_masked_array_is_refused_because_its_mask_would_be_lost() -> None:
    window = total(1, 1)
    with pytest.raises(InvalidValueError, match="masked array"):
        window.add([0, 0], ["a", "b"], v=np.ma.masked_array([1, 2], mask=[False, True]))
    assert window.stats.rows == 0
