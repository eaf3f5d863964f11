"""Many keys in one window: aligned panes in time, a table of columns for each pane.

The operators that own a shard feed it. `tables` makes a monoid of tables over keys, and a scalar
`Amta` over that monoid is the window: one leaf per pane, about four table combines per slide
whatever the ratio of size and slide. It never asks the clock: rows and watermarks carry the time.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from reprlib import repr as shorten
from typing import Any, Final

import numpy as np

from holdfast.errors import (
    InvalidArgumentError,
    InvalidValueError,
    TimeOrderError,
    WindowDroppedError,
)
from holdfast.windows.amta import Amta
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
from holdfast.windows.shard.batches import first_rows, group, split_by_pane
from holdfast.windows.shard.registry import Names, Registry, as_keys
from holdfast.windows.shard.tables import NO_KEYS, Table, Tables, same
from holdfast.windows.values import to_integer

__all__ = ["Emission", "ShardStats", "ShardWindow"]

FARTHEST: Final = 2**61
"""Times lie between minus this and this, so that no sum of them overflows."""

FIRST_ROW: Final = np.zeros(1, np.int64)
"""Where it is, for a copy of it."""


class Emission:
    """What the window from `start` up to, not including, `end` answers: a row for each of its keys.

    Keys and answers are worked out when they are first read.
    """

    __slots__ = ("_answers", "_columns", "_names", "_table", "end", "start")

    def __init__(
        self, start: int, end: int, table: Table, columns: Mapping[str, Columns], names: Names
    ) -> None:
        self.start = start
        self.end = end
        self._table = table
        self._columns = columns
        self._names = names
        self._answers: dict[str, Column] = {}

    def __len__(self) -> int:
        return len(self._table)

    @property
    def keys(self) -> Column:
        """The keys in the window, in the order they first appeared; not to be written to."""
        return self._names.read(self._table.ids)

    def __getitem__(self, name: str) -> Column:
        """One aggregate, a row for each of `keys`."""
        if name not in self._answers:
            columns = self._columns[name]
            position = list(self._columns).index(name)
            self._answers[name] = columns.lower(self._table.states[position])
        return self._answers[name]

    @property
    def results(self) -> dict[str, Column]:
        """All aggregates by name."""
        return {name: self[name] for name in self._columns}

    def __repr__(self) -> str:
        return f"Emission(start={self.start}, end={self.end}, keys={len(self)})"


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

    Windows end at `offset` plus multiples of `slide`. A pane reaches from one point where a window
    starts or ends to the next: one per slide, or two where `size` is no multiple of `slide`.
    """

    def __init__(
        self,
        aggregates: Mapping[str, tuple[Monoid[Any, Any, Any] | Columns, str | None]],
        size: int,
        slide: int,
        *,
        offset: int = 0,
        open_amta: Callable[[Monoid[Table, Table, Table]], Amta[Table, Table, Table]] = Amta,
    ) -> None:
        """`aggregates`: for each name in the results a monoid and the column that it reads.

        A monoid that looks at no value, such as count, needs no column: None. `open_amta` makes the
        window of tables, for instance `partial(open_window, store=store, window="shard-3")`.
        """
        self._columns, self._reads = _check_aggregates(aggregates)
        self.size = _check_integer("size", size, at_least=1)
        self.slide = _check_integer("slide", slide, at_least=1)
        if self.slide > self.size:
            raise InvalidArgumentError(
                f"slide: {slide} is more than size, {size}; rows between two windows would be "
                "lost. Make slide at most size, or leave these rows out first"
            )
        self.offset = _check_integer("offset", offset) % self.slide
        self._cut = -self.size % self.slide
        """How far into a slide windows start: a pane ends there too, unless it is 0."""
        self._step = 2 if self._cut else 1
        """Panes per slide."""
        self._span = self.size // self.slide * self._step + (self._step - 1)
        """Panes per window."""
        self._tables = Tables(tuple(self._columns.values()))
        self._amta = open_amta(self._tables.monoid)
        if len(self._amta):
            raise InvalidArgumentError(
                f"open_amta: its window holds {len(self._amta)} panes, of keys unknown here; a "
                "shard window starts empty, so open one under a name that was not used"
            )
        self._registry = Registry()
        self._ids = np.empty(0, np.int64)
        self._samples: dict[str, State] = {}
        self._open: dict[int, Table] = {}
        self._queue: list[int] = []
        """A heap of the open panes."""
        self._open_keys = 0
        self._watermark: int | None = None
        self._closed: int | None = None
        """The first pane that still takes rows."""
        self._next = 0
        """The pane that follows the newest one in the window; of no meaning when that is empty."""
        self._due = 0
        """The pane before which the next window ends; likewise."""
        self._filled = 0
        """The newest pane in the window that has rows; likewise."""
        self._ready: list[Emission] = []
        self._live = 0
        self._rows = 0
        self._late = 0
        self._dropped = False

    @property
    def watermark(self) -> int | None:
        """How far time has advanced; None at first."""
        return self._watermark

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
            combines=self._tables.combines,
            panes=len(self._amta),
            open_panes=len(self._open),
            registered=len(self._registry),
        )

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
            return np.empty(0, np.int64)
        lowest, highest = self._pane(oldest), self._pane(newest)
        late = np.empty(0, np.int64)
        panes = self._pane(when) if lowest != highest else None
        if self._closed is not None and lowest < self._closed:
            closed = np.full(len(when), True) if panes is None else panes < self._closed
            late, taken = np.flatnonzero(closed), np.flatnonzero(~closed)
            when, whose = when[taken], whose[taken]
            values = {name: column[taken] for name, column in values.items()}
            panes = None if panes is None else panes[taken]
        if len(when):
            self._take(when, whose, values, np.full(1, lowest) if panes is None else panes)
        self._rows += len(when)
        self._late += len(late)
        return late

    def advance(self, watermark: int) -> list[Emission]:
        """Close the panes that end by `watermark`; answers the windows that have ended, in order.

        Windows without rows are left out. When it raises (a store is away, a monoid's combine
        fails), what it has closed so far stays closed, and the answers that were ready come with
        those of the next call.
        """
        self._check_living()
        now = _check_integer("watermark", watermark)
        if self._watermark is not None and now < self._watermark:
            raise TimeOrderError(
                f"watermark: {now} is before {self._watermark}, where this window has been; "
                "watermarks never go back"
            )
        closed = self._pane(now)
        while self._end_window(closed):
            pass
        self._watermark = now
        self._closed = closed if self._closed is None else max(self._closed, closed)
        self._forget_keys()
        ready, self._ready = self._ready, []
        return ready

    def fork(self) -> ShardWindow:
        """A second window that goes on from here; neither disturbs the other.

        Copies O(log n) of the panes in the window, and what refers to the open ones.
        """
        self._check_living()
        fork = copy.copy(self)
        fork._tables = Tables(self._tables.columns, self._tables.combines)
        fork._amta = self._amta.fork()
        fork._amta.monoid = fork._tables.monoid
        fork._registry = self._registry.fork()
        fork._samples = dict(self._samples)
        fork._open = dict(self._open)
        fork._queue = list(self._queue)
        fork._ready = list(self._ready)
        return fork

    def drop(self) -> None:
        """Give up this window; its forks and its base live on."""
        self._check_living()
        self._amta.drop()
        self._dropped = True

    def _check_living(self) -> None:
        if self._dropped:
            raise WindowDroppedError("this window was dropped; go on with its base or a fork")

    def _pane(self, time: Any) -> Any:
        """The pane in which a time lies, or for each of an array of times."""
        if not self._cut:
            return (time - self.offset) // self.slide
        slides, rest = divmod(time - self.offset, self.slide)
        return 2 * slides + (rest >= self._cut)

    def _start(self, pane: int) -> int:
        slides, second = divmod(pane, self._step)
        return self.offset + slides * self.slide + second * self._cut

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
        slots = first_rows(located.slots, order, starts)
        table = Table(self._registry.names.ids(slots), tuple(states))
        added = {}
        for pane, part in split_by_pane(table, panes, order, starts):
            present = self._open.get(pane)
            added[pane] = part if present is None else self._tables.combine(present, part)
        self._registry.admit(located)
        if not self._samples:
            for name, state in zip(self._columns, states, strict=True):
                self._samples[name] = rows(state, FIRST_ROW)
        for pane, part in added.items():
            if pane in self._open:
                self._open_keys -= len(self._open[pane])
            else:
                heappush(self._queue, pane)
            self._open[pane] = part
            self._open_keys += len(part)

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

    def _end_window(self, closed: int) -> bool:
        """Bring the next window to its end if that is within the closed panes, and note its answer.

        Every step can be taken again after one that raised.
        """
        amta = self._amta
        if len(amta):
            start, due = self._next, self._due
        else:
            if not self._queue or self._queue[0] >= closed:
                return False
            start = self._queue[0]
            due = (start // self._step + 1) * self._step
        if due > closed:
            return False
        first = due - self._span
        if len(amta):
            if self._filled < first:
                # Only empty panes are left: on to the next one that has rows.
                amta.evict(len(amta))
                return True
            gone = first - (start - len(amta))
            if gone > 0:
                amta.evict(gone)
        for pane in range(start, due):
            self._close(pane)
            self._due = due
        table = amta.aggregate()
        assert isinstance(table, Table)
        names = self._registry.names
        begin, end = self._start(first), self._start(due)
        self._ready.append(Emission(begin, end, table, self._columns, names))
        self._due = due + self._step
        return True

    def _close(self, pane: int) -> None:
        table = self._open.get(pane)
        if table is None:
            self._amta.insert(NO_KEYS)
        else:
            if same(table.ids, self._ids):
                # One array for all panes with the same keys: combines then need not compare.
                table = Table(self._ids, table.states)
            self._amta.insert(table)
            self._ids = table.ids
        self._next = pane + 1
        self._closed = pane + 1 if self._closed is None else max(self._closed, pane + 1)
        if table is not None:
            self._filled = pane
            del self._open[pane]
            heappop(self._queue)
            self._open_keys -= len(table)

    # Keys that have left

    def _live_ids(self) -> Column:
        parts = [table.ids for table in self._open.values()]
        if len(self._amta):
            parts.append(self._window_ids())
        return np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)

    def _window_ids(self) -> Column:
        table = self._amta.aggregate()
        assert isinstance(table, Table)
        return table.ids

    def _forget_keys(self) -> None:
        """Forget keys that have left once they may be the greater part: amortised O(1) per key.

        Either so many keys came since the last time, or so many left, that looking at all of them
        is paid for.
        """
        most = self._open_keys + (len(self._window_ids()) if len(self._amta) else 0)
        if len(self._registry) > 64 + 2 * min(self._live, most):
            live = self._live_ids()
            self._live = len(live)
            self._registry.forget_all_but(live)


def _check_aggregates(
    aggregates: Mapping[str, tuple[Monoid[Any, Any, Any] | Columns, str | None]],
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


def _check_integer(what: str, value: Any, at_least: float = -math.inf) -> int:
    number = to_integer(what, value)
    if number < at_least or abs(number) > FARTHEST:
        raise InvalidArgumentError(
            f"{what}: is {number}; it must be at least {max(at_least, -FARTHEST)} and at most 2**61"
        )
    return number


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
