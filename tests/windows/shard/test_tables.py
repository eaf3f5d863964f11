"""Tables over keys: the union of two, and what they share."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from holdfast.windows import columns as c
from holdfast.windows.shard import tables
from holdfast.windows.shard.tables import Table, Tables
from tests.windows.shard.model import answers, concat, total


def test_tables_with_the_same_keys_share_the_array_of_their_numbers() -> None:
    tables = Tables([c.SUM])
    older = Table(np.array([1, 5]), (c.SUM.lift(np.array([1, 2])),))
    newer = Table(np.array([1, 5]), (c.SUM.lift(np.array([3, 4])),))
    subset = Table(np.array([5]), (c.SUM.lift(np.array([9])),))
    assert tables.combine(older, newer).ids is older.ids
    assert tables.combine(older, subset).ids is older.ids
    assert tables.combine(subset, older).ids is older.ids
    assert tables.combines == 3


@given(
    st.dictionaries(st.integers(0, 20), st.text("ab", max_size=2), max_size=12),
    st.dictionaries(st.integers(0, 20), st.text("ab", max_size=2), max_size=12),
)
def test_the_union_of_two_tables_combines_the_keys_of_both_in_order(
    older: dict[int, str], newer: dict[int, str]
) -> None:
    columns = c.objects(concat)
    tables = Tables([columns])

    def table(states: dict[int, str]) -> Table:
        ids = sorted(states)
        values = np.array([states[key] for key in ids], object)
        return Table(np.array(ids, np.int64), (columns.lift(values),))

    combined = tables.combine(table(older), table(newer))
    expected = {k: older.get(k, "") + newer.get(k, "") for k in sorted({*older, *newer})}
    assert combined.ids.tolist() == list(expected)
    if expected:
        assert columns.lower(combined.states[0]).tolist() == list(expected.values())


def test_int_and_float_batches_meet_in_one_sum() -> None:
    window = total(4, 1)
    window.add([0, 0], ["a", "b"], v=[2**53 + 1, 1])
    window.add([1], ["b"], v=[0.5])
    window.add([2], ["a"], v=[-(2.0**53)])
    assert answers(window.advance(3))[-1] == (3, {"a": 1.0, "b": 1.5})


some_ids = st.sets(st.integers(0, 60), min_size=1).map(lambda ids: np.array(sorted(ids)))


@given(older=some_ids, newer=some_ids, shift=st.integers(-100, 100))
def test_numbers_are_united_alike_by_marking_and_by_sorting(older, newer, shift):
    marked, sorted_ = (
        tables._unite(older + shift, newer + shift),
        tables._unite_sparse(older + shift, newer + shift),
    )
    assert marked[0].tolist() == sorted_[0].tolist()
    for part in ("taken", "older", "newer", "place"):
        assert getattr(marked[1], part).tolist() == getattr(sorted_[1], part).tolist()


def test_numbers_far_apart_are_united():
    ids, _ = tables._unite(np.array([1, 10**15]), np.array([1, 5, 10**12]))
    assert ids.tolist() == [1, 5, 10**12, 10**15]
