"""Key-value store of windows: its interface, and a store that is a dictionary.

`stored` keeps the interior pairs of a window here; `holdfast.disk` has the store on disk. A store
knows nothing of windows: it keeps bytes under ordered keys and writes whole batches or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

__all__ = [
    "Key",
    "KeyRange",
    "MemoryStore",
    "Store",
    "StoreStats",
    "epoch_range",
    "level_range",
    "root_key",
]

ROOT = -1
"""The epoch under which a window's root lies; pairs have epochs from 0 on."""


class Key(NamedTuple):
    """Where a record lies. Stores order keys as tuples are ordered."""

    window: str
    epoch: int
    level: int
    position: int


class KeyRange(NamedTuple):
    """All keys from `first` up to, not including, `stop`."""

    first: Key
    stop: Key


def root_key(window: str) -> Key:
    """Where the root lies from which a window is resumed."""
    return Key(window, ROOT, 0, 0)


def level_range(window: str, epoch: int, level: int, start: int, stop: int) -> KeyRange:
    """The pairs of one level from one position up to another."""
    return KeyRange(Key(window, epoch, level, start), Key(window, epoch, level, stop))


def epoch_range(window: str, epoch: int = ROOT) -> KeyRange:
    """All pairs of an epoch; without one, the window's root."""
    return KeyRange(Key(window, epoch, 0, 0), Key(window, epoch + 1, 0, 0))


@runtime_checkable
class Store(Protocol):
    """A key-value store for windows. Two threads may use it at the same time.

    Every method raises StoreUnavailableError when the store cannot be reached, having done nothing
    or, where that cannot be known, all of it: the caller will ask for the same again.
    """

    def read(self, keys: Sequence[Key]) -> list[bytes | None]:
        """The records under these keys, in their order; None where there is none."""

    def write(self, puts: Mapping[Key, bytes], deletes: Sequence[KeyRange]) -> int:
        """Delete, then put, all or nothing, durable on return; answer how many were deleted."""

    def epochs(self, window: str) -> list[int]:
        """The epochs from 0 on under which a window has records, in order."""


@dataclass
class StoreStats:
    """What a window and its forks have asked of their store. Counts pairs, where nothing else."""

    written: int = 0
    """Now durable."""
    read: int = 0
    """Fetched, on a miss or ahead of need."""
    prefetched: int = 0
    """Fetched ahead of need."""
    misses: int = 0
    """Reads that had to wait for the store."""
    deleted: int = 0
    """No longer needed and deleted."""
    flushes: int = 0
    """Batches written."""
    failed_flushes: int = 0
    """Batches that failed and were taken back into the buffer."""


class MemoryStore:
    """A store that lives as long as the process: for tests, and to try things out."""

    def __init__(self) -> None:
        self._records: dict[Key, bytes] = {}

    def count(self) -> int:
        """How many records there are."""
        return len(self._records)

    def read(self, keys: Sequence[Key]) -> list[bytes | None]:
        return [self._records.get(key) for key in keys]

    def write(self, puts: Mapping[Key, bytes], deletes: Sequence[KeyRange]) -> int:
        before = len(self._records)
        for keys in deletes:
            self._delete(keys)
        deleted = before - len(self._records)
        self._records.update(puts)
        return deleted

    def epochs(self, window: str) -> list[int]:
        found = {key.epoch for key in list(self._records) if key.window == window}
        return sorted(found - {ROOT})

    def _delete(self, keys: KeyRange) -> None:
        first, stop = keys
        if first[:3] == stop[:3] and stop.position - first.position <= len(self._records):
            for position in range(first.position, stop.position):
                self._records.pop(first._replace(position=position), None)
            return
        for key in [key for key in list(self._records) if first <= key < stop]:
            del self._records[key]
