"""Windows whose interior pairs live in a key-value store, and which outlive their process.

`open_window` starts such a window or resumes the one that the store has. Held locally are the root,
a write buffer and what was read ahead; the store may be away for as long as the buffer lasts. One
process at a time may have a window open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.errors import InvalidArgumentError
from holdfast.windows.amta import Amta
from holdfast.windows.monoid import Monoid
from holdfast.windows.pairs import DurablePairs, Pair, Root, Written
from holdfast.windows.stores.codec import Codec, StateCodec
from holdfast.windows.stores.epochs import LEVELS, Epoch, interior
from holdfast.windows.stores.kept import Kept
from holdfast.windows.stores.link import Link
from holdfast.windows.stores.readahead import ReadAhead
from holdfast.windows.stores.saved import from_record
from holdfast.windows.stores.store import Key, KeyRange, Store, epoch_range, root_key
from holdfast.windows.stores.writer import Writer
from holdfast.windows.values import to_integer
from holdfast.windows.window import check_monoid

if TYPE_CHECKING:
    from concurrent.futures import Executor

__all__ = ["StoredPairs", "open_window"]

V = TypeVar("V")
S = TypeVar("S")
R = TypeVar("R")


def open_window(
    monoid: Monoid[V, S, R],
    store: Store,
    window: str,
    *,
    codec: Codec | None = None,
    buffer: int = 1024,
    cache: int = 1024,
    executor: Executor | None = None,
) -> Amta[V, S, R]:
    """The window of this name, as the store has it, or a new one.

    A resumed window holds its first `position` updates for good: go on feeding it from there.
    `checkpoint()` makes all of a window durable at once. Without it that happens by and by: while
    the store can be reached, at most the last 2·`buffer` updates have to be fed again.

    `buffer` and `cache` are how many pairs may be held on their way to the store and ahead of
    their use; beyond these a window of n updates holds O(log n). With an `executor` the store is
    written and read ahead in its threads; call `checkpoint()` before you shut it down.
    """
    check_monoid(monoid)
    if not isinstance(store, Store):
        raise InvalidArgumentError(
            f"store: is {store!r}; give a store, as in holdfast.disk.DiskStore(folder)"
        )
    if not isinstance(window, str):
        raise InvalidArgumentError(f"open_window: window is {window!r}; give its name, a string")
    buffer = to_integer("open_window: buffer", buffer)
    cache = to_integer("open_window: cache", cache)
    if buffer < 1 or cache < 0:
        raise InvalidArgumentError(
            f"open_window: buffer is {buffer} and cache {cache}; "
            "give a buffer of at least 1 and a cache of at least 0"
        )
    link = Link(store, window, StateCodec() if codec is None else codec, executor)
    link.encode(monoid.identity)
    epoch, root, companion = _resume(link, monoid.signature)
    writer: Writer[S] = Writer(link, monoid.signature, epoch, buffer)
    pairs = StoredPairs(link, writer, epoch, cache, buffer + cache, companion)
    return Amta(monoid, pairs=pairs, root=root)


class StoredPairs(DurablePairs[S]):
    """Interior pairs in a store: see `Pairs` for what a window asks of them."""

    def __init__(
        self,
        link: Link,
        writer: Writer[S],
        epoch: Epoch,
        cache: int,
        capacity: int,
        companion: Any = None,
    ) -> None:
        """`companion`: what came with the root that the window was resumed from."""
        self.stats = link.stats
        """What this window and its forks have asked of the store."""
        self._link = link
        self._writer = writer
        self._epoch = epoch
        self._cache = cache
        self.capacity = capacity
        self._companion = companion
        self._kept: Kept[S] | None = None
        self._ahead: ReadAhead[S] = ReadAhead(link, cache, epoch.oldest, self._locate)

    def held(self) -> int:
        """How many pairs are in memory: what was read ahead or kept, and the buffer shared with
        forks."""
        kept = 0 if self._kept is None else self._kept.held()
        return self._writer.held() + self._ahead.held() + kept

    def read(self, level: int, position: int) -> Pair[S]:
        self._writer.settle()
        pair = self._changed(level, position) or self._buffered(level, position)
        if pair is None:
            pair = self._ahead.read(level, position)
        if self._kept is not None:
            self._kept.note_read(level, position, pair)
        return pair

    def write(self, written: list[Written[S]], root: Root[S]) -> None:
        self._writer.write(self._epoch, self._in_store(written), root)
        if self._kept is not None and written:
            self._kept.note_written(written)

    def release(self, oldest: int) -> None:
        epoch = self._epoch
        epoch.oldest = oldest << epoch.dropped
        if epoch.head is not None and epoch.head[0] < oldest >> 1:
            epoch.head = None
        if self._kept is not None:
            self._kept.release(oldest)
        self._ahead.release(oldest)

    def fork(self, root: Root[S]) -> StoredPairs[S]:
        epoch = self._writer.fork(self._epoch, root)
        fork: StoredPairs[S] = StoredPairs(
            self._link, self._writer, epoch, self._cache, self.capacity
        )
        fork._kept = None if self._kept is None else self._kept.copy()
        return fork

    def drop(self) -> None:
        self._ahead.settle()
        self._writer.drop(self._epoch)

    def checkpoint(self, root: Root[S]) -> None:
        """Make all pairs durable and, if the window is the one to be resumed, its root.

        That is the window that was opened; once it is dropped, the oldest fork that is left.
        When this returns, nothing is under way in the executor for this window.
        """
        self._ahead.settle()
        self._writer.checkpoint(self._epoch, root)

    def accompany(self, companion: Callable[[], Any]) -> Any:
        self._epoch.companion = companion
        return self._companion

    def hold(self, root: Root[S]) -> None:
        if self._kept is None:
            self._kept = Kept(self.capacity, root.oldest)
            self._kept.note_written(self._upper_levels(root))

    def local(self, level: int, position: int) -> Pair[S] | None:
        pair = self._changed(level, position)
        if pair is None and self._kept is not None:
            pair = self._kept.find(level, position)
        if pair is None:
            pair = self._buffered(level, position)
        return self._ahead.peek(level, position) if pair is None else pair

    def reach(self) -> None:
        self._link.store.read([root_key(self._link.window)])

    def drop_leaves(self, root: Root[S], coarse: Root[S], written: list[Written[S]]) -> bool:
        epoch = self._epoch
        if epoch.dropped == LEVELS // 2:
            # Levels have numbers below LEVELS in the store: leaves are written anew from here on.
            return False
        interior_before = interior(root.next, 1)
        fresh = [each for each in written if each[0] or each[1] >= interior_before]
        changed = [each for each in written if not each[0] and each[1] < interior_before]
        above = [(level + 1, position, pair) for level, position, pair in fresh]
        self._writer.write(epoch, self._in_store(above), root)
        self._ahead.drop_leaves()
        if self._kept is not None:
            self._kept.drop_leaves()
            self._kept.note_written(fresh)
        self._writer.discard(epoch, epoch.dropped)
        epoch.dropped += 1
        # What was written once stays as it is, for an older root may be resumed, and forks read it.
        epoch.head = changed[0][1:] if changed else None
        return True

    def _in_store(self, written: list[Written[S]]) -> list[Written[S]]:
        dropped = self._epoch.dropped
        return [(level + dropped, at, pair) for level, at, pair in written] if dropped else written

    def _changed(self, level: int, position: int) -> Pair[S] | None:
        head = self._epoch.head
        return head[1] if head is not None and not level and head[0] == position else None

    def _buffered(self, level: int, position: int) -> Pair[S] | None:
        level += self._epoch.dropped
        return self._writer.find(self._epoch.holder(level, position), level, position)

    def _upper_levels(self, root: Root[S]) -> list[Written[S]]:
        """What a resumed window keeps, fetched at once: upper levels that fit, and head pairs."""
        places: list[tuple[int, int]] = []
        keys: list[Key] = []
        for level in reversed(range(len(root.tails))):
            head = root.oldest >> level + 1
            count = interior(root.next, level) - head
            if len(places) + count > self.capacity // 2:
                count = min(count, 1)
            stored = self._locate(level, head, max(0, count))
            places += [(level, head + index) for index in range(len(stored))]
            keys += stored
        pairs = self._link.load(keys)
        for key, pair in zip(keys, pairs, strict=True):
            if pair is None:
                raise self._link.damage(key, "there is no such record")
        return [(*place, pair) for place, pair in zip(places, pairs, strict=True) if pair]

    def _locate(self, level: int, position: int, count: int) -> list[Key]:
        keys: list[Key] = []
        level += self._epoch.dropped
        for at in range(position, position + count):
            epoch = self._epoch.holder(level, at)
            if not epoch.has_stored(level, at):
                break
            keys.append(self._link.key(epoch.number, level, at))
        return keys


def _resume(link: Link, monoid: str) -> tuple[Epoch, Root[Any], Any]:
    """The epoch and root to go on with, and what was saved with them; clears away what a crash has
    left beyond them."""
    store, window = link.store, link.window
    record = store.read([root_key(window)])[0]
    epoch, root, companion = Epoch(0), Root[Any](), None
    kept: set[int] = set()
    if record is not None:
        epoch, root, companion = from_record(link, monoid, record)
        kept = {each.number for each in epoch.lineage()}
    garbage = [epoch_range(window, each) for each in store.epochs(window) if each not in kept]
    _, following = epoch.in_store(root)
    for each in epoch.lineage():
        garbage += _beyond(window, each.number, following)
        following = each.since
    store.write({}, garbage)
    return epoch, root, companion


def _beyond(window: str, epoch: int, following: int) -> list[KeyRange]:
    """The pairs that have become interior since leaf `following` came next."""
    return [
        KeyRange(
            Key(window, epoch, level, max(0, interior(following, level))),
            Key(window, epoch, level + 1, 0),
        )
        for level in range(LEVELS)
    ]
