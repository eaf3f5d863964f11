"""Columns that leave NULLs out, against a dict of each row's values."""

import pickle
import random
import warnings
from collections.abc import Iterator
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.windows import columns as c
from holdfast.windows.columns import nullable, present_stretches, put, reduce_segments, rows, sql
from holdfast.windows.columns.values import as_array
from holdfast.windows.monoid import Monoid
from holdfast.windows.stores.codec import StateCodec

concat = Monoid("concat", "", lift=str, combine=lambda older, newer: older + newer, lower=str)

whole = st.one_of(st.integers(-9, 9), st.integers(-(2**63), 2**63 - 1))
texts = st.text("abc", max_size=3)

KINDS = {
    "sum": (nullable(sql.WHOLE_SUM), whole, sum),
    "least": (nullable(sql.LEAST), texts, min),
    "greatest": (nullable(sql.GREATEST), whole, max),
    "mean": (nullable(sql.FLOAT_MEAN), st.integers(-9, 9), lambda v: sum(v) / len(v)),
    "concat": (nullable(c.objects(concat)), texts, "".join),
}


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def frozen(state: c.State) -> c.State:
    for field in state:
        field.flags.writeable = False
    return state


def lift(columns: c.Columns, values: list) -> c.State:
    return frozen(columns.lift(as_array(values)))


def answers(columns: c.Columns, state: c.State) -> list:
    return columns.lower(state).tolist()


def expected(answer: object, values: list) -> object:
    known = [value for value in values if value is not None]
    return answer(known) if known else None


def draw_rows(data: st.DataObject, values: st.SearchStrategy) -> list[list]:
    """Batches of one value for each of a few rows."""
    count = data.draw(st.integers(1, 6))
    row = st.lists(st.one_of(st.none(), values), min_size=count, max_size=count)
    return data.draw(st.lists(row, min_size=1, max_size=5))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=80)
@given(st.data())
def test_rows_combine_what_is_not_null_in_order(kind: str, data: st.DataObject) -> None:
    columns, values, answer = KINDS[kind]
    batches = draw_rows(data, values)
    state = reduce(
        lambda older, newer: frozen(columns.combine(older, newer)),
        [lift(columns, batch) for batch in batches],
    )
    assert_equal(
        answers(columns, state), [expected(answer, row) for row in zip(*batches, strict=True)]
    )


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=80)
@given(st.data())
def test_stretches_reduce_to_what_is_not_null_in_order(kind: str, data: st.DataObject) -> None:
    columns, values, answer = KINDS[kind]
    stretch = st.lists(st.one_of(st.none(), values), min_size=1, max_size=5)
    parts = data.draw(st.lists(stretch, min_size=1, max_size=6))
    starts = np.cumsum([0, *map(len, parts)])[:-1]
    state = lift(columns, [value for part in parts for value in part])
    reduced = reduce_segments(columns, state, starts)
    assert_equal(answers(columns, reduced), [expected(answer, part) for part in parts])


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(st.data())
def test_rows_written_into_a_state_leave_the_others_alone(kind: str, data: st.DataObject) -> None:
    columns, values, answer = KINDS[kind]
    (old, *_), (new, *_) = draw_rows(data, values), draw_rows(data, values)
    new = new[: len(old)]
    at = np.array(sorted(random.Random(len(old)).sample(range(len(old)), len(new))), np.int64)
    own = tuple(field.copy() for field in lift(columns, old))
    state = put(columns, own, at, lift(columns, new))
    model = dict(enumerate(old)) | dict(zip(at.tolist(), new, strict=True))
    assert_equal(answers(columns, state), [expected(answer, [v]) for _, v in sorted(model.items())])


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(st.data())
def test_states_with_nulls_survive_the_codec(kind: str, data: st.DataObject) -> None:
    columns, values, _ = KINDS[kind]
    for batch in draw_rows(data, values):
        state = lift(columns, batch)
        codec = StateCodec()
        read = codec.decode(codec.encode(state))
        assert [field.dtype for field in read] == [field.dtype for field in state]
        assert_equal(answers(columns, read), answers(columns, state))


def assert_equal(given: list, wanted: list) -> None:
    assert given == [pytest.approx(v) if isinstance(v, float) else v for v in wanted]


def test_aligning_looks_at_present_rows_only() -> None:
    columns = nullable(sql.WHOLE_SUM)
    small = lift(columns, [1, None])
    large = columns.combine(lift(columns, [2**63 - 1, None]), lift(columns, [1, None]))
    assert [field.dtype.kind for field in large] == ["b", "O"]
    older, newer = columns.align(small, large)
    assert [field.dtype for field in older] == [field.dtype for field in newer]
    assert answers(columns, columns.combine(small, large)) == [2**63 + 1, None]


def test_filler_is_never_combined() -> None:
    def refuse(older: str, newer: str) -> str:
        assert isinstance(older, str)
        assert isinstance(newer, str)
        return older + newer

    strict = Monoid("strict", "", lift=str, combine=refuse, lower=str)
    columns = nullable(c.objects(strict))
    older, newer = lift(columns, ["a", None, "c", None]), lift(columns, ["x", "y", None, None])
    assert answers(columns, columns.combine(older, newer)) == ["ax", "y", "c", None]


def test_rows_that_are_all_present_go_to_the_inner_monoid_as_they_are() -> None:
    seen = []

    def combine(older: c.State, newer: c.State) -> c.State:
        seen.append((older, newer))
        return older

    columns = nullable(c.Columns("spy", lift=lambda v: (v,), combine=combine, lower=lambda s: s[0]))
    older, newer = lift(columns, [1, 2]), lift(columns, [3, 4])
    columns.combine(older, newer)
    ((given_older, given_newer),) = seen
    assert given_older[0] is older[1]
    assert given_newer[0] is newer[1]


def test_present_stretches_are_counted_in_present_rows() -> None:
    present = np.array([True, False, True, False, False, True, True])
    has, starts = present_stretches(present, np.array([0, 3, 5]))
    assert has.tolist() == [True, False, True]
    assert starts.tolist() == [0, 2]


def test_a_nullable_monoid_can_be_sent_to_another_process() -> None:
    columns = pickle.loads(pickle.dumps(nullable(sql.WHOLE_SUM)))
    state = columns.combine(lift(columns, [1, None]), lift(columns, [3, None]))
    assert answers(columns, rows(state, np.array([1, 0]))) == [None, 4]
