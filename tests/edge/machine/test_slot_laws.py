"""The laws of slots, which replicas exchange: whatever becomes of payloads, joins come to exactly
what the events come to. By the digest of the edge, §2.5 and §9.1 to 9.3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.edge.machine.aggregates import KINDS
from holdfast.edge.machine.messages import Payload, Query, SlotDelta
from holdfast.edge.machine.queries import Paned
from holdfast.edge.machine.slots import Slot
from tests.edge.machine.rig import COUNT, Rig

PANE = 10
KEYS = [(partition, sensor) for partition in (0, 1) for sensor in ("s1", "s2")]
VALUES = st.lists(st.floats(allow_nan=False, width=32), min_size=1, max_size=35)


def asked(kind: str) -> list[Paned]:
    return [Paned(Query("q", kind, PANE, PANE)), Paned(Query("k", kind, PANE, PANE, keyed=True))]


@dataclass
class History:
    """What an owner's slot goes through: one event for each moment."""

    key: tuple[int, str]
    values: list[float]
    queries: list[Paned]

    def at(self, offset: int, boundary: int = 0) -> Slot:
        """The slot after so many events."""
        slot = Slot(*self.key)
        if offset:
            values = np.array(self.values[:offset])
            keys = ["ab"[number % 2] for number in range(offset)]
            slot.add(np.arange(offset), values, keys, self.queries, {})
            slot.offset = offset
        slot.boundary = offset + boundary
        return slot

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(query.id for query in self.queries)

    def joined(self, *slots: Slot) -> Slot:
        whole = Slot(*self.key)
        for slot in slots:
            whole.join(through_the_wire(slot.delta(0)), self.names, self.names)
        return whole


def through_the_wire(delta: SlotDelta) -> SlotDelta:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(delta), type=SlotDelta)


def state(slot: Slot) -> Any:
    panes = {
        query: {pane: (repr(held.partial), held.newest) for pane, held in sorted(panes.items())}
        for query, panes in sorted(slot.panes.items())
        if panes
    }
    return slot.rank, slot.seen, panes


COPY = st.tuples(st.integers(0, 12), st.integers(0, 2))
"""How far a copy is: its offset, and how much further its boundary."""


@given(a=COPY, b=COPY, c=COPY)
def test_a_join_is_the_least_upper_bound(
    a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]
) -> None:
    history = History(KEYS[0], [float(n) for n in range(12)], asked("mean"))
    one, two, three = (history.at(*each) for each in (a, b, c))
    both = history.joined(one, two)
    assert state(both) == state(history.joined(two, one)), "commutative"
    assert state(history.joined(one, one)) == state(history.joined(one)), "idempotent"
    assert state(history.joined(both, three)) == state(
        history.joined(one, history.joined(two, three))
    ), "associative"
    assert both.rank == max(one.rank, two.rank), "the least that is above both"
    assert state(both) in (state(history.joined(one)), state(history.joined(two)))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10)
@given(data=st.data())
def test_any_deliveries_join_to_the_exact_aggregate(kind: str, data: st.DataObject) -> None:
    """Deltas on any base are lost, repeated and reordered at will, and joined at once or held; a
    copy never goes back and is always something the owner has been. The last word arrives."""
    queries = asked(kind)
    for key in KEYS[:2]:
        history = History(key, data.draw(VALUES), queries)
        count = len(history.values)
        copy = Slot(*key)
        cuts = data.draw(st.lists(st.tuples(st.integers(0, count), st.integers(0, count))))
        for base, offset in [*cuts, *cuts]:
            delta = through_the_wire(history.at(max(base, offset)).delta(min(base, offset)))
            before = copy.rank
            if data.draw(st.booleans()):
                has_all = copy.hold(delta, history.names, history.names)
                copy.catch_up(history.names) if data.draw(st.booleans()) else None
            else:
                copy.catch_up(history.names)
                copy.join(delta, history.names, history.names)
                has_all = copy.rank >= (delta.offset, delta.boundary, 0)
            assert copy.rank >= before
            far = copy.offset if copy.waiting is None else copy.waiting[0].offset
            assert has_all == (far >= delta.offset), "it is said whether all of it is here"
        copy.hold(through_the_wire(history.at(count).delta(0)), history.names, history.names)
        copy.catch_up(history.names)
        assert state(copy) == state(history.joined(history.at(count)))
        for query in queries:
            for pane in range(0, count, PANE):
                values = np.array(history.values[pane : pane + PANE])
                keys = ["ab"[n % 2] for n in range(pane, min(pane + PANE, count))]
                right = query.answer(query.add(None, values, keys))
                assert repr(query.answer(copy.panes[query.id][pane].partial)) == repr(right)


@given(VALUES, st.lists(st.tuples(st.integers(0, 35), st.booleans()), max_size=8))
def test_held_or_joined_at_once_is_the_same(
    values: list[float], cuts: list[tuple[int, bool]]
) -> None:
    history = History(KEYS[0], values, asked("sum"))
    held, joined, acked = Slot(*KEYS[0]), Slot(*KEYS[0]), 0
    for place, moves_on in cuts:
        delta = history.at(max(acked, place % (len(values) + 1))).delta(acked)
        assert held.hold(delta, history.names, history.names)
        joined.join(delta, history.names, history.names)
        acked = delta.offset if moves_on else acked
    held.catch_up(history.names)
    assert state(held) == state(joined)


@pytest.mark.parametrize(("kind", "right"), [("sum", 8.0), ("mean", 8 / 3), ("range", 11.0)])
def test_a_lost_payload_of_one_sign_is_healed_by_the_next(kind: str, right: float) -> None:
    """Cut 1 is +5, +7 and lost; cut 2 is -4 (digest, §3.4)."""
    history = History(KEYS[0], [5.0, 7.0, -4.0], asked(kind))
    slot = history.joined(history.at(3))
    assert history.queries[0].answer(slot.panes["q"][0].partial) == right


def test_a_delta_group_carries_all_increments_since_its_base() -> None:
    """Figure 2.7: absolute values, so that two cuts come to 5 and a repeat changes nothing."""
    history = History(KEYS[0], [1.0] * 5, asked("count"))
    copy = history.joined(history.at(2))
    for delta in (history.at(5).delta(2), history.at(2).delta(0), history.at(5).delta(2)):
        copy.join(delta, history.names, history.names)
    assert copy.panes["q"][0].partial == 5


def test_nothing_goes_back_to_whom_it_came_from_and_nothing_known_is_sent_again() -> None:
    """Figures 2.8 and 2.9, by counting: of a slot only its owner speaks, so nothing comes back to
    it and nothing is forwarded; and what all have is not sent any more."""
    rig = Rig(3, 2, [COUNT])
    rig.emit(range(90))
    rig.step(2_000)
    rig.emit(range(90, 120), sensor="s1")
    rig.sent.clear()
    rig.step(3_000)
    owners = {0: "c0", 1: "c1", 2: "c2"}
    payloads = [(sender, m) for sender, _, m in rig.sent if isinstance(m, Payload)]
    assert {owners[delta.partition] == sender for sender, m in payloads for delta in m.slots} == {
        True
    }
    parts = [(m.number, part) for _, m in payloads for delta in m.slots for part in delta.parts]
    assert parts
    last = max(m.number for _, m in payloads)
    assert max(number for number, _ in parts) < last - 5, "acknowledged, and silent since"


def test_a_payload_of_small_aggregates_is_small() -> None:
    """Six sensors of 1,000 events of 16 bytes each, in three queries."""
    queries = [Paned(Query(kind, kind, 10**6, 10**6)) for kind in ("count", "mean", "max")]
    slots = []
    for sensor in range(6):
        slot = Slot(3, f"sensor-{sensor}", boundary=1_700_000_000_000_000)
        times = np.arange(1000) + 1_700_000_000_000_000
        slot.add(times, np.random.default_rng(9).normal(size=1000), None, queries, {})
        slots.append(slot.delta(0))
    payload = Payload(1, 0, 1_700_000_000_000_000, (), tuple(slots))
    assert len(msgspec.msgpack.encode(payload)) * 80 < 6 * 1000 * 16
