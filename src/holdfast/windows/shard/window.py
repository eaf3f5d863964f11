"""Many keys in one window: aligned panes in time, a table of columns for each pane.

The operators that own a shard feed it. `tables` makes a monoid of tables over keys, and a scalar
`Amta` over that monoid is the window: one leaf per pane, about four table combines per slide
whatever the ratio of size and slide. It never asks the clock: rows and watermarks carry the time.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from reprlib import repr as shorten
from typing import Any, Final

import numpy as np

from holdfast.errors import (
    InvalidArgumentError,
    InvalidValueError,
    StoreError,
    TimeOrderError,
    WindowDroppedError,
)
from holdfast.windows.amta import Amta
from holdfast.windows.approximation.methods import Method, check_methods
from holdfast.windows.columns import (
    Column,
    Columns,
    State,
    as_column,
    columns_of,
    reduce_segments,
    rows,
)
from holdfast.windows.monoid import Monoid
from holdfast.windows.pairs import DurablePairs
from holdfast.windows.shard.batches import first_rows, group, split_by_pane
from holdfast.windows.shard.buckets import PaneBuckets
from holdfast.windows.shard.emission import NOBODY, Emission
from holdfast.windows.shard.known import Known
from holdfast.windows.shard.open_panes import OpenPanes
from holdfast.windows.shard.panes import FARTHEST, Panes, Span, check_integer
from holdfast.windows.shard.partials import Partials
from holdfast.windows.shard.registry import Located, Names, Registry, as_keys
from holdfast.windows.shard.tables import NO_KEYS, Table, Tables, same
from holdfast.windows.shard.views import TableAmta, Views

__all__ = ["Clock", "ShardStats", "ShardWindow"]

Aggregates = Mapping[str, tuple[Monoid[Any, Any, Any] | Columns, str | None]]
OpenAmta = Callable[[Monoid[Table, Table, Table]], TableAmta]

FIRST_ROW: Final = np.zeros(1, np.int64)
"""Where it is, for a copy of it."""


@dataclass(slots=True)
class Clock:
    """How far a shard window has come."""

    dues: list[int]
    """For each span the pane before which its next window ends; of no meaning, as `next` and
    `filled`, while there are neither panes in the window nor idle keys."""
    next: int = 0
    """The pane that follows the newest one in the window."""
    filled: int = 0
    """The newest pane in the window that has rows."""
    watermark: int | None = None
    closed: int | None = None
    """The first pane that still takes rows."""


@dataclass(frozen=True, slots=True)
class ShardStats:
    """What a shard window has done and holds; a fork goes on from the figures of its base."""

    rows: int
    """Rows taken in."""
    late: int
    """Rows refused because their pane was closed."""
    combines: int
    """Combines of two tables."""
    panes: int
    """Panes in the window, empty ones between others included."""
    open_panes: int
    """Panes with rows that have not entered the window."""
    registered: int
    """Keys that have a number, some perhaps for keys that have left."""


class ShardWindow:
    """A window of `size` every `slide` over all keys of a shard, for times in any integer unit.

    >>> from holdfast.windows import monoids as m
    >>> window = ShardWindow({"total": (m.sum, "price")}, size=60, slide=20)
    >>> window.add([3, 15, 21], ["a", "b", "a"], price=[1.5, 2.0, 4.0])
    array([], dtype=int64)
    >>> for emission in window.advance(40):
    ...     print(emission.end, emission.keys.tolist(), emission["total"].tolist())
    20 ['a', 'b'] [1.5, 2.0]
    40 ['a', 'b'] [5.5, 2.0]

    Windows end at `offset` plus multiples of `slide`. `panes` says how they cut time.
    """

    def __init__(
        self,
        aggregates: Aggregates,
        size: int,
        slide: int,
        *,
        offset: int = 0,
        more: Sequence[Span] = (),
        linger: int | None = None,
        approximate: Method | Sequence[Method] | None = None,
        open_amta: OpenAmta = Amta,
    ) -> None:
        """`aggregates`: for each name in the results a monoid and the column that it reads.

        A monoid that looks at no value, such as count, needs no column: None. `more` are further
        windows over the same panes. `linger`: for how long after its newest pane a key is still
        named as idle by windows without its rows; by default it is not. `approximate`: `max_error`,
        `max_leaves` or both, for one window only. `open_amta` makes the window of tables, for
        instance `partial(open_window, store=store, window="shard-3")`.

        If the store has a window of that name, this one goes on from there, with its keys and open
        panes: go on with the row after the first `position`, and with the watermarks from there on.
        Windows that had ended between may be answered again.
        """
        self._columns, self._reads = _check_aggregates(aggregates)
        self.panes = Panes([Span(size, slide, offset), *more])
        self.linger = None if linger is None else check_integer("linger", linger, at_least=0)
        self._buckets = self._make_buckets(approximate)
        columns = list(self._columns.values())
        amounts = [] if self._buckets is None else self._buckets.amounts
        self._tables = Tables([*columns, *amounts])
        self._pane_tables = Tables(columns) if amounts else self._tables
        amta = open_amta(self._tables.monoid)
        self._views = Views(amta, [span.size for span in self.panes.spans])
        self._registry = Registry()
        self._ids = np.empty(0, np.int64)
        self._samples: dict[str, State] = {}
        self._open = OpenPanes()
        self._known = Known()
        self._now = Clock(dues=[0] * len(self.panes.spans))
        self._ready: list[Emission] = []
        self._live = 0
        self._rows = 0
        self._late = 0
        self._dropped = False
        self._signature = _describe(self, approximate)
        self._resume(self._accompany())

    def _make_buckets(self, approximate: Method | Sequence[Method] | None) -> PaneBuckets | None:
        if approximate is None:
            return None
        if len(self.panes.spans) > 1:
            raise InvalidArgumentError(
                "approximate: goes with one window, not with several that share their panes; call "
                "once for each window"
            )
        return PaneBuckets(approximate, self._columns, self.panes)

    @property
    def watermark(self) -> int | None:
        """How far time has advanced; None at first."""
        return self._now.watermark

    @property
    def keys(self) -> int:
        """How many keys the window and the open panes hold."""
        self._check_living()
        return len(self._live_ids())

    @property
    def stats(self) -> ShardStats:
        return ShardStats(
            rows=self._rows,
            late=self._late,
            combines=self._combines,
            panes=len(self._views),
            open_panes=len(self._open),
            registered=len(self._registry),
        )

    @property
    def _combines(self) -> int:
        apart = self._pane_tables is not self._tables
        return self._tables.combines + (self._pane_tables.combines if apart else 0)

    @property
    def position(self) -> int:
        """How many rows were given so far, late ones included."""
        return self._rows + self._late

    def next_end(self) -> int | None:
        """When the next window with rows or idle keys ends; None while there is nothing to end."""
        if self._is_going():
            return self.panes.start(min(self._now.dues))
        oldest = self._open.oldest
        if oldest is None:
            return None
        start = self.panes.start(oldest)
        return min(span.next_end(start) for span in self.panes.spans)

    def add(self, times: Any, keys: Any, /, **columns: Any) -> Column:
        """Take rows into their panes, in any order; answers the positions of those that are late.

        A row is late, and not taken, if its pane is closed. Rows of one key in one pane are
        combined by time, equal times as they come; a later call's after an earlier call's. When it
        raises, no row has been taken.
        """
        self._check_living()
        when, oldest, newest = _as_times(times)
        whose = as_keys(keys)
        values = self._check_columns(columns, len(when), len(whose))
        if not len(when):
            return NOBODY
        lowest, highest = self.panes.of(oldest), self.panes.of(newest)
        late = NOBODY
        panes = self.panes.of_each(when) if lowest != highest else None
        if self._now.closed is not None and lowest < self._now.closed:
            closed = np.full(len(when), True) if panes is None else panes < self._now.closed
            late, taken = np.flatnonzero(closed), np.flatnonzero(~closed)
            when, whose = when[taken], whose[taken]
            values = {name: column[taken] for name, column in values.items()}
            panes = None if panes is None else panes[taken]
        if len(when):
            self._take(when, whose, values, np.full(1, lowest) if panes is None else panes)
        self._rows += len(when)
        self._late += len(late)
        return late

    def merge(self, partials: Partials) -> Column:
        """Take rows that were reduced elsewhere; answers the positions of states that are late.

        They are combined after what their panes hold already. When it raises, none has been taken.
        """
        self._check_living()
        if len(partials.states) != len(self._columns):
            raise InvalidArgumentError(
                f"merge: states of {len(partials.states)} aggregates; this window has "
                f"{len(self._columns)}"
            )
        late, taken, panes = NOBODY, None, partials.panes
        if self._now.closed is not None and len(panes) and panes[0] < self._now.closed:
            first = int(np.searchsorted(panes, self._now.closed))
            late, taken, panes = np.arange(first), slice(first, None), panes[first:]
        if len(panes):
            self._take_partials(partials, taken, panes)
        refused = int(partials.counts[late].sum())
        self._rows += int(partials.counts.sum()) - refused
        self._late += refused
        return late

    def advance(self, watermark: int) -> list[Emission]:
        """Close the panes that end by `watermark`; answers the windows that have ended, in order.

        Windows without rows are left out. When it raises (a store is away, a monoid's combine
        fails), what it has closed so far stays closed, and the answers that were ready come with
        those of the next call.
        """
        self._check_living()
        now = check_integer("watermark", watermark)
        if self._now.watermark is not None and now < self._now.watermark:
            raise TimeOrderError(
                f"watermark: {now} is before {self._now.watermark}, where this window has been; "
                "watermarks never go back"
            )
        closed = self.panes.of(now)
        limits = [closed] * len(self.panes.spans)
        while self._end_window(limits):
            pass
        self._now.watermark = now
        self._now.closed = closed if self._now.closed is None else max(self._now.closed, closed)
        # Before panes go: the aggregate of the window is at hand now.
        self._forget_keys()
        if self._is_going():
            self._trim(self._firsts())
        ready, self._ready = self._ready, []
        return ready

    def preview(self) -> list[Emission]:
        """What windows would answer if no more rows came: those that end by the first end of their
        span after the newest row. Changes nothing: works on a fork.
        """
        self._check_living()
        numbers = self._open.numbers
        if self._is_going():
            numbers.append(self._now.filled)
        if not numbers:
            return []
        newest = max(numbers)
        fork = self.fork()
        limits = [self.panes.due(span, newest) for span in self.panes.spans]
        while fork._end_window(limits):
            pass
        fork.drop()
        return fork._ready

    def fork(self) -> ShardWindow:
        """A second window that goes on from here; neither disturbs the other.

        Copies O(log n) of the panes in the window, and what refers to the open ones.
        """
        self._check_living()
        fork = copy.copy(self)
        fork._tables = Tables(self._tables.columns, self._tables.combines)
        if self._pane_tables is self._tables:
            fork._pane_tables = fork._tables
        else:
            fork._pane_tables = Tables(self._pane_tables.columns, self._pane_tables.combines)
        fork._buckets = None if self._buckets is None else self._buckets.copy()
        fork._views = self._views.fork(fork._tables.monoid)
        fork._registry = self._registry.fork()
        fork._samples = dict(self._samples)
        fork._open = self._open.copy()
        fork._ready = list(self._ready)
        fork._now = replace(self._now, dues=list(self._now.dues))
        fork._accompany()
        return fork

    def drop(self) -> None:
        """Give up this window; its forks and its base live on."""
        self._check_living()
        self._views.drop()
        self._dropped = True

    def checkpoint(self) -> None:
        """Make the window durable as it is now, if its panes lie where they can outlive it."""
        self._check_living()
        self._views.main.checkpoint()

    # In a store

    def _accompany(self) -> Any:
        """Have what is not in the panes saved with them; answers what was saved before."""
        pairs = self._views.main.pairs
        return pairs.accompany(self._companion) if isinstance(pairs, DurablePairs) else None

    def _companion(self) -> tuple[Any, ...]:
        views, known = self._views, self._known
        return (
            self._signature,
            (self._rows, self._late, self._live),
            astuple(self._now),
            views.saved(),
            [(pane, self._open.get(pane)) for pane in self._open.numbers],
            self._registry.names.saved(),
            (known.ids, known.seen),
            None if self._buckets is None else self._buckets.saved(),
            [emission.saved() for emission in self._ready],
        )

    def _resume(self, companion: tuple[Any, ...] | None) -> None:
        """Go on from what a store has, if it has anything."""
        main = self._views.main
        if companion is None:
            if len(main):
                raise InvalidArgumentError(
                    f"open_amta: its window holds {len(main)} panes, of keys unknown here; open "
                    "one under a name that was not used"
                )
            return
        signature, counts, clock, views, panes, names, known, buckets, ready = companion
        if signature != self._signature:
            raise StoreError(
                f"open_amta: its window was stored as {signature}, this one is "
                f"{self._signature}; open it as that, or give this window another name"
            )
        self._rows, self._late, self._live = counts
        self._now = Clock(*clock)
        self._views.restore(views)
        for pane, table in panes:
            self._open.put(pane, table)
        self._registry = Registry(Names(*names))
        self._known = Known(*known)
        if self._buckets is not None:
            self._buckets.restore(buckets)
        for span, start, end, table, *rest in ready:
            names_now = self._registry.names
            self._ready.append(Emission(span, start, end, table, self._columns, names_now, *rest))

    def _check_living(self) -> None:
        if self._dropped:
            raise WindowDroppedError("this window was dropped; go on with its base or a fork")

    # Rows into open panes

    def _check_columns(self, columns: dict[str, Any], count: int, keys: int) -> dict[str, Column]:
        wanted = {name for name in self._reads.values() if name is not None}
        if columns.keys() != wanted:
            raise InvalidArgumentError(
                f"add: columns are {sorted(columns)}; this window reads {sorted(wanted)}"
            )
        values = {name: as_column(column, name) for name, column in columns.items()}
        lengths = [("keys", keys), *((name, len(column)) for name, column in values.items())]
        for name, length in lengths:
            if length != count:
                raise InvalidArgumentError(
                    f"add: {name} has {length} rows, times has {count}; give as many of each"
                )
        return values

    def _take(self, when: Column, whose: Column, values: dict[str, Column], panes: Column) -> None:
        """Rows whose panes are open; `panes` has one entry if they are all in the same."""
        located = self._registry.locate(whose)
        order, starts = group(located, len(self._registry), panes, when)
        if order is None:
            values = {name: column.copy() for name, column in values.items()}
        else:
            values = {name: column[order] for name, column in values.items()}
        states = []
        for name, columns in self._columns.items():
            read = self._reads[name]
            state = columns.lift(np.empty(len(when), object) if read is None else values[read])
            if starts is not None:
                state = reduce_segments(columns, state, starts)
            self._check_kind(name, state)
            states.append(state)
        self._put(located, order, starts, panes, tuple(states))
        if not self._samples:
            for name, state in zip(self._columns, states, strict=True):
                self._samples[name] = rows(state, FIRST_ROW)

    def _take_partials(self, partials: Partials, taken: slice | None, panes: Column) -> None:
        slots, states = partials.slots, partials.states
        if taken is not None:
            slots = slots[taken]
            states = tuple([rows(state, taken) for state in states])
        known = self._registry.locate(as_keys(partials.keys))
        located = Located(known.keys, known.slots[slots], known.fresh)
        order, _ = group(located, len(self._registry), panes, panes)
        if order is not None:
            states = tuple([rows(state, order) for state in states])
        self._put(located, order, None, panes, states, known)

    def _put(
        self,
        located: Located,
        order: Column | None,
        starts: Column | None,
        panes: Column,
        states: tuple[State, ...],
        known: Located | None = None,
    ) -> None:
        """Combine what came with what the open panes hold, and only then take it."""
        slots = first_rows(located.slots, order, starts)
        table = Table(self._registry.names.ids(slots), states)
        added = {}
        for pane, part in split_by_pane(table, panes, order, starts):
            present = self._open.get(pane)
            added[pane] = part if present is None else self._pane_tables.combine(present, part)
        self._registry.admit(located if known is None else known)
        for pane, part in added.items():
            self._open.put(pane, part)

    def _check_kind(self, name: str, state: State) -> None:
        """Refuse now what could not be combined later, when panes are closed."""
        columns, first = self._columns[name], rows(state, FIRST_ROW)
        sample = self._samples.get(name, first)
        if columns.compares and state[0].dtype == object:
            # Here each may be of another kind.
            columns.combine(rows(sample, np.zeros(len(state[0]), np.int64)), state)
        elif any(a.dtype != b.dtype for a, b in zip(sample, first, strict=True)):
            columns.combine(sample, first)

    # Panes into the window

    def _end_window(self, limits: list[int]) -> bool:
        """Bring the next window to its end if that is within its limit, and note its answer.

        Every step can be taken again after one that raised.
        """
        now, panes, views = self._now, self.panes, self._views
        if not self._is_going():
            if self._open.oldest is None:
                return False
            now.next = self._open.oldest
            now.dues = [panes.due(span, now.next) for span in panes.spans]
        due, which = min(
            ((due, i) for i, due in enumerate(now.dues) if due <= limits[i]), default=(None, 0)
        )
        if due is None:
            return False
        firsts = self._firsts()
        if self._is_going():
            if self._is_over(firsts):
                # Only empty panes are left: on to the next one that has rows.
                if self._buckets is None:
                    views.clear()
                else:
                    self._buckets.evict(views.main, now.next)
                self._known = Known()
                return True
            self._trim(firsts)
        span, first = panes.spans[which], firsts[which]
        for pane in range(now.next, due):
            self._close(pane)
        start, end = panes.start(first), panes.start(due)
        table, idle = views.table(which), NOBODY
        if self.linger is not None:
            self._known = self._known.since(end - self.linger)
            idle = self._known.without(table.ids)
        if len(table) or len(idle):
            names = self._registry.names
            certain = None
            if self._buckets is not None and self._buckets.bounded:
                certain = self._buckets.holds(views.main, table, first)
            self._ready.append(
                Emission(which, start, end, table, self._columns, names, idle, certain)
            )
        if self._buckets is not None:
            self._buckets.observe(table)
        now.dues[which] = panes.due(span, due)
        return True

    def _firsts(self) -> list[int]:
        """The oldest pane of the next window of each span."""
        return [
            self.panes.first(*each) for each in zip(self.panes.spans, self._now.dues, strict=True)
        ]

    def _is_going(self) -> bool:
        """Whether windows are to follow those that have ended, or the next rows start anew."""
        return len(self._views) > 0 or len(self._known.ids) > 0

    def _is_over(self, firsts: list[int]) -> bool:
        """Whether no window to come has any rows of those in here, nor an idle key."""
        if self._now.filled >= min(firsts):
            return False
        if self.linger is None or not len(self._known.ids):
            return True
        return int(self._known.seen.max()) + self.linger < self.panes.start(min(self._now.dues))

    def _trim(self, firsts: list[int]) -> None:
        """Let go of the panes that no window to come needs.

        The keeper keeps for all: no other window that ends as late begins before its own.
        """
        if self._buckets is not None:
            self._buckets.evict(self._views.main, min(firsts))
            return
        for which, first in enumerate(firsts):
            oldest = min(firsts) if which == self._views.keeper else first
            self._views.evict(which, self._number(min(oldest, self._now.next)))

    def _number(self, pane: int) -> int:
        """Under which number the views have a pane."""
        return self._views.position - (self._now.next - pane)

    def _close(self, pane: int) -> None:
        now = self._now
        table = self._open.get(pane)
        if table is None:
            self._insert(pane, NO_KEYS)
        else:
            if same(table.ids, self._ids):
                # One array for all panes with the same keys: combines then need not compare.
                table = Table(self._ids, table.states)
            self._insert(pane, table)
            self._ids = table.ids
        now.next = pane + 1
        now.closed = pane + 1 if now.closed is None else max(now.closed, pane + 1)
        if table is not None:
            now.filled = pane
            self._open.remove_oldest()
            if self.linger is not None:
                self._known = self._known.see(table.ids, self.panes.start(pane + 1))

    def _insert(self, pane: int, table: Table) -> None:
        if self._buckets is None:
            self._views.insert(table)
        elif pane >= self._buckets.next or not self._buckets.starts:
            self._buckets.insert(self._views.main, pane, self._buckets.as_leaf(table))
            self._views.position = self._views.main.position

    # Keys that have left

    def _live_ids(self) -> Column:
        parts = [*self._open.ids(), self._window_ids(), self._known.ids]
        return np.unique(np.concatenate(parts))

    def _window_ids(self) -> Column:
        return self._views.table(self._views.keeper).ids

    def _forget_keys(self) -> None:
        """Forget keys that have left once they may be the greater part: amortised O(1) per key.

        Either so many keys came since the last time, or so many left, that looking at all of them
        is paid for.
        """
        most = self._open.rows + len(self._window_ids()) + len(self._known.ids)
        if len(self._registry) > 64 + 2 * min(self._live, most):
            live = self._live_ids()
            self._live = len(live)
            self._registry.forget_all_but(live)


def _describe(window: ShardWindow, approximate: Method | Sequence[Method] | None) -> str:
    """All that the saved state of a window depends on, beside the monoid of its tables."""
    methods = () if approximate is None else check_methods(approximate)
    reads = ", ".join(
        f"{name}={window._columns[name].name}({read})" for name, read in window._reads.items()
    )
    spans = ", ".join(map(str, window.panes.spans))
    plain = f"{reads} over {spans}, linger={window.linger}"
    return f"{plain}, approximate={', '.join(map(str, methods))}" if methods else plain


def _check_aggregates(
    aggregates: Aggregates,
) -> tuple[dict[str, Columns], dict[str, str | None]]:
    if not aggregates:
        raise InvalidArgumentError(
            'aggregates: is empty; give at least one, as in {"total": (monoids.sum, "price")}'
        )
    columns, reads = {}, {}
    for name, entry in aggregates.items():
        match entry:
            case (Monoid() | Columns() as monoid, str() | None as read):
                columns[name] = columns_of(monoid) if isinstance(monoid, Monoid) else monoid
                reads[name] = read
            case _:
                raise InvalidArgumentError(
                    f"aggregates: {name} is {shorten(entry)}; give a monoid and the name of the "
                    'column that it reads, as in (monoids.sum, "price")'
                )
    return columns, reads


def _as_times(times: Any) -> tuple[Column, int, int]:
    """The times, the oldest and the newest."""
    column = as_column(times, "times")
    if not len(column):
        return column.astype(np.int64), 0, 0
    if column.dtype.kind == "f" and np.isnan(column).any():
        raise InvalidValueError("times: one of them is NaN; filter these rows out")
    if column.dtype.kind != "i":
        raise InvalidValueError(
            f"times: are {column.dtype}, not integers; give a count of units since some moment, "
            'such as microseconds: times.astype("datetime64[us]").astype("int64")'
        )
    oldest, newest = int(column.min()), int(column.max())
    if oldest < -FARTHEST or newest > FARTHEST:
        raise InvalidValueError("times: one of them is beyond 2**61; take a coarser unit")
    return column, oldest, newest
