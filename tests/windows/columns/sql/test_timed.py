"""First and last by time, against sorting the rows."""

import pickle
import random
import warnings
from collections.abc import Iterator
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.windows.columns import Columns, as_array, reduce_segments, sql

BOTH = {"earliest": sql.EARLIEST, "latest": sql.LATEST}
VALUES = {
    "ints": st.integers(-3, 3),
    "large ints": st.sampled_from([1, 2, 10**30, -(10**30)]),
    "texts": st.text("ab", max_size=2),
}


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def expected(name: str, pairs: list[tuple]) -> object:
    pick = min if name == "earliest" else max
    when = pick(time for time, _ in pairs)
    values = [value for time, value in pairs if time == when and value is not None]
    return pick(values) if values else None


def lift(columns: Columns, pairs: list[tuple]) -> tuple:
    state = columns.lift(as_array(pairs))
    for field in state:
        field.flags.writeable = False
    return state


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("name", BOTH)
@settings(max_examples=100)
@given(st.data())
def test_stretches_and_combines_in_any_order_answer_what_sorting_does(
    name: str, kind: str, data: st.DataObject
) -> None:
    columns = BOTH[name]
    pair = st.tuples(st.integers(0, 3), st.one_of(st.none(), VALUES[kind]))
    parts = data.draw(st.lists(st.lists(pair, min_size=1, max_size=6), min_size=1, max_size=5))
    wanted = [expected(name, part) for part in parts]
    starts = np.cumsum([0, *map(len, parts)])[:-1]
    every = lift(columns, [row for part in parts for row in part])
    assert columns.lower(reduce_segments(columns, every, starts)).tolist() == wanted
    for part, answer in zip(parts, wanted, strict=True):
        shuffled = random.Random(len(parts)).sample(part, len(part))
        state = reduce(columns.combine, [lift(columns, [row]) for row in shuffled])
        assert columns.lower(state).tolist() == [answer]


@pytest.mark.parametrize("name", BOTH)
def test_rows_are_combined_one_by_one(name: str) -> None:
    columns = BOTH[name]
    older = lift(columns, [(1, "a"), (1, None), (1, "x"), (2, None)])
    newer = lift(columns, [(2, "b"), (1, "y"), (1, "w"), (2, None)])
    wanted = ["a", "y", "w", None] if name == "earliest" else ["b", "y", "x", None]
    assert columns.lower(columns.combine(older, newer)).tolist() == wanted


def test_times_may_be_any_int64() -> None:
    pairs = [(-(2**63), 1), (2**63 - 1, 2), (0, 3)]
    for columns, wanted in ((sql.EARLIEST, 1), (sql.LATEST, 2)):
        state = reduce_segments(columns, lift(columns, pairs), np.array([0]))
        assert columns.lower(state).tolist() == [wanted]


def test_they_can_be_sent_to_another_process() -> None:
    columns = pickle.loads(pickle.dumps(sql.LATEST))
    assert columns.lower(lift(columns, [(1, 5)])).tolist() == [5]
