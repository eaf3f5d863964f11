"""What a replica can calculate again, for readers that could not agree on a bucket.

Only a stage without state can: its answer depends on the rows of the bucket alone, and those of the
newest buckets are kept. Any other says again what it has published.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from holdfast.protocol.commands import Rerun
from holdfast.spark.stages.entries import Entry, Order, Piece

__all__ = ["Reruns"]

REMEMBERED: Final = 64
"""Buckets: as many as a gate votes on at once."""


class Reruns:
    """Rows of the newest buckets, and who has asked for them."""

    def __init__(self, size: int) -> None:
        """`size`: of a bucket."""
        self._size = size
        self._pieces: OrderedDict[int, list[Piece]] = OrderedDict()
        self._asked: dict[int, Rerun] = {}

    def note(self, entry: Entry) -> None:
        """This has been given to the base."""
        for piece in entry.pieces:
            self._pieces.setdefault(piece.bucket, []).append(piece)
        while len(self._pieces) > REMEMBERED:
            self._pieces.popitem(last=False)

    def entry(self, rerun: Rerun) -> Entry | None:
        """What the query has to do, None if the rows are gone or were never there."""
        start = rerun.asked.start
        pieces = self._pieces.get(start // self._size)
        if pieces is None:
            return None
        return Entry(0, Order.RERUN, start, start + self._size, pieces=tuple(pieces))

    def ask(self, entry: int, rerun: Rerun) -> None:
        self._asked[entry] = rerun

    def is_asked(self, rerun: Rerun) -> bool:
        """Whether the query has been given it and has not answered, or has enough to do."""
        return len(self._asked) >= REMEMBERED or rerun in self._asked.values()

    def answered(self, entry: int) -> Rerun | None:
        return self._asked.pop(entry, None)

    def forget(self) -> None:
        self._pieces.clear()
        self._asked.clear()
