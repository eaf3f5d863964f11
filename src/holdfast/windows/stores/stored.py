"""Windows whose interior pairs live in a key-value store, and which outlive their process.

`open_window` starts such a window or resumes the one that the store has. Held locally are the root,
a write buffer and what was read ahead; the store may be away for as long as the buffer lasts. One
process at a time may have a window open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.errors import InvalidArgumentError
from holdfast.windows.amta import Amta
from holdfast.windows.monoid import Monoid
from holdfast.windows.pairs import Pair, Root, Written
from holdfast.windows.stores.codec import Codec, StateCodec
from holdfast.windows.stores.epochs import LEVELS, Epoch, interior
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
    return Amta(monoid, pairs=StoredPairs(link, writer, epoch, cache, companion), root=root)


class StoredPairs(Generic[S]):
    """Interior pairs in a store: see `Pairs` for what a window asks of them."""

    def __init__(
        self, link: Link, writer: Writer[S], epoch: Epoch, cache: int, companion: Any = None
    ) -> None:
        """`companion`: what came with the root that the window was resumed from."""
        self.stats = link.stats
        """What this window and its forks have asked of the store."""
        self._link = link
        self._writer = writer
        self._epoch = epoch
        self._cache = cache
        self._companion = companion
        self._ahead: ReadAhead[S] = ReadAhead(link, cache, epoch.oldest, self._locate)

    def held(self) -> int:
        """How many pairs are in memory: what was read ahead, and the buffer shared with forks."""
        return self._writer.held() + self._ahead.held()

    def read(self, level: int, position: int) -> Pair[S]:
        self._writer.settle()
        pair = self._writer.find(self._epoch.holder(level, position), level, position)
        return self._ahead.read(level, position) if pair is None else pair

    def write(self, written: list[Written[S]], root: Root[S]) -> None:
        self._writer.write(self._epoch, written, root)

    def release(self, oldest: int) -> None:
        self._epoch.oldest = oldest
        self._ahead.release(oldest)

    def fork(self, root: Root[S]) -> StoredPairs[S]:
        epoch = self._writer.fork(self._epoch, root)
        return StoredPairs(self._link, self._writer, epoch, self._cache)

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

    def drop_leaves(self, root: Root[S]) -> bool:
        # What lies in the store keeps its level.
        return False

    def _locate(self, level: int, position: int, count: int) -> list[Key]:
        keys: list[Key] = []
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
    following = root.next
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
