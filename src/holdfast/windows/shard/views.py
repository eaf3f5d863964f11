"""One AMTA over the panes of a shard, seen by several windows at once.

Used by `window`. The window that reaches back the farthest keeps the panes; every other one is a
root of its own over the same interior pairs, which do not change with where a window begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.windows.amta import Amta
from holdfast.windows.monoid import HOLE, Monoid
from holdfast.windows.pairs import BorrowedPairs, Root
from holdfast.windows.shard.tables import NO_KEYS, Table

__all__ = ["TableAmta", "Views"]

TableAmta = Amta[Table, Table, Table]


class Views:
    """The panes of a shard, and for each window what it sees of them.

    Every step can be taken again after one that raised: panes go by their number, counted from the
    first that was ever inserted.
    """

    def __init__(self, main: TableAmta, sizes: Sequence[int]) -> None:
        self.keeper = max(range(len(sizes)), key=sizes.__getitem__)
        """Which window keeps the panes."""
        at = main.position
        others = [
            Amta(main.monoid, pairs=BorrowedPairs(main.pairs), root=Root(at, at, end=at))
            for _ in range(len(sizes) - 1)
        ]
        self.each: list[TableAmta] = [*others[: self.keeper], main, *others[self.keeper :]]
        self.position = at
        """How many panes have entered all of them."""

    @property
    def main(self) -> TableAmta:
        return self.each[self.keeper]

    def __len__(self) -> int:
        return self.position - self.main.evicted

    def insert(self, table: Table) -> None:
        # The keeper first: it writes the pairs that the others read.
        for view in (self.main, *self.each):
            if view.position == self.position:
                view.insert(table)
        self.position += 1

    def evict(self, which: int, oldest: int) -> None:
        """Let pane number `oldest` be the oldest that one window sees, if it is not already."""
        view = self.each[which]
        count = oldest - view.evicted
        if count > 0:
            view.evict(count)

    def clear(self) -> None:
        for which in range(len(self.each)):
            self.evict(which, self.each[which].position)

    def table(self, which: int) -> Table:
        """The aggregate of what one window sees."""
        table = self.each[which].aggregate()
        return NO_KEYS if table is HOLE else table

    def saved(self) -> tuple[Any, ...]:
        """All but what the keeper sees, as plain values."""
        others = [view.root for view in self.each if view is not self.main]
        return self.position, [
            (root.oldest, root.next, root.tails, root.end, root.stack, root.front, root.back)
            for root in others
        ]

    def restore(self, saved: tuple[Any, ...]) -> None:
        """Go on from what `saved` has answered."""
        self.position, roots = saved
        others = [view for view in self.each if view is not self.main]
        for view, (oldest, following, tails, end, stack, front, back) in zip(
            others, roots, strict=True
        ):
            view.commit(Root(oldest, following, list(tails), end, list(stack), front, back))

    def fork(self, monoid: Monoid[Table, Table, Table]) -> Views:
        fork = object.__new__(Views)
        fork.keeper, fork.position = self.keeper, self.position
        main = self.main.fork()
        main.monoid = monoid
        fork.each = [
            main
            if which == self.keeper
            else Amta(monoid, pairs=BorrowedPairs(main.pairs), root=view.root.copy())
            for which, view in enumerate(self.each)
        ]
        return fork

    def drop(self) -> None:
        self.main.drop()
