"""Windows of composite streams: one AMTA for each stream and partition.

A window is a function of what entered it, in the order of the log: it is saved as it is, root and
pairs, so it answers the same to the bit wherever batches begin, after a crash and in a replay.

Whoever calculates brings the roots and, of the interior pairs, those near the old end, as many as a
batch is likely to need. What is not brought is fetched, where that is possible, or the batch has to
be calculated elsewhere: `NotBroughtError`.

Updates leave in the order in which they came: with `size`, when they and all before them are that
much older than the result or the newest update.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final

import msgspec

from holdfast.errors import HoldfastError
from holdfast.intervals import parse_interval
from holdfast.tenants.machine.documents import LARGEST_WINDOW, Aggregate
from holdfast.tenants.machine.updates import Update
from holdfast.windows import monoids as m
from holdfast.windows.amta import Amta
from holdfast.windows.monoid import HOLE, Monoid
from holdfast.windows.pairs import Pair, Root, Written
from holdfast.windows.policies import Part, Policy
from holdfast.windows.shard.shelves import OverlaidPairs
from holdfast.windows.stores.codec import StateCodec, seal, unseal

COUNT: Final = "_count"
"""The field that every record has."""
MOST_COMPOSED: Final = 10_000

MONOIDS: Final[dict[str, Monoid[Any, Any, Any]]] = {
    "count": m.count,
    "sum": m.sum,
    "mean": m.mean,
    "min": m.min,
    "max": m.max,
    "range": m.range,
    "stddev": m.stddev,
    "first": m.first,
    "last": m.last,
    "any": m.any,
    "all": m.all,
}


class TooManyPartitionsError(HoldfastError):
    """More of them than one result may be made of."""


def span_of(aggregate: Aggregate) -> int | None:
    """The microseconds that it looks back, if there is a limit."""
    told = aggregate.size if aggregate.over == "window" else aggregate.expiry
    return None if told is None else parse_interval("aggregate", told)


def composed(
    latest: Iterable[Update], aggregate: Aggregate, now: int, lift: Callable[[str, Update], Any]
) -> dict[str, Any]:
    """The last updates of partitions, in this order, but for those that have expired; `lift` says
    what an update brings to a field."""
    span = span_of(aggregate)
    members = [each for each in latest if span is None or each.timestamp > now - span]
    if len(members) > MOST_COMPOSED:
        raise TooManyPartitionsError(
            f"aggregate: {len(members)} partitions are in it, of {MOST_COMPOSED} at most; "
            "give an expiry, or ask for fewer streams"
        )
    record: dict[str, Any] = {COUNT: len(members)}
    for name, field in aggregate.fields.items():
        answer = _folded(MONOIDS[field.function], [lift(name, each) for each in members])
        if answer is not None:
            record[name] = answer
    return record


def _folded(monoid: Monoid[Any, Any, Any], values: Sequence[Any]) -> Any:
    state: Any = HOLE
    for value in values:
        state = monoid.join(state, monoid.lift(value))
    return monoid.answer(state)


Fetch = Callable[[int, int], bytes]
"""The interior pair at a level and position."""

_CODEC: Final = StateCodec()


class NotBroughtError(HoldfastError):
    """A pair that is in the store was not brought along."""


class SavedWindow(msgspec.Struct, frozen=True):
    """As it lies in the store, and as it is to lie there."""

    path: str
    scope: str
    """The partition whose updates are in it; empty: all of them."""
    oldest: int
    """The number of the oldest leaf: pairs that cover only leaves before it are not needed."""
    levels: int
    """No pair was ever on this level, or above it."""
    root: bytes
    pairs: list[tuple[int, int, bytes]] = []
    """Of those that lie there, some; of those that are to lie there, the new ones."""


def brought_positions(oldest: int, levels: int, leaves: int) -> list[tuple[int, int, int]]:
    """Of each level the first and the last pair that are needed to evict so many leaves."""
    return [(level, oldest >> level + 1, oldest + leaves >> level + 1) for level in range(levels)]


class Window:
    def __init__(
        self,
        aggregate: Aggregate,
        saved: SavedWindow | None = None,
        fetch: Fetch | None = None,
    ) -> None:
        names = tuple(field.function for field in aggregate.fields.values())
        root: Root[Any] = Root() if saved is None else _root(saved.root)
        self._pairs = _BroughtPairs(saved, fetch)
        self._window: Amta[Any, Any, Any] = Amta(_monoid(names), pairs=self._pairs, root=root)
        self._levels = 0 if saved is None else saved.levels
        self._fields = list(aggregate.fields)
        self._span = span_of(aggregate)
        self._count = aggregate.count
        self._oldest = root.oldest
        self._next = root.next

    @property
    def changed(self) -> bool:
        """Since it was opened."""
        root = self._window.root
        return (root.oldest, root.next) != (self._oldest, self._next)

    def __len__(self) -> int:
        return len(self._window)

    def insert(self, timestamp: int, values: Sequence[Any]) -> bool:
        """A value for each field. False: there is no room for all that ought to be in it."""
        window = self._window
        window.insert((timestamp, *values))
        if self._count is not None:
            window.evict(max(0, len(window) - self._count))
        self._slide(timestamp)
        excess = len(window) - LARGEST_WINDOW
        window.evict(max(0, excess))
        return excess <= 0

    def record(self, now: int) -> dict[str, Any]:
        """A value for each field that has one, at this time."""
        self._slide(now)
        answers = self._window.result()
        record: dict[str, Any] = {COUNT: len(self._window)}
        for number, name in enumerate(self._fields):
            answer = answers[f"f{number}"]
            if answer is not None:
                record[name] = answer
        return record

    def saved(self, path: str, scope: str) -> SavedWindow:
        root = self._window.root
        numbers = (root.oldest, root.next, root.end)
        states = (root.tails, root.stack, root.front, root.back)
        return SavedWindow(
            path,
            scope,
            root.oldest,
            max(self._levels, len(root.tails)),
            seal(_CODEC.encode((numbers, states))),
            self._pairs.written(root.oldest),
        )

    def _slide(self, now: int) -> None:
        if self._span is None or not len(self._window):
            return
        limit = max(now, self._window.result()["time"]) - self._span

        def is_past(candidate: Part, _after: Part, _before: Part) -> bool:
            return bool(candidate.value["time"] <= limit)

        self._window.slide(Policy(eviction_invariant=is_past, keep_newest=False))


@lru_cache(maxsize=1024)
def _monoid(functions: tuple[str, ...]) -> Monoid[Any, Any, Any]:
    """Over (timestamp, a value for each function); names of fields are the tenant's, so they are
    numbered here."""
    dimensions = {
        f"f{number}": MONOIDS[function].over(itemgetter(number + 1))
        for number, function in enumerate(functions)
    }
    return m.product(time=m.max.over(itemgetter(0)), **dimensions)


def _root(data: bytes) -> Root[Any]:
    (oldest, following, end), (tails, stack, front, back) = _CODEC.decode(unseal(data))
    return Root(oldest, following, list(tails), end, list(stack), front, back)


class _BroughtPairs:
    """The interior pairs of a window: brought along, fetched, or made here."""

    def __init__(self, saved: SavedWindow | None, fetch: Fetch | None) -> None:
        self._brought = {} if saved is None else {(le, po): data for le, po, data in saved.pairs}
        self._fetch = fetch
        self._read: dict[tuple[int, int], Pair[Any]] = {}
        self._written: dict[tuple[int, int], Pair[Any]] = {}

    def read(self, level: int, position: int) -> Pair[Any]:
        at = level, position
        pair = self._written.get(at) or self._read.get(at)
        if pair is None:
            pair = self._read[at] = _CODEC.decode(unseal(self._find(level, position)))
        return pair

    def _find(self, level: int, position: int) -> bytes:
        data = self._brought.get((level, position))
        if data is not None:
            return data
        if self._fetch is None:
            raise NotBroughtError(f"window: the pair {position} of level {level} is not here")
        return self._fetch(level, position)

    def write(self, written: list[Written[Any]], root: Root[Any]) -> None:
        for level, position, pair in written:
            self._written[level, position] = pair

    def written(self, oldest: int) -> list[tuple[int, int, bytes]]:
        """The new ones, but for those that are not needed any more."""
        return [
            (level, position, seal(_CODEC.encode(pair)))
            for (level, position), pair in self._written.items()
            if position >= oldest >> level + 1
        ]

    def release(self, oldest: int) -> None:
        """Whoever stores the window takes them away."""

    def fork(self, root: Root[Any]) -> OverlaidPairs[Any]:
        return OverlaidPairs(self)

    def drop(self) -> None:
        """They go with the batch."""

    def checkpoint(self, root: Root[Any]) -> None:
        """`Window.saved` does that."""

    def drop_leaves(self, root: Root[Any], coarse: Root[Any], written: list[Written[Any]]) -> bool:
        return False
