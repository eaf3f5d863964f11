"""Slots: partial aggregates of one sensor's events in one partition, up to an offset."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.edge.machine.aggregates import are_plain, decode_partial, invalid_keys
from holdfast.edge.machine.messages import Loss, Part, Query, Roster, Sitting, SlotDelta
from holdfast.edge.machine.queries import Paned, ceil_to, floor_to

# A slot: what one sensor's events in one partition come to, up to an offset.
#
# Its state is a function of its offset, whoever computed it and however the events were framed:
# events enter in the order of their offsets, without holes, each once. So of two copies the one
# with the larger version holds all that is in the other. Only with `at-least-once` events may enter
# twice, and only losses, which are counted, make two copies of one offset differ.

MOST_MARKS: Final = 4_096


@dataclass(slots=True)
class Held:
    """One pane of one query. `touched`: the last offset that changed it; `newest`: the latest time
    of its events; `refused`: how many of them the query cannot take."""

    partial: Any = None
    touched: int = 0
    newest: int = 0
    refused: int = 0


@dataclass(slots=True)
class Slot:
    partition: int
    sensor: str
    boundary: int = 0
    """Events after `offset` are not before it."""
    offset: int = 0
    panes: dict[str, dict[int, Held]] = field(default_factory=dict)
    losses: list[Loss] = field(default_factory=list)
    since: dict[str, int] = field(default_factory=dict)
    lost: int = 0
    replayed: int = 0
    late: int = 0
    rejected: int = 0
    """As the sensor counts them."""
    behind: dict[str, int] = field(default_factory=dict)
    """By query, events that came after their pane was closed without them."""
    refused: dict[str, int] = field(default_factory=dict)
    """By query, events that it cannot take."""
    seen: int = 0
    waiting: tuple[SlotDelta, tuple[str, ...]] | None = None
    """What has come and was not joined yet, and the queries that its sender knew. Most of it is
    replaced by the next, which is based on the same, before anybody has looked at it."""
    marks: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=MOST_MARKS))
    """Offsets at cuts, and the latest time up to each: they tell which offsets only panes that are
    freed have seen."""

    @property
    def rank(self) -> tuple[int, int, int]:
        """Of two copies the one with the larger rank stands."""
        return self.offset, self.boundary, -self.lost

    def add(
        self,
        times: NDArray[np.int64],
        values: NDArray[np.float64],
        keys: Any,
        queries: Collection[Paned],
        freed: Mapping[str, int],
    ) -> Mapping[str, int]:
        """Events that follow `offset` have come; the caller moves the offset after this. Returns
        how many of them no query, or no query with keys, can take, by reason."""
        low, high = int(times.min()), int(times.max())
        touched = self.offset + len(times)
        self.seen = max(self.seen, high)
        unfit = _Unfit(values, keys, any(query.query.keyed for query in queries))
        for query in queries:
            length, floor = query.length, freed.get(query.id, 0)
            first, last = low // length, high // length
            bad = unfit.of(query)
            if first == last:
                if low >= floor:
                    self._put(query, first * length, values, keys, bad, touched, high)
                continue
            indexes = times // length
            for index in np.unique(indexes):
                pane = int(index) * length
                if pane >= floor:
                    chosen = indexes == index
                    some = _chosen(keys, chosen)
                    newest = int(times[chosen].max())
                    wrong = None if bad is None else bad[chosen]
                    self._put(query, pane, values[chosen], some, wrong, touched, newest)
        return unfit.reasons

    def _put(
        self,
        query: Paned,
        pane: int,
        values: NDArray[np.float64],
        keys: Any,
        bad: NDArray[np.bool_] | None,
        touched: int,
        newest: int,
    ) -> None:
        panes = self.panes.get(query.id)
        if panes is None:
            panes = self.panes[query.id] = {}
        held = panes.get(pane)
        if held is None:
            held = panes[pane] = Held()
        if bad is not None and (count := int(bad.sum())):
            held.refused += count
            self.refused[query.id] = self.refused.get(query.id, 0) + count
            values, keys = values[~bad], _chosen(keys, ~bad)
        if len(values):
            held.partial = query.add(held.partial, values, keys)
        held.touched = touched
        held.newest = max(held.newest, newest)

    def skip(self, upto: int, count: int, until: int) -> None:
        """Offsets up to this one will never come."""
        if count > 0:
            self.losses.append(Loss(self.offset + 1, upto, self.boundary, until, count))
            self.lost += count
        self.offset = upto

    def adopt(self, query: Paned) -> int:
        """A new query: the pane from which on it has all events."""
        if self.offset:
            # Events out of order may be in later panes than the boundary's already.
            self.since[query.id] = self.seen + 1
        return ceil_to(self.since.get(query.id, 0), query.length)

    def retire(self, query: str) -> None:
        """Forget a query."""
        for each in (self.panes, self.since, self.behind, self.refused):
            each.pop(query, None)

    def free(self, query: str, length: int, until: int) -> None:
        """The root has all panes that end by then."""
        if self.since.get(query, until) < until:
            del self.since[query]
        panes = self.panes.get(query)
        if panes:
            for pane in [each for each in panes if each + length <= until]:
                del panes[pane]

    def forget_losses(self, before: int) -> None:
        """Those that are of no pane any more."""
        if self.losses:
            self.losses = [loss for loss in self.losses if loss.until >= before]

    def missing(self, start: int, end: int) -> int:
        """How many events of this time may be gone."""
        return sum(loss.count for loss in self.losses if loss.since < end and loss.until >= start)

    def told(self, start: int, end: int) -> int:
        """How many events are gone, the last of which may have been of this time."""
        return sum(loss.count for loss in self.losses if start <= loss.until < end)

    def mark(self) -> None:
        """A cut."""
        if not self.marks or self.marks[-1][0] < self.offset:
            self.marks.append((self.offset, self.seen))

    def done(self, freed: int) -> int:
        """The offset up to which all events are in panes that are freed."""
        found = 0
        while self.marks and self.marks[0][1] < freed:
            found = self.marks.popleft()[0]
        if found:
            self.marks.appendleft((found, -1))
        return found

    def delta(self, base: int) -> SlotDelta:
        """What events after `base` have changed."""
        parts = tuple(
            Part(query, pane, held.partial, held.touched, held.newest, held.refused)
            for query, panes in self.panes.items()
            for pane, held in panes.items()
            if held.touched > base
        )
        return SlotDelta(
            self.partition,
            self.sensor,
            base,
            self.offset,
            self.boundary,
            parts,
            tuple(self.losses),
            dict(self.since),
            self.lost,
            self.replayed,
            self.late,
            self.seen,
            self.rejected,
            dict(self.behind),
            dict(self.refused),
        )

    def hold(self, delta: SlotDelta, ours: Collection[str], theirs: tuple[str, ...]) -> bool:
        """As `join`, but later: for copies, that nobody looks at until their owner is dead. Whether
        all that the delta has is here now."""
        if self.waiting is not None:
            last = self.waiting[0]
            if _rank(delta) <= _rank(last):
                return True
            if delta.base != last.base or delta.lost or last.lost or self.lost:
                self.catch_up(ours)
        if _rank(delta) <= self.rank:
            return True
        if not self._is_base_of(delta):
            return False
        self.waiting = delta, theirs
        return True

    def catch_up(self, ours: Collection[str]) -> None:
        """Join what was held."""
        if self.waiting is not None:
            (delta, theirs), self.waiting = self.waiting, None
            self.join(delta, ours, theirs)

    def _is_base_of(self, delta: SlotDelta) -> bool:
        """Whether this copy has what a delta is based on. Losses make copies differ: what stays
        here may then not be what they have, so that only all of it will do."""
        return delta.base <= self.offset and not (delta.base and (self.lost or delta.lost))

    def join(self, delta: SlotDelta, ours: Collection[str], theirs: Collection[str]) -> bool:
        """Take over what a copy has more, if this one has what the delta is based on. `ours` and
        `theirs` are the queries that are known here and there."""
        if _rank(delta) <= self.rank or not self._is_base_of(delta):
            return False
        if delta.offset == self.offset and delta.lost == self.lost:
            # The same events: only the boundary is news.
            self.boundary = delta.boundary
            return True
        for panes in self.panes.values():
            for pane in [each for each, held in panes.items() if held.touched > delta.base]:
                del panes[pane]
        for part in delta.parts:
            if part.query in ours:
                partial = decode_partial(part.partial)
                held = Held(partial, part.touched, part.newest, part.refused)
                self.panes.setdefault(part.query, {})[part.pane] = held
        if delta.since or self.since or len(theirs) != len(ours):
            self.since = self._whole_since(delta, ours, theirs)
        self.offset, self.boundary = delta.offset, delta.boundary
        self.losses = list(delta.losses)
        self.lost, self.seen = delta.lost, delta.seen
        self.replayed = max(self.replayed, delta.replayed)
        self.late = max(self.late, delta.late)
        self.rejected = max(self.rejected, delta.rejected)
        if delta.behind or delta.refused:
            self.behind = dict(Counter(self.behind) | Counter(delta.behind))
            self.refused = dict(Counter(self.refused) | Counter(delta.refused))
        self.marks.clear()
        return True

    def _whole_since(
        self, delta: SlotDelta, ours: Collection[str], theirs: Collection[str]
    ) -> dict[str, int]:
        since = {query: time for query, time in delta.since.items() if query in ours}
        if delta.base:
            # What stays is whole only as far as it was.
            since = {q: max(since.get(q, 0), self.since.get(q, 0)) for q in {*since, *self.since}}
        # A query that the other did not have yet begins here with what comes next.
        return since | {query: delta.seen + 1 for query in ours if query not in theirs}


class _Unfit:
    """Events that queries cannot take. It depends on the events alone, so that all copies of a slot
    refuse the same."""

    def __init__(self, values: NDArray[np.float64], keys: Any, is_keyed: bool) -> None:
        self.reasons: dict[str, int] = {}
        nan = np.isnan(values)
        self._plain = nan if nan.any() else None
        self._keyed = self._plain
        self._note("not a number", self._plain)
        if not is_keyed:
            return
        if keys is None:
            self._keyed = np.ones(len(values), np.bool_)
            self._note("no key", self._keyed)
            return
        if are_plain(keys):
            return
        absent = np.fromiter((key is None for key in keys), np.bool_, len(keys))
        self._note("no key", absent)
        invalid = invalid_keys(keys)
        self._note("invalid key", invalid)
        for each in (absent, invalid):
            if each is not None and each.any():
                self._keyed = each if self._keyed is None else self._keyed | each

    def _note(self, reason: str, found: NDArray[np.bool_] | None) -> None:
        if found is not None and (count := int(found.sum())):
            self.reasons[reason] = count

    def of(self, query: Paned) -> NDArray[np.bool_] | None:
        return self._keyed if query.query.keyed else self._plain


def _chosen(keys: Any, chosen: NDArray[np.bool_]) -> Any:
    if keys is None:
        return None
    # As objects one by one: lists among them are no further dimension.
    return np.fromiter(keys, object, len(keys))[chosen]


def _rank(delta: SlotDelta) -> tuple[int, int, int]:
    return delta.offset, delta.boundary, -delta.lost


class Counts(NamedTuple):
    """How many events were sent again, came too late, and were refused."""

    replayed: int = 0
    late: int = 0
    refused: int = 0

    def plus(self, slot: Slot, query: str) -> Counts:
        return Counts(
            self.replayed + slot.replayed,
            self.late + slot.late + slot.behind.get(query, 0),
            self.refused + slot.rejected + slot.refused.get(query, 0),
        )


class Slots:
    def __init__(self, roster: Roster) -> None:
        self.roster = roster
        self.queries: dict[str, Paned] = {}
        self.freed: dict[str, int] = {}
        """By query: the root has all panes that end by then."""
        self.given_up: set[str] = set()
        """Sensors that have left, and whose last words nobody waits for any longer."""
        self._slots: dict[int, dict[str, Slot]] = {}
        self._sittings = _sittings(roster)
        self._spent: dict[tuple[int, str], Counts] = {}
        """By partition and query, what was counted for sensors that are forgotten."""

    def __iter__(self) -> Iterator[Slot]:
        for slots in self._slots.values():
            yield from slots.values()

    @property
    def sensors(self) -> Collection[str]:
        return self._sittings.keys()

    @property
    def floor(self) -> int:
        """Events before this time are not needed any more."""
        return min((self.beginning(query) for query in self.queries.values()), default=0)

    @property
    def panes(self) -> int:
        """How many are held."""
        return sum(len(panes) for slot in self for panes in slot.panes.values())

    def beginning(self, query: Paned) -> int:
        """The first pane of a query that is not freed."""
        return max(self.freed.get(query.id, 0), floor_to(self.roster.origin, query.length))

    def get(self, partition: int, sensor: str) -> Slot | None:
        """None if there is no such sensor; a slot begins when it is first asked for."""
        slots = self._slots.get(partition)
        if slots is not None:
            slot = slots.get(sensor)
            if slot is not None:
                return slot
        sitting = self._sittings.get(sensor)
        if sitting is None:
            return None
        slot = Slot(partition, sensor, boundary=sitting.start)
        self._slots.setdefault(partition, {})[sensor] = slot
        return slot

    def of(self, partition: int) -> list[Slot]:
        """By sensor, one for each that takes part."""
        found = (self.get(partition, sensor) for sensor in sorted(self._sittings))
        return [slot for slot in found if slot is not None]

    def adopt(self, query: Query) -> int:
        """A new query; the pane from which on all slots have all its events."""
        for slot in self:
            self._catch_up(slot)
        paned = Paned(query)
        self.queries[query.id] = paned
        first = max((slot.adopt(paned) for slot in self), default=0)
        return max(first, floor_to(self.roster.origin, paned.length))

    def retire(self, query: str) -> None:
        """Forget a query."""
        self.queries.pop(query, None)
        self.freed.pop(query, None)
        self._spent = {key: each for key, each in self._spent.items() if key[1] != query}
        for slot in self:
            slot.retire(query)

    def seat(self, roster: Roster) -> bool:
        """Whether the roster is news."""
        if roster.version <= self.roster.version:
            return False
        self.roster = roster
        self._sittings = _sittings(roster)
        # One that is back is waited for again.
        self.given_up -= {each.sensor for each in roster.sittings if each.end is None}
        self.given_up &= self._sittings.keys()
        for partition, slots in self._slots.items():
            for sensor in slots.keys() - self._sittings.keys():
                self._forget(partition, slots.pop(sensor))
        return True

    def _forget(self, partition: int, slot: Slot) -> None:
        for query in self.queries:
            before = self._spent.get((partition, query), Counts())
            self._spent[partition, query] = before.plus(slot, query)

    def counts(self, partition: int, query: str) -> Counts:
        """Since the partition began."""
        counts = self._spent.get((partition, query), Counts())
        for slot in self.of(partition):
            counts = counts.plus(slot, query)
        return counts

    def sitting(self, sensor: str) -> Sitting | None:
        """When a sensor takes part; None if it is not known."""
        return self._sittings.get(sensor)

    @property
    def leaving(self) -> set[str]:
        """Sensors that have left, and may have said more than has come."""
        ended = {name for name, each in self._sittings.items() if each.end is not None}
        return ended - self.given_up

    def uninvited(self, slot: Slot, times: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Which events are of times when the sensor took no part, for it had been dismissed: panes
        did not wait for them. None if none is."""
        sitting = self._sittings[slot.sensor]
        if sitting.end is None and times.min() >= sitting.start:
            return None
        found = times < sitting.start
        return found if sitting.end is None else found | (times >= sitting.end)

    def is_whole(self, slot: Slot, start: int, end: int) -> bool:
        """Whether a sensor has said all it had for this time; of one that has left without a word
        nobody knows."""
        sitting = self._sittings[slot.sensor]
        return sitting.end is None or start >= sitting.end or slot.boundary >= min(end, sitting.end)

    def join(self, delta: SlotDelta, theirs: tuple[str, ...], *, at_once: bool) -> bool:
        """Take over what a copy has more, now or when somebody will look; whether all that it has
        is here now."""
        slot = self.get(delta.partition, delta.sensor)
        if slot is None:
            return False
        has_all = slot.hold(delta, self.queries.keys(), theirs)
        if at_once:
            self._catch_up(slot)
        return has_all

    def catch_up(self, partition: int) -> None:
        """Somebody is about to look at the copies of a partition."""
        for slot in self._slots.get(partition, {}).values():
            self._catch_up(slot)

    def _catch_up(self, slot: Slot) -> None:
        if slot.waiting is not None:
            slot.catch_up(self.queries.keys())
            self._sweep(slot)

    def free(self, query: str, until: int) -> bool:
        """The root has all panes of the query that end by then; whether that is news. They go with
        the next `sweep`."""
        if query not in self.queries or until <= self.freed.get(query, 0):
            return False
        self.freed[query] = until
        return True

    def sweep(self, slots: Iterable[Slot]) -> None:
        """Let go of all that the root has."""
        floor = self.floor
        for slot in slots:
            self._sweep(slot)
            slot.forget_losses(floor)

    def _sweep(self, slot: Slot) -> None:
        for query in self.queries.values():
            slot.free(query.id, query.length, self.freed.get(query.id, 0))

    def ready(self, partition: int) -> int:
        """Up to where all sensors have said all in a partition."""
        slots = self._slots.get(partition, {})
        ready: int | None = None
        for sensor, sitting in self._sittings.items():
            slot = slots.get(sensor)
            bound = sitting.start if slot is None else max(slot.boundary, sitting.start)
            if sitting.end is not None and (bound >= sitting.end or sensor in self.given_up):
                continue
            ready = bound if ready is None else min(ready, bound)
        if ready is None:
            ends = (each.end or 0 for each in self._sittings.values())
            return max((self.roster.through, *ends))
        return ready


def _sittings(roster: Roster) -> dict[str, Sitting]:
    return {sitting.sensor: sitting for sitting in roster.sittings}
