"""The keys of a shard window and the numbers they go by in its tables.

Used by `shard`. Keys are anything hashable that equals itself; a number is never given twice.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import repeat
from reprlib import repr as shorten
from typing import Any

import numpy as np

from holdfast.errors import InvalidValueError
from holdfast.windows.columns import Column, as_array, as_column
from holdfast.windows.shard.tables import same

__all__ = ["Located", "Names", "Registry", "as_keys"]


class Names:
    """The keys behind numbers. Keys are only ever added, so a result can be read later.

    A key has a slot, its place in the list, and a number that is never given to another key.
    """

    def __init__(self, keys: list[Hashable], kept: Column, shift: int) -> None:
        self.keys = keys
        self._kept = kept
        self._shift = shift
        self._latest: tuple[Column, Column] | None = None

    def ids(self, slots: Column) -> Column:
        """The numbers of slots, those about to be filled included."""
        ids: Column = slots + self._shift
        if len(self._kept):
            old = slots < len(self._kept)
            ids[old] = self._kept[slots[old]]
        return ids

    def read(self, ids: Column) -> Column:
        """The keys with these numbers: int64 where all are ints, otherwise objects."""
        if self._latest is None or self._latest[0] is not ids:
            keys = self._read(ids)
            # Handed out to every result with these numbers.
            keys.flags.writeable = False
            self._latest = ids, keys
        return self._latest[1]

    def list(self, ids: Column) -> list[Hashable]:
        """The keys with these numbers, as they are."""
        return list(map(self.keys.__getitem__, self._slots(ids).tolist()))

    def only(self, ids: Column) -> Names:
        """The same keys under the same numbers, but for those that are not among `ids`."""
        slots = self._slots(ids).tolist()
        after = len(self.keys) + self._shift
        return Names([self.keys[slot] for slot in slots], ids, after - len(ids))

    def saved(self) -> tuple[Any, ...]:
        """What to make the same again of: `Names(*saved)`."""
        return list(self.keys), self._kept, self._shift

    def copy(self) -> Names:
        return Names(list(self.keys), self._kept, self._shift)

    def _read(self, ids: Column) -> Column:
        keys = self.list(ids)
        if set(map(type, keys)) == {int}:
            try:
                return np.array(keys, np.int64)
            except OverflowError:
                pass
        return np.fromiter(keys, dtype=object, count=len(keys))

    def _slots(self, ids: Column) -> Column:
        slots: Column = ids - self._shift
        if len(self._kept):
            old = slots < len(self._kept)
            slots[old] = np.searchsorted(self._kept, ids[old])
        return slots


@dataclass(frozen=True, slots=True)
class Located:
    """Where the keys of a batch are, and which of them are new."""

    keys: Column
    slots: Column
    fresh: dict[Hashable, int]


class Registry:
    """Gives keys their numbers, in the order they first appear.

    `locate` changes nothing; `admit` then makes its new keys known. A fork shares everything until
    either side meets a new key.
    """

    def __init__(self, names: Names | None = None) -> None:
        self.names = Names([], np.empty(0, np.int64), 0) if names is None else names
        self._slots = dict(zip(self.names.keys, range(len(self.names.keys)), strict=True))
        self._shared = False
        self._latest: Located | None = None
        self._dense = np.empty(0, np.int64)
        self._lowest = 0

    def __len__(self) -> int:
        return len(self._slots)

    def locate(self, keys: Column) -> Located:
        latest = self._latest
        if latest is not None and latest.keys.dtype == keys.dtype and same(latest.keys, keys):
            return latest
        fresh: dict[Hashable, int] = {}
        if keys.dtype.kind != "i":
            return Located(keys, self._find(_hashables(keys), fresh), fresh)
        slots = self._look_up(keys)
        missing = np.flatnonzero(slots < 0)
        if len(missing):
            slots[missing] = self._find(keys[missing].tolist(), fresh)
        return Located(keys, slots, fresh)

    def admit(self, located: Located) -> None:
        if located is self._latest:
            return
        if located.fresh:
            if self._shared:
                self._slots, self.names, self._shared = dict(self._slots), self.names.copy(), False
            self._slots.update(located.fresh)
            self.names.keys.extend(located.fresh)
        keys, slots = located.keys, located.slots
        if keys.dtype.kind == "i":
            self._learn(keys, slots)
        # Worth keeping where batches may well name the same keys in the same order.
        if keys.dtype != object and len(keys) <= 2 * len(self):
            self._latest = Located(keys.copy(), slots, {})

    def forget_all_but(self, ids: Column) -> None:
        self.names = self.names.only(ids)
        self._slots = dict(zip(self.names.keys, range(len(ids)), strict=True))
        self._shared = False
        self._latest = None
        self._dense = np.empty(0, np.int64)

    def fork(self) -> Registry:
        fork = copy.copy(self)
        fork._shared = self._shared = True
        fork._dense = np.empty(0, np.int64)
        return fork

    def _find(self, keys: list[Any], fresh: dict[Hashable, int]) -> Column:
        try:
            slots = np.fromiter(map(self._slots.get, keys, repeat(-1)), np.int64, len(keys))
        except TypeError:
            raise InvalidValueError(
                "keys: one of them cannot be hashed; give numbers, strings, tuples of these or None"
            ) from None
        for row in np.flatnonzero(slots < 0).tolist():
            key = keys[row]
            if key not in fresh:
                _check_key(key)
                fresh[key] = len(self._slots) + len(fresh)
            slots[row] = fresh[key]
        return slots

    def _look_up(self, keys: Column) -> Column:
        """The slots of int keys as far as the dense table has them; -1 elsewhere."""
        # Wraps around for keys far away, but never into the table.
        offsets = keys - self._lowest
        inside = offsets.view(np.uint64) < len(self._dense)
        if inside.all():
            slots: Column = self._dense[offsets]
        else:
            slots = np.full(len(keys), -1, np.int64)
            slots[inside] = self._dense[offsets[inside]]
        return slots

    def _learn(self, keys: Column, slots: Column) -> None:
        """Note the slots of int keys in the dense table where the keys lie dense enough for one."""
        if not len(keys):
            return
        size = len(self._dense)
        lowest, highest = int(keys.min()), int(keys.max())
        if size:
            lowest, highest = min(lowest, self._lowest), max(highest, self._lowest + size - 1)
        span = highest - lowest + 1
        if span > size:
            if span > 4 * len(self) + 1024:
                return
            # Twice the span, so that keys that go on increasing do not make it grow every time.
            dense = np.full(2 * span, -1, np.int64)
            if size:
                dense[self._lowest - lowest :][:size] = self._dense
            self._dense, self._lowest = dense, lowest
        self._dense[keys - self._lowest] = slots


def as_keys(keys: Any) -> Column:
    array = as_array(keys, "keys")
    return as_column(array, "keys") if array.dtype.kind in "iu" else array


def _hashables(keys: Column) -> list[Any]:
    # tolist() makes bare ints of nanoseconds.
    return list(keys) if keys.dtype.kind in "Mm" else keys.tolist()


def _check_key(key: Any) -> None:
    """Refuse a key that does not equal itself: it would be a new key in every row."""
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, tuple):
            _check_key(part)
        elif not _equals_itself(part):
            raise InvalidValueError(
                f"keys: {shorten(key)} has NaN or NA, not equal to itself; filter it out or "
                "give None"
            )


def _equals_itself(part: Any) -> bool:
    try:
        return bool(part == part)
    except (TypeError, ValueError):
        # Of pandas.NA nobody knows.
        return False
