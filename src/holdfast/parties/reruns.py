"""What a replica can calculate again, for readers that could not agree on a bucket.

What a stage answers for a bucket depends on the rows of that bucket and of those before it that its
windows and joins reach back to. They are kept for the newest buckets, and given to the query anew,
which begins with an empty state.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Final

from holdfast.protocol.commands import Rerun
from holdfast.spark.stages.entries import Entry, Order, Piece

__all__ = ["Reruns"]

REMEMBERED: Final = 64
"""Buckets that can be calculated again: as many as a gate votes on at once."""
FARTHEST: Final = 512
"""Buckets that windows and joins may reach back; beyond that nothing is kept."""
LARGEST: Final = 2**28
"""Bytes that are kept at most."""


class Reruns:
    """Rows of the newest buckets, and who has asked for them."""

    def __init__(self, size: int, span: int) -> None:
        """`size`: of a bucket. `span`: how far back the state of the stage depends on its input."""
        self._size = size
        self._before = math.ceil(span / size)
        self._pieces: OrderedDict[int, list[Piece]] = OrderedDict()
        self._bytes = 0
        self._since: int | None = None
        """From this boundary on all rows are here, and the state was empty or they do not matter.
        None before there are any."""
        self._end = 0
        self._asked: dict[int, Rerun] = {}

    def note(self, entry: Entry) -> None:
        """This has been given to the base."""
        if self._before > FARTHEST:
            return
        self._since = entry.start if self._since is None else self._since
        self._end = entry.end
        for piece in entry.pieces:
            self._pieces.setdefault(piece.bucket, []).append(piece)
            self._bytes += piece.chunk.size
        while len(self._pieces) > REMEMBERED + self._before or self._bytes > LARGEST:
            bucket, gone = self._pieces.popitem(last=False)
            self._bytes -= sum(piece.chunk.size for piece in gone)
            self._since = (bucket + 1) * self._size

    def entry(self, rerun: Rerun) -> Entry | None:
        """What the query has to do, None if not all rows are here."""
        start = rerun.asked.start
        first = max(0, start - self._before * self._size)
        if self._since is None or first < self._since or start >= self._end:
            return None
        buckets = range(first // self._size, start // self._size + 1)
        pieces = [piece for each in buckets for piece in self._pieces.get(each, ())]
        return Entry(0, Order.RERUN, first, start + self._size, pieces=tuple(pieces))

    def ask(self, entry: int, rerun: Rerun) -> None:
        self._asked[entry] = rerun

    def is_asked(self, rerun: Rerun) -> bool:
        """Whether the query has been given it and has not answered, or has enough to do."""
        return len(self._asked) >= REMEMBERED or rerun in self._asked.values()

    def answered(self, entry: int) -> Rerun | None:
        return self._asked.pop(entry, None)

    def forget(self) -> None:
        """The state of the stage is another one now."""
        self._pieces.clear()
        self._asked.clear()
        self._bytes = 0
        self._since = None
