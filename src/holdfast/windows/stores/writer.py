"""The way to the store that a window and its forks share: buffer, flushes, garbage.

Used by `stored`. Pairs wait in the buffer and go to the store in batches. Only one of the windows,
the main one, is resumed after a crash: its batches carry its root as well and delete what nobody
needs any more. So at every moment the store holds a root together with all the pairs it needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from holdfast.errors import StoreUnavailableError
from holdfast.windows.pairs import Pair, Root, Written
from holdfast.windows.stores.epochs import Epoch
from holdfast.windows.stores.link import Job, Link
from holdfast.windows.stores.saved import to_plain
from holdfast.windows.stores.store import Key, KeyRange, epoch_range, level_range, root_key

__all__ = ["Writer"]

S = TypeVar("S")


@dataclass(frozen=True)
class _Batch(Generic[S]):
    """What one write to the store holds, and what is true once it has succeeded."""

    job: Job[int]
    pairs: dict[Key, tuple[Pair[S], bytes]]
    stored: dict[Epoch, list[int]]
    swept: dict[Epoch, int]
    garbage: list[KeyRange]
    main: Epoch | None
    """The window whose root is in it."""
    operations: int
    """How many operations that root is ahead of the one saved before it."""


class Writer(Generic[S]):
    """Takes in the pairs of a window and its forks, and sees that they get to the store."""

    def __init__(self, link: Link, monoid: str, epoch: Epoch, buffer: int) -> None:
        self._link = link
        self._monoid = monoid
        self._limit = buffer
        self._half = max(1, buffer // 2)
        # Four times what the batches of a sliding window make superfluous, to catch up on bulk.
        self._sweep = 2 * buffer
        self._epochs = list(epoch.lineage())
        self._main = self._saved = epoch
        self._next_number = max(each.number for each in self._epochs) + 1
        self._pending: dict[Key, tuple[Pair[S], bytes]] = {}
        self._batch: _Batch[S] | None = None
        self._garbage: list[KeyRange] = []
        self._operations = 0
        self._patience = 0
        self._pause = 0

    def held(self) -> int:
        """How many pairs are here and not, or not for certain, in the store."""
        return len(self._pending) + (len(self._batch.pairs) if self._batch else 0)

    def find(self, epoch: Epoch, level: int, position: int) -> Pair[S] | None:
        """A pair that is still here."""
        key = self._link.key(epoch.number, level, position)
        found = self._pending.get(key)
        if found is None and self._batch is not None:
            found = self._batch.pairs.get(key)
        return found[0] if found is not None else None

    def write(self, epoch: Epoch, written: list[Written[S]], root: Root[S]) -> None:
        """Take all of these pairs or raise and take none; see `Pairs.write`."""
        fresh = {
            self._link.key(epoch.number, level, position): (pair, self._link.encode(pair))
            for level, position, pair in written
        }
        self.settle(wait=epoch is self._main and self._is_far_ahead())
        if self._is_due(epoch):
            self._start(epoch, root)
            self.settle()
        if self.held() + len(fresh) > self._limit:
            self._forget_dead()
            self._make_room(len(fresh), epoch, root)
        self._pending.update(fresh)
        for level, position, _ in written:
            epoch.note_written(level, position)
        if epoch is self._main:
            self._operations += 1

    def checkpoint(self, epoch: Epoch, root: Root[S]) -> None:
        """Write out all there is, with this root if it is the main window's; wait for it."""
        self.settle(wait=True)
        self._start(epoch, root)
        self._finish()

    def settle(self, *, wait: bool = False) -> None:
        """See what has become of the batch under way; an unreachable store is not the end of it."""
        if self._batch is not None and (wait or self._batch.job.done()):
            try:
                self._finish()
            except StoreUnavailableError:
                self._patience = 2 * self._patience + 1
                self._pause = self._patience

    def fork(self, parent: Epoch, root: Root[S]) -> Epoch:
        """The epoch of a fork that leaves now."""
        oldest, following = parent.in_store(root)
        fork = Epoch(self._next_number, parent, following, oldest, oldest)
        fork.dropped, fork.head = parent.dropped, parent.head
        self._next_number += 1
        self._epochs.append(fork)
        return fork

    def discard(self, epoch: Epoch, level: int) -> None:
        """Have a level deleted that its window has dropped, if nobody else reads it."""
        if epoch.parent is None and not epoch.forks and level < len(epoch.written):
            start, end = epoch.swept >> level + 1, epoch.written[level]
            self._garbage.append(level_range(self._link.window, epoch.number, level, start, end))
            epoch.written[level] = start

    def drop(self, epoch: Epoch) -> None:
        """Give up a window; with the last one goes all that the store has of them."""
        self.settle(wait=True)
        others = [other for other in self._epochs if other.living and other is not epoch]
        if not others:
            self._delete_all()
        epoch.living = False
        if others and epoch is self._main:
            # The lowest number has no living ancestor, which would sweep under its feet.
            self._main = min(others, key=lambda other: other.number)
            self._operations = 0
        self._prune()
        self._forget_dead()

    def _is_far_ahead(self) -> bool:
        """Whether a crash would throw the main window far back because the store is slow."""
        under_way = self._batch.operations if self._batch is not None else 0
        return self._operations - under_way >= self._limit

    def _is_due(self, epoch: Epoch) -> bool:
        if self._batch is not None:
            return False
        if self._pause:
            self._pause -= 1
            return False
        if len(self._pending) >= self._half:
            return True
        return epoch is self._main and (
            self._operations >= self._half or self._saved is not self._main
        )

    def _make_room(self, count: int, epoch: Epoch, root: Root[S]) -> None:
        try:
            while self.held() and self.held() + count > self._limit:
                if self._batch is None:
                    self._start(epoch, root)
                self._finish()
        except StoreUnavailableError as error:
            raise StoreUnavailableError(
                f"window {self._link.window!r}: the store cannot be reached ({error}) and the "
                f"buffer of {self._limit} pairs is full. Nothing is lost and nothing has changed: "
                "make the same call again when the store is back"
            ) from error

    def _start(self, epoch: Epoch, root: Root[S]) -> None:
        """Send off a batch with all that is pending; if this raises, nothing has been sent off."""
        is_main = epoch is self._main
        if is_main:
            self._prune()
        self._forget_dead()
        swept, budget = self._sweep_from(self._epochs if is_main else [epoch])
        garbage, rest = self._take_garbage(budget if is_main else 0)
        puts = {key: record for key, (_, record) in self._pending.items()}
        if is_main:
            saved = to_plain(self._monoid, epoch, root)
            puts[root_key(self._link.window)] = self._link.encode(saved)
        deletes = [*garbage]
        for each, leaf in swept.items():
            deletes += each.swept_by(self._link.window, leaf)
        self._batch = _Batch(
            job=self._link.start(partial(self._link.store.write, puts, deletes)),
            pairs=self._pending,
            stored={each: list(each.written) for each in self._epochs},
            swept=swept,
            garbage=garbage,
            main=epoch if is_main else None,
            operations=self._operations if is_main else 0,
        )
        self._pending, self._garbage = {}, rest

    def _finish(self) -> None:
        """Wait for the batch under way; if it failed, take back what was in it."""
        batch = self._batch
        if batch is None:
            return
        try:
            deleted = batch.job.result()
        except Exception:
            self._batch = None
            self._pending = batch.pairs | self._pending
            self._garbage = batch.garbage + self._garbage
            self._link.stats.failed_flushes += 1
            raise
        self._batch = None
        self._patience = self._pause = 0
        self._link.stats.flushes += 1
        self._link.stats.written += len(batch.pairs)
        self._link.stats.deleted += deleted
        for epoch, ends in batch.stored.items():
            epoch.stored = ends
        for epoch, leaf in batch.swept.items():
            epoch.swept = leaf
        if batch.main is not None:
            self._saved = batch.main
            self._operations -= batch.operations

    def _forget_dead(self) -> None:
        """Let go of pending pairs that nobody needs any more: they never see the store."""
        needed = {each.number: (each.floor(), each.written) for each in self._epochs}
        for key in list(self._pending):
            floor, ends = needed.get(key.epoch, (None, []))
            end = key.position + 1
            if floor is None or end << key.level + 1 <= floor or end > ends[key.level]:
                del self._pending[key]

    def _sweep_from(self, epochs: list[Epoch]) -> tuple[dict[Epoch, int], int]:
        """How far to sweep these epochs with the next batch, and how much more it may delete."""
        budget, swept = self._sweep, {}
        for epoch in epochs:
            floor = epoch.floor()
            # Before its fork an epoch has a pair or two on each level: sweeping there is free.
            start = max(epoch.swept, epoch.since)
            reach = budget << epoch.dropped
            stop = epoch.swept if floor is None else min(floor, start + reach)
            if stop > epoch.swept:
                swept[epoch] = stop
                budget -= max(0, stop - start) >> epoch.dropped
        return swept, budget

    def _take_garbage(self, budget: int) -> tuple[list[KeyRange], list[KeyRange]]:
        """What of the dropped windows' pairs to delete with the next batch, and what later."""
        taken: list[KeyRange] = []
        rest = list(self._garbage)
        while rest and budget > 0:
            first, stop = rest.pop(0)
            cut = stop._replace(position=min(stop.position, first.position + budget))
            budget -= cut.position - first.position
            taken.append(KeyRange(first, cut))
            if cut != stop:
                rest.insert(0, KeyRange(cut, stop))
        return taken, rest

    def _prune(self) -> None:
        """See what the forks of dropped windows, youngest first, no longer need of these."""
        for epoch in sorted(self._epochs, key=lambda each: -each.number):
            if not epoch.living:
                self._garbage += epoch.trim(self._link.window)
                if epoch.is_empty():
                    epoch.unlink()
                    self._epochs.remove(epoch)

    def _delete_all(self) -> None:
        numbers = self._link.store.epochs(self._link.window)
        ranges = [epoch_range(self._link.window, number) for number in numbers]
        self._link.stats.deleted += self._link.store.write(
            {}, [epoch_range(self._link.window), *ranges]
        )
        self._pending, self._garbage = {}, []
