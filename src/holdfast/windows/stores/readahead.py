"""The read side of a stored window: pairs fetched from the store shortly before they are needed.

Used by `stored`. An AMTA reads each level in order, half as often as the one below, so every level
has a line of its own, half as long. A line starts with one pair, which is all a cold start or a
bulk eviction needs, and doubles while it is read in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

from holdfast.errors import StoreUnavailableError
from holdfast.windows.pairs import Pair
from holdfast.windows.stores.link import Job, Link
from holdfast.windows.stores.store import Key

__all__ = ["ReadAhead", "quota"]

S = TypeVar("S")

LEAST = 2
"""A level holds so many pairs, one in use and the next, however small its share of the cache."""
RESERVED = 64
"""What is set aside of the cache for that."""


def quota(cache: int, level: int) -> int:
    """How many pairs of a level may be held; over all levels at most `cache`."""
    reserved = min(RESERVED, cache // 2)
    share = (cache - reserved) >> level + 1
    return max(share, LEAST) if level < reserved // LEAST else share


@dataclass
class _Line(Generic[S]):
    """What is held of one level."""

    quota: int
    pairs: dict[int, Pair[S]] = field(default_factory=dict)
    end: int = 0
    """The position after the last one fetched."""
    length: int = 1
    """How many pairs are fetched at a time."""
    job: Job[list[Pair[S] | None]] | None = None
    coming: range = range(0)
    """The positions that the job fetches."""
    paused_at: int = -1
    """The number of flushes when a fetch failed: the next one shows that the store is back."""


class ReadAhead(Generic[S]):
    """The pairs of one window that were fetched from the store, each until it is released.

    `locate(level, position, count)` answers the keys of so many pairs from there on, fewer if not
    all are in the store.
    """

    def __init__(
        self,
        link: Link,
        cache: int,
        oldest: int,
        locate: Callable[[int, int, int], list[Key]],
    ) -> None:
        self._link = link
        self._stats = link.stats
        self._cache = cache
        self._oldest = oldest
        self._locate = locate
        self._lines: list[_Line[S]] = []

    def held(self) -> int:
        """How many pairs are here or on their way."""
        return sum(len(line.pairs) + len(line.coming) for line in self._lines)

    def read(self, level: int, position: int) -> Pair[S]:
        while level >= len(self._lines):
            self._lines.append(_Line(quota(self._cache, len(self._lines))))
        line = self._lines[level]
        self._arrive(level, line)
        pair = line.pairs.get(position)
        if pair is None:
            return self._miss(level, line, position)
        if line.end - position - 1 < line.length // 2:
            self._fetch_on(level, line, position)
        return pair

    def peek(self, level: int, position: int) -> Pair[S] | None:
        """A pair that has been fetched."""
        return self._lines[level].pairs.get(position) if level < len(self._lines) else None

    def release(self, oldest: int) -> None:
        """Let go of pairs that cover only leaves before `oldest`."""
        before, self._oldest = self._oldest, oldest
        for level, line in enumerate(self._lines):
            old_head, head = before >> level + 1, oldest >> level + 1
            if head == old_head:
                return
            if head - old_head <= len(line.pairs):
                for position in range(old_head, head):
                    line.pairs.pop(position, None)
            else:
                line.pairs = {at: pair for at, pair in line.pairs.items() if at >= head}

    def drop_leaves(self) -> None:
        """From now on level l + 1 is level l."""
        self.settle()
        del self._lines[:1]
        for level, line in enumerate(self._lines):
            line.quota = quota(self._cache, level)
        self._oldest >>= 1

    def settle(self) -> None:
        """Wait for all fetches under way."""
        for level, line in enumerate(self._lines):
            self._arrive(level, line, wait=True)

    def _arrive(self, level: int, line: _Line[S], *, wait: bool = False) -> None:
        """Take in what a fetch has brought."""
        if line.job is None or not (wait or line.job.done()):
            return
        job, coming = line.job, line.coming
        line.job, line.coming = None, range(0)
        try:
            pairs = job.result()
        except StoreUnavailableError:
            line.paused_at = self._stats.flushes
            return
        self._stats.read += len(pairs)
        self._stats.prefetched += len(pairs)
        head = self._oldest >> level + 1
        for at, pair in zip(coming, pairs, strict=True):
            # What has been released since may have been deleted; other gaps show as misses.
            if pair is None and at >= head:
                break
            line.end = at + 1
            if pair is not None and at >= head:
                line.pairs[at] = pair

    def _miss(self, level: int, line: _Line[S], position: int) -> Pair[S]:
        self._stats.misses += 1
        self._arrive(level, line, wait=True)
        if position in line.pairs:
            return line.pairs[position]
        in_order = position == line.end
        length = min(2 * line.length, max(1, line.quota)) if in_order else 1
        keys = self._locate(level, position, length)
        assert keys, "a window reads only what it wrote"
        pairs = self._link.load(keys)
        found = [pair for pair in pairs if pair is not None]
        if len(found) < len(keys):
            raise self._link.damage(keys[pairs.index(None)], "there is no such record")
        self._stats.read += len(found)
        self._stats.prefetched += len(found) - 1
        line.length, line.end = length, position + len(found)
        line.pairs = dict(enumerate(found, position)) if line.quota else {}
        line.paused_at = -1
        return found[0]

    def _fetch_on(self, level: int, line: _Line[S], position: int) -> None:
        """Start to fetch the next pairs of a line that runs short after this position."""
        if line.job is not None or line.paused_at == self._stats.flushes:
            return
        length = min(2 * line.length, line.quota)
        keys = self._locate(level, line.end, length - (line.end - position))
        if not keys:
            return
        line.length = length
        line.pairs = {at: pair for at, pair in line.pairs.items() if at >= position}
        line.job = self._link.start(partial(self._link.load, keys))
        line.coming = range(line.end, line.end + len(keys))
        self._arrive(level, line)
