"""Fair queueing of log entries between tenants, and the size of batches.

Each tenant has a queue in log order and a tag: the cost served so far, in a virtual time that all
share. The tenant with the smallest tag is served next, so a tenant with a single entry waits for
one batch at most, whatever another one has queued.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from itertools import islice
from typing import Final, NamedTuple

# Size of batches while several tenants are active, by how long batches really take.
#
# Work is estimated from documents; what it takes depends on the machine, the store and its load. An
# entry waits for the batch that runs and for its own, so with other tenants' work in both these
# must not be much longer than a batch with next to nothing in it.

LONGER: Final = 1.6
"""So many times as long as an almost empty batch a full one may take."""
SMALL_MICROS: Final = 3_000.0
"""Estimated work of a batch that counts as almost empty."""
LEAST_SHARE: Final = 1 / 32
"""The least part of the bounds that is left: the work of a backlog has to go on, too."""
SHRINK: Final = 0.7
GROW: Final = 1.1
FORGET: Final = 0.01
"""Part by which the time of an empty batch follows longer ones, with each batch."""


@dataclass
class Pace:
    """Makes batches smaller while they take too long, and larger again while they do not."""

    share: float = 1.0
    """Part of the bounds of a shared batch to use."""
    empty: float | None = None
    """Seconds that an almost empty batch takes; None: not seen yet."""

    def ran(self, micros: float, seconds: float, *, was_full: bool) -> None:
        """A batch with so much estimated work has taken so long."""
        if micros <= SMALL_MICROS:
            if self.empty is None or seconds < self.empty:
                self.empty = seconds
            self.empty += (seconds - self.empty) * FORGET
        if self.empty is None or not was_full:
            return
        if seconds > LONGER * self.empty:
            self.share = max(LEAST_SHARE, self.share * SHRINK)
        else:
            self.share = min(1.0, self.share * GROW)


class Item(NamedTuple):
    """A log entry that waits."""

    position: int
    tenant: str
    path: str
    is_change: bool
    size: int
    """Bytes of its body."""
    has_key: bool = False


class Cost(NamedTuple):
    """Estimate of the work that an entry sets off."""

    micros: float
    size: int
    """Bytes of all its results."""


class Budget(NamedTuple):
    """Bounds of one batch. An entry that is larger than all of it is taken alone."""

    micros: float
    size: int
    entries: int


@dataclass
class FairQueue:
    _queues: dict[str, deque[Item]] = field(default_factory=dict)
    _tags: dict[str, float] = field(default_factory=dict)
    _now: float = 0.0
    """Virtual time: the tag of the tenant that was served last."""
    taken_micros: float = 0.0
    """Cost of what was taken last."""

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def add(self, items: Iterable[Item]) -> None:
        """In the order of the log."""
        for item in items:
            queue = self._queues.get(item.tenant)
            if queue is None:
                queue = self._queues[item.tenant] = deque()
                # Nobody saves up time while idle.
                self._tags[item.tenant] = max(self._now, self._tags.get(item.tenant, 0.0))
            queue.append(item)

    @property
    def tenants(self) -> set[str]:
        """Tenants with waiting entries."""
        return set(self._queues)

    @property
    def first(self) -> int | None:
        """Position of the first entry that waits."""
        return min((queue[0].position for queue in self._queues.values()), default=None)

    def heads(self, most: int) -> tuple[list[Item], list[tuple[Item, list[Item]]]]:
        """Up to `most` updates of each tenant that are next; and changes that wait behind some of
        them, each with those."""
        found: list[Item] = []
        changes: list[tuple[Item, list[Item]]] = []
        for queue in self._queues.values():
            mine: list[Item] = []
            for item in islice(queue, most):
                if item.is_change:
                    if mine:
                        changes.append((item, mine))
                    break
                mine.append(item)
            found += mine
        return found, changes

    def take_changes(self, cost: Callable[[Item], Cost], budget: Budget) -> list[Item]:
        """Changes that are next for their tenants. They are applied before any update of the
        batch settles, so a change behind an update waits for the next batch."""
        return self._take(cost, budget, changes=True)

    def take_updates(
        self, cost: Callable[[Item], Cost], budget: Budget, before: int | None = None
    ) -> list[Item]:
        """Updates that are next for their tenants, after the changes of this batch; if wanted, only
        those before a position."""
        return self._take(cost, budget, changes=False, before=before)

    def _take(
        self,
        cost: Callable[[Item], Cost],
        budget: Budget,
        *,
        changes: bool,
        before: int | None = None,
    ) -> list[Item]:
        def is_next(item: Item) -> bool:
            return item.is_change == changes and (before is None or item.position < before)

        taken: list[Item] = []
        micros, size = 0.0, 0
        heap = [
            (self._tags[tenant], tenant)
            for tenant, queue in self._queues.items()
            if is_next(queue[0])
        ]
        heapify(heap)
        is_full = False
        while heap and not is_full:
            tag, tenant = heap[0]
            queue = self._queues[tenant]
            # Until it is another tenant's turn.
            others = min(heap[1:3], default=None)
            served = None
            while queue and (others is None or (tag, tenant) < others):
                item = queue[0]
                if item.is_change != changes or (before is not None and item.position >= before):
                    break
                more_micros, more_size = cost(item)
                is_full = len(taken) >= budget.entries or (
                    bool(taken)
                    and (micros + more_micros > budget.micros or size + more_size > budget.size)
                )
                if is_full:
                    break
                taken.append(queue.popleft())
                micros, size = micros + more_micros, size + more_size
                served = tag
                tag += more_micros
            if served is not None:
                self._now = max(self._now, served)
            self._tags[tenant] = tag
            if queue and is_next(queue[0]):
                heapreplace(heap, (tag, tenant))
            else:
                heappop(heap)
            if not queue:
                del self._queues[tenant]
        self.taken_micros = micros
        if not self._queues:
            self._tags.clear()
            self._now = 0.0
        return sorted(taken)
