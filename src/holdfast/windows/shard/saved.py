"""A shard window that lies on shelves between batches.

The operators open it at the start of a batch and save it at the end. Opening reads the root of the
window, O(log n) tables, and its keys; interior pairs and open panes follow when they are needed.
Saving writes what has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import numpy as np

from holdfast.errors import StoreCorruptError
from holdfast.windows.amta import Amta
from holdfast.windows.columns import Column
from holdfast.windows.monoid import HOLE, Monoid
from holdfast.windows.pairs import Root
from holdfast.windows.shard.known import Known
from holdfast.windows.shard.open_panes import OpenPanes
from holdfast.windows.shard.registry import Names, Registry
from holdfast.windows.shard.shelves import Shelf, ShelvedPairs
from holdfast.windows.shard.tables import Table
from holdfast.windows.shard.views import TableAmta
from holdfast.windows.shard.window import Clock, OpenAmta, ShardWindow

__all__ = ["SavedShard", "SignatureError"]

FORMAT = 2
MOST_CHUNKS = 64
"""Chunks of keys on the shelf before they are written as one."""
PLACES = 128
"""Numbers set aside for the tails or the stack of one view."""

MakeWindow = Callable[[OpenAmta], ShardWindow]


class SignatureError(StoreCorruptError):
    """The shelves hold a window of another kind; `saved` and `wanted` say which."""

    def __init__(self, saved: str, wanted: str) -> None:
        super().__init__(f"the state is of {saved}; this window is {wanted}")
        self.saved = saved
        self.wanted = wanted


class SavedShard:
    """A shard window and what of it lies on the shelves.

    `make` makes the window, empty, with the AMTA it is given; `signature` says all that the saved
    state depends on. `parts` and `pairs` may be exchanged for others over the same records.
    """

    def __init__(self, make: MakeWindow, signature: str, parts: Shelf, pairs: Shelf) -> None:
        self.signature = signature
        self._parts = _CompactShelf(parts)
        self._pair_shelf = _CompactShelf(pairs)
        self._pairs: ShelvedPairs[Table] = ShelvedPairs(self._pair_shelf)
        self.window = make(self._open_amta)
        self._saved: dict[tuple[str, int], Any] = {}
        self._names = self.window._registry.names
        self._named = 0
        self._chunks = 0
        self.version = 0
        """How often it was saved."""
        meta = parts.read("meta", 0)
        if meta is not None:
            self._load(meta)

    def move(self, parts: Shelf, pairs: Shelf) -> None:
        """Go on with other shelves that hold the same records."""
        self._parts.shelf = parts
        self._pair_shelf.shelf = pairs

    def save(self) -> None:
        self._pairs.save()
        self._save_panes()
        self._save_names()
        window = self.window
        current = _root_parts(window)
        if window.linger is not None:
            current["known", 0] = window._known
        if window._buckets is not None:
            current["buckets", 0] = ("buckets", *window._buckets.saved())
        for at, part in current.items():
            if self._saved.get(at) is not part:
                self._parts.write(*at, part)
        for at in self._saved.keys() - current.keys():
            self._parts.delete(*at)
        self._saved = current
        self.version += 1
        self._parts.write("meta", 0, self._meta())

    def _open_amta(self, monoid: Monoid[Table, Table, Table]) -> TableAmta:
        return Amta(monoid, pairs=self._pairs)

    # Writing

    def _meta(self) -> tuple[Any, ...]:
        window, names = self.window, self._names
        roots = [
            (root.oldest, root.next, root.end, len(root.tails), len(root.stack))
            for root in (view.root for view in window._views.each)
        ]
        return (
            FORMAT,
            self.signature,
            self.version,
            astuple(window._now),
            window._live,
            roots,
            (self._pairs.swept, self._pairs.levels, self._pairs.lowest),
            (window._open.numbers, window._open.rows),
            (self._chunks, names._kept, names._shift),
        )

    def _save_panes(self) -> None:
        panes = self.window._open
        for pane in panes.changed:
            if pane in panes:
                self._parts.write("pane", pane, panes.get(pane))
            else:
                self._parts.delete("pane", pane)
        panes.changed.clear()

    def _save_names(self) -> None:
        names = self.window._registry.names
        if names is not self._names or self._chunks == MOST_CHUNKS:
            for chunk in range(1, self._chunks):
                self._parts.delete("names", chunk)
            self._names, self._named, self._chunks = names, 0, 0
        if self._named < len(names.keys):
            self._parts.write("names", self._chunks, names.keys[self._named :])
            self._named = len(names.keys)
            self._chunks += 1

    # Reading

    def _load(self, meta: Any) -> None:
        if meta[0] != FORMAT:
            raise SignatureError(f"format {meta[0]}", f"format {FORMAT}")
        _, signature, self.version, clock, live, roots, pairs, panes, names = meta
        if signature != self.signature:
            raise SignatureError(signature, self.signature)
        window = self.window
        window._now = Clock(*clock)
        window._live = live
        self._pairs.resume(*pairs)
        self._load_roots(roots)
        numbers, rows = panes
        window._open = OpenPanes(numbers, rows, self._fetch_pane)
        chunks, kept, shift = names
        keys = [key for chunk in range(chunks) for key in self._parts.read("names", chunk)]
        window._registry = Registry(Names(keys, kept, shift))
        self._names, self._named, self._chunks = window._registry.names, len(keys), chunks
        if window.linger is not None:
            window._known = self._saved["known", 0] = self._parts.read("known", 0)
        if window._buckets is not None:
            window._buckets.restore(self._parts.read("buckets", 0)[1:])
            window._buckets.constrain(window._views.main)
            window._views.position = window._views.main.position

    def _load_roots(self, roots: list[tuple[int, int, int, int, int]]) -> None:
        views, read = self.window._views, self._read_part
        for which, (oldest, following, end, tails, stack) in enumerate(roots):
            at = which * PLACES
            root = Root(
                oldest,
                following,
                [read("tail", at + level) for level in range(tails)],
                end,
                [read("stack", at + place) for place in range(stack)],
                read("front", which) if tails else HOLE,
                read("back", which) if tails else HOLE,
            )
            views.each[which]._root = root
        views.position = views.main.position

    def _read_part(self, name: str, number: int) -> Any:
        part = self._saved[name, number] = self._parts.read(name, number)
        return part

    def _fetch_pane(self, pane: int) -> Table:
        table: Table = self._parts.read("pane", pane)
        return table


def _root_parts(window: ShardWindow) -> dict[tuple[str, int], Any]:
    """What the views of a window hold, each part under its place."""
    parts: dict[tuple[str, int], Any] = {}
    for which, view in enumerate(window._views.each):
        root, at = view.root, which * PLACES
        if root.tails:
            parts["front", which] = root.front
            parts["back", which] = root.back
        for level, tail in enumerate(root.tails):
            parts["tail", at + level] = tail
        for place, suffix in enumerate(root.stack):
            parts["stack", at + place] = suffix
    return parts


class _CompactShelf:
    """A shelf on which tables lie as plain tuples, with the numbers of their keys as a range where
    they are one. Ranges that are equal are one array again when they are read."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self._ranges: dict[tuple[int, int], Column] = {}

    def read(self, name: Any, number: int) -> Any:
        record = self.shelf.read(name, number)
        if record is None:
            raise StoreCorruptError(f"the state has no record {name} {number}")
        return self._expand(record)

    def write(self, name: Any, number: int, record: Any) -> None:
        self.shelf.write(name, number, _compact(record))

    def delete(self, name: Any, number: int) -> None:
        self.shelf.delete(name, number)

    def _expand(self, record: Any) -> Any:
        if not isinstance(record, tuple):
            return record
        match record:
            case ("known", ids, seen):
                return Known(ids, seen)
            case ("table", first, count, states):
                return Table(self._range(first, count), states)
            case ("sparse", ids, states):
                return Table(ids, states)
            case ("pair", older, newer):
                return self._expand(older), self._expand(newer)
        return record

    def _range(self, first: int, count: int) -> Column:
        if len(self._ranges) > PLACES:
            self._ranges.clear()
        return self._ranges.setdefault((first, count), np.arange(first, first + count))


def _compact(record: Any) -> Any:
    match record:
        case Known():
            return "known", record.ids, record.seen
        case Table():
            ids, count = record.ids, len(record)
            if count and ids[-1] - ids[0] == count - 1:
                return "table", int(ids[0]), count, record.states
            return "sparse", ids, record.states
        case (older, newer) if isinstance(record, tuple):
            return "pair", _compact(older), _compact(newer)
    return record
