"""The laws of states, and that a merge after any losses and repeats is exact aggregation."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.crdt import (
    BEGINNING,
    KINDS,
    Aggregate,
    Slot,
    State,
    aggregate,
    delta,
    join,
    leq,
    merge,
    news,
    pack,
    unpack,
    versions,
)

PANE = 10
"""Events have their offset as time, so a pane holds ten."""
KEYS = [(partition, sensor) for partition in (0, 1) for sensor in ("s1", "s2")]
LATTICE = st.dictionaries(
    st.sampled_from(KEYS),
    st.builds(
        Slot,
        st.integers(0, 2),
        st.integers(0, 2),
        st.dictionaries(st.tuples(st.just("q"), st.integers(0, 1)), st.integers(1, 2)),
    ),
)
"""Copies of one version may differ here, in their panes and in what is in them."""


def build(made: Aggregate, values: list[float], offset: int) -> Slot:
    """The slot after so many of the values."""
    panes = {
        ("q", start): made.add(made.empty(), np.array(values[start : min(start + PANE, offset)]))
        for start in range(0, offset, PANE)
    }
    return Slot(offset, offset, panes)


def encode(state: State) -> bytes:
    return msgspec.msgpack.encode(pack(state))


def read(made: Aggregate, state: State) -> dict[int, Any]:
    """The answer of each pane, slots combined in sorted order."""
    found: dict[int, list[Any]] = {}
    for key in sorted(state):
        for (_, start), partial in state[key].panes.items():
            found.setdefault(start, []).append(partial)
    return {start: made.answer(made.combine_all(found[start])) for start in sorted(found)}


@given(a=LATTICE, b=LATTICE, c=LATTICE)
def test_merge_is_the_least_upper_bound(a: State, b: State, c: State) -> None:
    both = merge(a, b)
    assert both == merge(b, a)
    assert merge(a, a) == a
    assert merge(merge(a, b), c) == merge(a, merge(b, c))
    assert leq(a, both)
    assert leq(b, both)
    assert leq(a, a)
    assert leq(both, merge(both, c))
    if leq(a, c) and leq(b, c):
        assert leq(both, c)


@given(a=LATTICE, b=LATTICE)
def test_news_are_what_was_lacking_and_no_more(a: State, b: State) -> None:
    new = news(a, b)
    assert merge(a, new) == merge(a, b)
    for key, slot in new.items():
        assert not (key in a and leq({key: slot}, a))
    assert news(merge(a, b), b) == {}


@given(a=LATTICE, b=LATTICE)
def test_leq_is_that_a_merge_adds_nothing(a: State, b: State) -> None:
    with_bottom = {key: Slot() for key in KEYS}
    assert leq(a, b) == (merge(merge(with_bottom, b), a) == merge(with_bottom, b))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=12)
@given(data=st.data())
def test_any_deliveries_merge_to_the_exact_aggregate(kind: str, data: st.DataObject) -> None:
    """Payloads are lost, repeated and reordered at will; the last word of each slot arrives."""
    made = aggregate(kind)
    values = {
        key: data.draw(st.lists(st.floats(allow_nan=False, width=32), min_size=1, max_size=35))
        for key in KEYS
    }
    payloads = data.draw(
        st.lists(st.dictionaries(st.sampled_from(KEYS), st.integers(0, 35), min_size=1), max_size=8)
    )
    last = {key: build(made, values[key], len(values[key])) for key in KEYS}
    sent = [
        {
            key: build(made, values[key], min(offset, len(values[key])))
            for key, offset in one.items()
        }
        for one in payloads
    ]
    order = data.draw(st.permutations([*sent, *sent, *({key: last[key]} for key in KEYS)]))
    state: State = {}
    for payload in order:
        before = state
        state = merge(state, payload)
        assert leq(before, state)
        assert leq(payload, state)
    assert versions(state) == versions(last)
    assert encode({key: state[key] for key in KEYS}) == encode(last)
    oracle = {
        start: made.answer(
            made.combine_all(
                made.add(made.empty(), np.array(values[key][start : start + PANE]))
                for key in KEYS
                if len(values[key]) > start
            )
        )
        for start in range(0, max(map(len, values.values())), PANE)
    }
    assert repr(read(made, state)) == repr(oracle)


@pytest.mark.parametrize(("kind", "expected"), [("sum", 8.0), ("mean", 8 / 3), ("range", 11.0)])
def test_a_lost_payload_of_one_sign_is_healed_by_the_next(kind: str, expected: float) -> None:
    """Cut 1 is +5, +7 and lost; cut 2 is -4 (digest, §3.4)."""
    made = aggregate(kind)
    cut = build(made, [5, 7, -4], 3)
    assert read(made, merge({}, {KEYS[0]: cut})) == {0: expected}


def test_two_cuts_are_absolute_and_a_repeat_changes_nothing() -> None:
    made = aggregate("count")
    first, second = build(made, [1] * 5, 2), build(made, [1] * 5, 5)
    state = merge({KEYS[0]: first}, {KEYS[0]: second})
    for late in (first, second, first):
        state = merge(state, {KEYS[0]: late})
    assert read(made, state) == {0: 5}
    assert state[KEYS[0]].version == (5, 5)


def test_a_delta_is_the_slots_that_are_newer() -> None:
    state = {KEYS[0]: Slot(3, 30), KEYS[1]: Slot(3, 31), KEYS[2]: Slot(0, BEGINNING)}
    assert delta(state, {}) == {KEYS[0]: Slot(3, 30), KEYS[1]: Slot(3, 31)}
    assert delta(state, dict.fromkeys(KEYS, (3, 30))) == {KEYS[1]: Slot(3, 31)}
    assert delta(state, versions(state)) == {}


def test_a_moved_boundary_is_newer_and_a_smaller_offset_never() -> None:
    assert join(Slot(3, 30), Slot(3, 40)) == Slot(3, 40)
    assert join(Slot(4, 30), Slot(3, 40)) == Slot(4, 30)


def test_copies_of_one_version_keep_the_panes_of_both() -> None:
    early, late = Slot(9, 9, {("q", 0): 4}), Slot(9, 9, {("r", 5): 2})
    assert join(early, late).panes == {("q", 0): 4, ("r", 5): 2}


@pytest.mark.parametrize("kind", KINDS)
def test_a_packed_state_goes_through_msgpack_and_back(kind: str) -> None:
    made = aggregate(kind)
    values = np.random.default_rng(2).normal(size=1200)
    keyed = made.add_keyed({}, ["a", 7, ("x", 1)] * 400, values)
    state = {
        (0, "s1"): Slot(1200, 5, {("q", 0): made.add(made.empty(), values), ("k", 0): keyed}),
        (0, "s2"): Slot(3, -5, {("q", 60): made.empty()}),
        ("edge", "s1"): Slot(),
    }
    assert unpack(msgspec.msgpack.decode(encode(state))) == state


def test_a_payload_of_small_aggregates_is_small() -> None:
    """Six sensors of 1,000 events of 16 bytes each, in three queries."""
    rng = np.random.default_rng(9)
    state = {
        (3, f"sensor-{sensor}"): Slot(
            1000,
            1_700_000_000_000_000,
            {
                (query, 1_700_000_000_000_000): aggregate(query).add(
                    aggregate(query).empty(), rng.normal(size=1000)
                )
                for query in ("count", "mean", "max")
            },
        )
        for sensor in range(6)
    }
    assert len(encode(state)) * 100 < 6 * 1000 * 16
