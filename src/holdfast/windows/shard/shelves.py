"""Shelves of records that hold a shard window between two batches, its pairs included.

`saved` puts a window there; the operators bring shelves over what they have, such as Spark's map
state. A shelf need not be safe by itself: a batch counts as a whole or not at all.
"""

from __future__ import annotations

from typing import Any, Final, Generic, Protocol, TypeVar

from holdfast.windows.pairs import Pair, Root, Written

__all__ = ["MemoryShelf", "OverlaidPairs", "Shelf", "ShelvedPairs"]

S = TypeVar("S")

LEVELS: Final = 64
"""Places for levels on a shelf: more than a window can ever have."""


class Shelf(Protocol):
    """Records by a name and a number."""

    def read(self, name: Any, number: int) -> Any:
        """A record that was written; None where there is none."""

    def write(self, name: Any, number: int, record: Any) -> None:
        """Put a record there in place of the one that may be there."""

    def delete(self, name: Any, number: int) -> None:
        """Take a record away, if there is one."""


class MemoryShelf:
    """A shelf in memory, for a state that is not to outlive what it is for."""

    def __init__(self) -> None:
        self.records: dict[tuple[Any, int], Any] = {}

    def read(self, name: Any, number: int) -> Any:
        return self.records.get((name, number))

    def write(self, name: Any, number: int, record: Any) -> None:
        self.records[name, number] = record

    def delete(self, name: Any, number: int) -> None:
        self.records.pop((name, number), None)


class ShelvedPairs(Generic[S]):
    """Interior pairs on a shelf under (level, position).

    What a batch writes stays here until it is saved, so pairs that come and go within one batch
    never reach the shelf. What was read is forgotten then.

    Levels on the shelf go round: `lowest` is where that of the leaves lies at present.
    """

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self.swept = 0
        """Pairs that cover only leaves before this one are not on the shelf."""
        self.levels = 0
        """Pairs on the shelf lie on levels below this one."""
        self.lowest = 0
        self._oldest = 0
        self._written: dict[tuple[int, int], Pair[S]] = {}
        self._read: dict[tuple[int, int], Pair[S]] = {}

    def resume(self, swept: int, levels: int, lowest: int) -> None:
        """Go on with a shelf that pairs were saved on."""
        self.swept = self._oldest = swept
        self.levels = levels
        self.lowest = lowest

    def read(self, level: int, position: int) -> Pair[S]:
        at = self._place(level), position
        pair = self._written.get(at) or self._read.get(at)
        if pair is None:
            pair = self._read[at] = self._shelf.read(*at)
        return pair

    def write(self, written: list[Written[S]], root: Root[S]) -> None:
        for level, position, pair in written:
            self._written[self._place(level), position] = pair
            self.levels = max(self.levels, level + 1)

    def drop_leaves(self, root: Root[S], coarse: Root[S], written: list[Written[S]]) -> bool:
        for position in range(self.swept >> 1, root.next >> 1):
            self._remove(0, position)
        self.lowest = self._place(1)
        self.levels = max(0, self.levels - 1)
        self.swept >>= 1
        self._oldest >>= 1
        self.write(written, coarse)
        return True

    def release(self, oldest: int) -> None:
        self._oldest = oldest

    def fork(self, root: Root[S]) -> OverlaidPairs[S]:
        return OverlaidPairs(self)

    def drop(self) -> None:
        """The shelf goes with the one who owns it."""

    def checkpoint(self, root: Root[S]) -> None:
        """`save` does that, with the rest of the shard window."""

    def save(self) -> None:
        """Bring the shelf up to date."""
        for level in range(self.levels):
            # Pairs, as far as there can be any, that only cover leaves released since.
            for position in range(self.swept >> level + 1, self._oldest >> level + 1):
                self._remove(level, position)
        for (place, position), pair in self._written.items():
            self._shelf.write(place, position, pair)
        self.swept = self._oldest
        self._written.clear()
        self._read.clear()

    def _place(self, level: int) -> int:
        return (self.lowest + level) % LEVELS

    def _remove(self, level: int, position: int) -> None:
        at = self._place(level), position
        # What was read lies on the shelf even if it was written anew since.
        if self._written.pop(at, None) is None or at in self._read:
            self._shelf.delete(*at)
        self._read.pop(at, None)


class OverlaidPairs(Generic[S]):
    """The pairs of a fork: its own in memory, on top of those of its base."""

    def __init__(self, base: Any) -> None:
        self._base = base
        self._own: dict[tuple[int, int], Pair[S]] = {}
        self._lowest = 0
        """The level of the base that is that of the leaves here."""

    def read(self, level: int, position: int) -> Pair[S]:
        at = level + self._lowest, position
        own = self._own.get(at)
        if own is None:
            pair: Pair[S] = self._base.read(*at)
            return pair
        return own

    def write(self, written: list[Written[S]], root: Root[S]) -> None:
        for level, position, pair in written:
            self._own[level + self._lowest, position] = pair

    def release(self, oldest: int) -> None:
        """A fork is short-lived: it keeps what it has."""

    def fork(self, root: Root[S]) -> OverlaidPairs[S]:
        return OverlaidPairs(self)

    def drop(self) -> None:
        self._own.clear()

    def checkpoint(self, root: Root[S]) -> None:
        """Nothing of a fork is saved."""

    def drop_leaves(self, root: Root[S], coarse: Root[S], written: list[Written[S]]) -> bool:
        self._lowest += 1
        self.write(written, coarse)
        return True
