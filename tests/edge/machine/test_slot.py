"""A slot is a function of its offset: frames, copies and lost payloads do not show."""

from __future__ import annotations

import random as stdlib_random
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.edge.machine.messages import Query
from holdfast.edge.machine.queries import Paned
from holdfast.edge.machine.slots import Slot

KINDS = ["count", "sum", "mean", "min", "max", "range", "variance", "top_k"]
QUERIES = [Paned(Query(kind, kind, 30, 20)) for kind in KINDS]
KEYED = Paned(Query("keyed", "sum", 10, 10, keyed=True))
NAMES = [query.id for query in [*QUERIES, KEYED]]

events = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.sampled_from([0.0, -0.0, 0.1, -0.3, 1e16, -1e16, 3.0, 1e300]),
        st.sampled_from("ab"),
    ),
    min_size=1,
    max_size=40,
)


def put(slot: Slot, rows: list[tuple[int, float, str]]) -> None:
    times = np.array([row[0] for row in rows], np.int64)
    values = np.array([row[1] for row in rows])
    slot.add(times, values, [row[2] for row in rows], [*QUERIES, KEYED], {})
    slot.offset += len(rows)


def cut(rows: list[Any], places: list[int]) -> list[list[Any]]:
    bounds = sorted({0, len(rows), *(place % (len(rows) + 1) for place in places)})
    return [rows[a:b] for a, b in pairwise(bounds)]


def state(slot: Slot) -> Any:
    return repr(
        (slot.offset, sorted((q, sorted((p, repr(h.partial), h.newest) for p, h in panes.items()))
                             for q, panes in slot.panes.items() if panes))
    )  # fmt: skip


@given(events, st.lists(st.integers(0, 100), max_size=5))
def test_frames_do_not_show(rows: list[tuple[int, float, str]], places: list[int]) -> None:
    whole, pieces = Slot(0, "s"), Slot(0, "s")
    put(whole, rows)
    for piece in cut(rows, places):
        put(pieces, piece)
    assert state(whole) == state(pieces)


@settings(max_examples=60)
@given(events, st.lists(st.integers(0, 100), min_size=1, max_size=6), st.integers(0, 2**30))
def test_payloads_lost_repeated_and_late_do_not_show(
    rows: list[tuple[int, float, str]], places: list[int], seed: int
) -> None:
    """Digest §9.4 and 9.5: a copy is always some state that the owner has been in, never moves
    back, and what a taker adds to it comes to what the owner would have."""
    random = stdlib_random.Random(seed)
    owner, copy, acked, wire = Slot(0, "s"), Slot(0, "s"), 0, []
    states = {state(owner)}
    for piece in cut(rows, places):
        put(owner, piece)
        states.add(state(owner))
        wire.append(owner.delta(acked))
        for delta in random.sample(wire, random.randrange(len(wire) + 1)):
            before = copy.offset
            copy.join(delta, NAMES, NAMES)
            assert copy.offset >= before
            assert state(copy) in states
            if random.random() < 0.7:
                acked = copy.offset
    put(copy, rows[copy.offset :]) if copy.offset < len(rows) else None
    assert state(copy) == state(owner)


def test_a_delta_is_what_changed_since() -> None:
    slot = Slot(0, "s")
    put(slot, [(1, 1.0, "a")])
    put(slot, [(11, 2.0, "a")])
    assert {part.pane for part in slot.delta(0).parts} == {0, 10}
    assert {part.pane for part in slot.delta(1).parts} == {10}
    assert slot.delta(2).parts == ()
    behind = Slot(0, "s")
    assert not behind.join(slot.delta(1), NAMES, NAMES), "it lacks what that is based on"
    assert behind.join(slot.delta(0), NAMES, NAMES)
    assert state(behind) == state(slot)
    assert not behind.join(slot.delta(0), NAMES, NAMES), "known"


def test_edges_of_panes() -> None:
    """Digest §9.13: left-closed, right-open; the pane of 30 by 20 is 10."""
    slot = Slot(0, "s")
    put(slot, [(0, 1.0, "a"), (9, 1.0, "a"), (10, 1.0, "a"), (20, 1.0, "a")])
    assert {p: h.partial for p, h in slot.panes["count"].items()} == {0: 2, 10: 1, 20: 1}


def test_losses_make_copies_differ_and_the_better_one_stands() -> None:
    poor, rich = Slot(0, "s"), Slot(0, "s")
    poor.skip(3, 3, until=25)
    put(poor, [(30, 1.0, "a")])
    put(rich, [(1, 1.0, "a"), (12, 1.0, "a"), (25, 1.0, "a"), (30, 1.0, "a")])
    assert poor.missing(20, 30) == 3
    assert poor.missing(30, 40) == 0
    assert not rich.join(poor.delta(0), NAMES, NAMES)
    assert not poor.join(rich.delta(2), NAMES, NAMES), "what stays would be another history"
    assert poor.join(rich.delta(0), NAMES, NAMES)
    assert state(poor) == state(rich)
    assert poor.lost == 0
    assert poor.missing(20, 30) == 0


def test_a_query_that_comes_later() -> None:
    slot, late = Slot(0, "s"), Paned(Query("late", "count", 10, 10))
    assert slot.adopt(late) == 0, "there was no event before it"
    put(slot, [(17, 1.0, "a"), (12, 1.0, "a")])
    slot.boundary = 12
    assert slot.adopt(late) == 20, "an event of 17 is not in it"
    assert slot.since == {"late": 18}
    slot.free("late", 10, 20)
    assert slot.since == {}


def test_a_peer_that_did_not_have_the_query_yet() -> None:
    theirs, ours = Slot(0, "s"), Slot(0, "s")
    put(theirs, [(17, 1.0, "a")])
    assert ours.join(theirs.delta(0), [*NAMES, "late"], NAMES)
    assert ours.since == {"late": 18}


def test_panes_that_are_freed_take_nothing() -> None:
    slot = Slot(0, "s")
    freed = dict.fromkeys(NAMES, 20)
    slot.add(np.array([5, 25]), np.ones(2), ["a", "a"], [*QUERIES, KEYED], freed)
    assert set(slot.panes["count"]) == {20}
    slot.add(np.array([5]), np.ones(1), ["a"], [*QUERIES, KEYED], freed)
    assert set(slot.panes["count"]) == {20}
    slot.free("count", 10, 30)
    assert not slot.panes["count"]


@pytest.mark.parametrize(("freed", "done"), [(0, 0), (15, 0), (16, 2), (40, 2), (41, 3)])
def test_offsets_that_only_freed_panes_have_seen(freed: int, done: int) -> None:
    slot = Slot(0, "s")
    put(slot, [(5, 1.0, "a"), (15, 1.0, "a")])
    slot.mark()
    put(slot, [(40, 1.0, "a")])
    slot.mark()
    slot.mark()
    assert slot.done(freed) == done
    assert slot.done(freed) == done


def test_a_boundary_alone_is_news() -> None:
    slot, copy = Slot(0, "s"), Slot(0, "s")
    put(slot, [(1, 1.0, "a")])
    copy.join(slot.delta(0), NAMES, NAMES)
    slot.boundary = 50
    assert copy.join(slot.delta(1), NAMES, NAMES)
    assert copy.boundary == 50
    behind = msgspec.structs.replace(slot.delta(1), boundary=40)
    assert not copy.join(behind, NAMES, NAMES)
