"""A window whose leaves are buckets of updates, with the error or the memory under control.

Users make one for a window that is too large to be kept update by update; the operators on Spark
keep one for each key. It is an `Amta` over buckets: for each update it asks the rules of its
methods whether the newest bucket may take it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from holdfast.errors import InvalidArgumentError, StoreError
from holdfast.windows.amta import Amta
from holdfast.windows.approximation.buckets import Bucket, bucketed
from holdfast.windows.approximation.coarsening import coarsen
from holdfast.windows.approximation.error_bound import ErrorBound, dimensions_of
from holdfast.windows.approximation.hopping import Hopping
from holdfast.windows.approximation.methods import (
    BlockMaxima,
    Hops,
    MaxError,
    MaxLeaves,
    Method,
    check_methods,
    max_leaves,
    only,
)
from holdfast.windows.approximation.peaks import Peaks
from holdfast.windows.monoid import HOLE, Hole, Monoid
from holdfast.windows.pairs import DurablePairs, Root
from holdfast.windows.policies import Part, Policy, check_monotone, check_policy
from holdfast.windows.window import check_eviction, check_monoid, roll

__all__ = ["ApproximateWindow", "Guarantee"]

V = TypeVar("V")
S = TypeVar("S")
R = TypeVar("R")

OpenAmta = Callable[[Monoid[Any, Bucket, Any]], Amta[Any, Bucket, Any]]


@dataclass(frozen=True)
class Guarantee:
    """What is certain about the present answer."""

    errors: dict[str, float]
    """For all that is bounded: how much it can be wrong, at most."""
    holds: bool | None
    """Whether that is within the bound; None if no method bounds the error. Always so for an
    absolute bound alone; a relative one can fail if answers fall faster than was predicted, or if
    another method folded, too."""


class ApproximateWindow(Generic[V, S, R]):
    """A sliding window over buckets of updates; see `methods` for what can be asked of it.

    >>> from holdfast.windows import monoids, policies
    >>> from holdfast.windows.approximation import max_leaves
    >>> window = ApproximateWindow(monoids.sum, max_leaves(100))
    >>> results = window.roll(range(10_000), policies.last(1_000))
    >>> window.buckets <= 100, results[-1] / sum(range(9_000, 10_000))
    (True, 0.991...)

    The window begins where a bucket does. Its error is at most that of the one bucket in which the
    exact window begins, if what has to leave is told by what is in the window: the newest n, a span
    of time, a sum. Policies that go by what has left before, as `hopping` does, go astray once a
    bucket does not end where they cut.
    """

    def __init__(
        self,
        monoid: Monoid[V, S, R],
        approximate: Method | Sequence[Method],
        *,
        open_amta: OpenAmta = Amta,
    ) -> None:
        """`open_amta` makes the window of buckets, for instance one in a store with
        `partial(open_window, store=store, window="name")`.

        If the store has a window of that name, made by the same methods, this one goes on from
        there: it holds its first `position` updates, go on feeding it with the next.
        """
        check_monoid(monoid)
        self.monoid = monoid
        self.methods = check_methods(approximate)
        bound = only(MaxError, self.methods)
        peaks = only(BlockMaxima, self.methods)
        hops = only(Hops, self.methods)
        leaves = only(MaxLeaves, self.methods)
        dimensions = () if bound is None else dimensions_of(bound, monoid)
        self._bound = None if bound is None else ErrorBound(dimensions, bound.confidence)
        self._peaks = None if peaks is None else _peaks_of(peaks, monoid)
        self._hopping = None if hops is None else Hopping(hops.confidence)
        self._limit = None if leaves is None else leaves.limit
        self._coarse = False
        """Whether leaves had to be joined once: from then on buckets have a least size."""
        self._fullest = 0
        """How many updates there were before the last eviction: so many there may be again."""
        self._evicted: Bucket | None = None
        """The newest bucket that has left, if the exact window may begin inside it."""
        self._owed = 0
        """How many updates `evict` was told to drop that are still in the oldest bucket."""
        self._slid: tuple[Policy, Policy] | None = None
        self.created = 0
        """How many buckets have ever been made: what a store would have been sent."""
        self.position = 0
        """How many updates have ever entered the window: where to go on feeding a resumed one."""
        self._amta: Amta[V, Bucket, R] = open_amta(bucketed(monoid, dimensions))
        self._resume(self._accompany())

    def __len__(self) -> int:
        """How many updates are in the window."""
        total = self._amta.aggregate()
        return 0 if total is HOLE else total[0]

    @property
    def buckets(self) -> int:
        """How many leaves the window holds."""
        return len(self._amta)

    @property
    def amta(self) -> Amta[V, Bucket, R]:
        """The window of buckets; to be looked at, not changed."""
        return self._amta

    def result(self) -> R:
        return self._amta.result()

    def aggregate(self) -> S | Hole:
        """The aggregate as a state; a hole when the window is empty."""
        total = self._amta.aggregate()
        return HOLE if total is HOLE else total[1]

    def leaves(self) -> Iterator[S]:
        """The states of the buckets, oldest first."""
        return (bucket[1] for bucket in self._amta.leaves())

    def sizes(self) -> list[int]:
        """How many updates each bucket has, oldest first."""
        return [bucket[0] for bucket in self._amta.leaves()]

    def guarantee(self) -> Guarantee:
        """What is certain about the present answer; of use with `max_error`."""
        if self._bound is None:
            return Guarantee({}, holds=None)
        total = self._amta.aggregate()
        edges = [] if self._evicted is None else [self._evicted]
        if total is not HOLE:
            edges.append(self._amta.leaf(self._amta.evicted))
        errors = self._bound.errors(edges)
        names = [dimension.name for dimension in self._bound.dimensions]
        answer = self._amta.monoid.identity if total is HOLE else total
        holds = self._bound.holds(answer, errors)
        return Guarantee(dict(zip(names, errors, strict=True)), holds)

    # Updates

    def insert(self, value: V) -> None:
        amta = self._amta
        before = amta.aggregate()
        update = amta.monoid.lift(value)
        peak = 0.0 if self._peaks is None else self._peaks.value(update)
        if before is HOLE and self._bound is not None:
            self._bound.check(update)
        folded = None if before is HOLE else self._folded(update, peak, before)
        if folded is not None:
            # As in every operation that writes: a store saves the window as it was before.
            amta.pairs.write([], amta.root)
            amta.extend_newest(update, folded)
        else:
            if self._limit is not None and before is not HOLE:
                self._make_room(self._limit)
            amta.insert(value)
            self.created += 1
            if self._bound is not None:
                self._bound.start_bucket()
        if self._bound is not None and before is not HOLE:
            self._bound.observe(before)
        if self._peaks is not None:
            self._peaks.observe(peak)
        self.position += 1

    def _folded(self, update: Bucket, peak: float, answer: Bucket) -> Bucket | None:
        """What the newest bucket is with this update, if one of the methods lets it be taken."""
        monoid, newest = self._amta.monoid, self._amta.newest()
        if monoid.check_order is not None:
            monoid.check_order(newest, update)
        folded = None
        if self._bound is not None and self._bound.allows_anything:
            folded = monoid.combine(newest, update)
            if self._bound.folds(folded):
                return folded
        if (
            self._is_small(newest[0], answer[0])
            or (self._peaks is not None and self._peaks.folds(peak, answer, newest[0]))
            or (self._hopping is not None and self._hopping.folds(answer[0], newest[0]))
        ):
            return monoid.combine(newest, update) if folded is None else folded
        return None

    def _is_small(self, newest: int, size: int) -> bool:
        """Whether a bucket of `newest` updates must grow for the sake of the limit on leaves."""
        if not self._coarse or self._limit is None:
            return False
        return newest < -(-max(size + 1, self._fullest) // self._limit)

    def constrain(self, limit: int | None) -> None:
        """Change how many buckets there may be at most, None for any number: fewer, for instance,
        while a store is slow or away. Larger buckets are made from now on, and neighbours joined
        until there are no more than `limit`.

        Raises if the leaves cannot be joined now (they lie in a store that is away): the limit is
        in force all the same, and the next update that needs a bucket tries again.
        """
        self._limit = None if limit is None else max_leaves(limit).limit
        if self._limit is None:
            self._coarse = False
        else:
            self._make_room(self._limit + 1)

    def _make_room(self, limit: int) -> None:
        """Bring the number of leaves below `limit`."""
        if len(self._amta) >= limit:
            self._coarse = True
        while len(self._amta) >= limit:
            coarsen(self._amta)

    # Evictions

    def evict(self, count: int = 1) -> None:
        """Drop the oldest `count` updates, as far as they fill buckets; the rest goes with later
        ones."""
        size = len(self)
        due = min(size, check_eviction(count, size) + self._owed)
        if due == size:
            self._amta.evict(len(self._amta))
            self._evicted, self._owed = None, 0
            return
        rule = Policy(eviction_invariant=lambda candidate, _after, _before: candidate.size <= due)
        self._cut(self._amta.after_slide(self._on_buckets(rule)))
        self._owed = due - (size - len(self))

    def restart(self) -> None:
        """Empty the window and forget all that was learned, as if it were new."""
        self._amta.evict(len(self._amta))
        fresh = ApproximateWindow(self.monoid, self.methods)
        _, limit, *rest = fresh.saved()
        self.restore((self.created, (self._limit, *limit[1:]), *rest))

    def slide(self, policy: Policy, *, debug: bool = False) -> int:
        """Evict the buckets that the policy says must go; answer how many updates that were."""
        check_policy(policy)
        size = len(self)
        if policy.newest is not None and not debug:
            if size <= policy.newest:
                return 0
            oldest = self._amta.leaf(self._amta.evicted)
            if size - oldest[0] <= policy.newest and len(self._amta) > 1:
                # As it mostly is: one bucket goes, without a search.
                self._amta.evict()
                self._fullest, self._evicted = size, oldest
                return self._slid_by(oldest[0], size)
        by_bucket = self._on_buckets(policy)
        if debug:
            check_monotone(by_bucket, self._amta.monoid, self._amta.leaves())
        self._cut(self._amta.after_slide(by_bucket))
        return self._slid_by(size - len(self), size)

    def _slid_by(self, gone: int, size: int) -> int:
        """So many of `size` updates have left in a slide."""
        self._owed = max(0, self._owed - gone)
        if gone and self._hopping is not None:
            after = self._amta.leaf(self._amta.evicted) if len(self._amta) else None
            self._hopping.observe(gone, self._evicted, after, size - gone)
        return gone

    def _cut(self, root: Root[Bucket]) -> None:
        if root is self._amta.root:
            return
        size, evicted = len(self), self._amta.leaf(root.oldest - 1)
        self._amta.commit(root)
        self._fullest, self._evicted = size, evicted

    def _on_buckets(self, policy: Policy) -> Policy:
        """The same policy for a window in which a part has as many updates as its buckets."""
        if self._slid is None or self._slid[0] is not policy:
            self._slid = policy, _by_bucket(policy, self.monoid)
        return self._slid[1]

    def roll(self, values: Iterable[V], policy: Policy) -> list[R]:
        """Insert each value, slide, and note the result: one result for each value."""
        return roll(self, values, policy)

    # Forks and records

    def fork(self) -> ApproximateWindow[V, S, R]:
        """A second window that goes on from here; neither disturbs the other."""
        amta = self._amta.fork()
        fork = ApproximateWindow(self.monoid, self.methods)
        fork.restore(self.saved())
        amta.monoid = fork._amta.monoid
        fork._amta, fork.position = amta, self.position
        fork._accompany()
        return fork

    def drop(self) -> None:
        """Give up this window; its forks and its base live on."""
        self._amta.drop()

    def checkpoint(self) -> None:
        """Make the window durable as it is now, if its buckets lie where they can outlive it."""
        self._amta.checkpoint()

    def _accompany(self) -> Any:
        """Have what is not in the leaves saved with them; answers what was saved before."""
        pairs = self._amta.pairs
        return pairs.accompany(self._companion) if isinstance(pairs, DurablePairs) else None

    def _companion(self) -> tuple[Any, ...]:
        return tuple(map(str, self.methods)), self.position, self.saved()

    def _resume(self, companion: tuple[Any, ...] | None) -> None:
        """Go on from what a store has, if it has anything."""
        if companion is None:
            if len(self._amta):
                raise InvalidArgumentError(
                    f"open_amta: its window holds {len(self._amta)} buckets that this one knows "
                    "nothing of; open one under a name that was not used"
                )
            return
        methods, position, saved = companion
        mine = tuple(map(str, self.methods))
        if tuple(methods) != mine:
            raise StoreError(
                f"open_amta: its window was stored with {', '.join(methods)}, not with "
                f"{', '.join(mine)}; open it with those, or give this window another name"
            )
        self.position = position
        self.restore(saved)

    def saved(self) -> tuple[Any, ...]:
        """All that is not in `amta`, as plain values."""
        rules = [rule.saved() for rule in (self._bound, self._peaks, self._hopping) if rule]
        limit = self._limit, self._coarse, self._fullest
        return self.created, limit, self._evicted, self._owed, tuple(rules)

    def restore(self, saved: tuple[Any, ...]) -> None:
        """Go on from what `saved` has answered."""
        self.created, limit, self._evicted, self._owed, records = saved
        self._limit, self._coarse, self._fullest = limit
        rules = [rule for rule in (self._bound, self._peaks, self._hopping) if rule]
        for rule, record in zip(rules, records, strict=True):
            rule.restore(record)


def _peaks_of(method: BlockMaxima, monoid: Monoid[Any, Any, Any]) -> Peaks:
    peak = monoid.peak if method.of is None else method.of
    if peak is None:
        raise InvalidArgumentError(
            f"block_maxima: goes with windows that pick the greatest or the least; {monoid.name} "
            "does not, or more than one of its parts does. Take max_error or max_leaves, or give a "
            "function that reads the number that is compared: block_maxima(..., of=...)"
        )
    return Peaks(peak, method.block, method.confidence)


def _by_bucket(policy: Policy, monoid: Monoid[Any, Any, Any]) -> Policy:
    keeps, names = policy.window_invariant, policy.eviction_invariant

    def part(buckets: Part) -> Part:
        state = buckets.state()
        return Part(monoid, 0) if state is HOLE else Part(monoid, state[0], state[1])

    return Policy(
        window_invariant=None if keeps is None else lambda window: keeps(part(window)),
        eviction_invariant=(
            None
            if names is None
            else lambda candidate, after, before: names(part(candidate), part(after), part(before))
        ),
        keep_newest=policy.keep_newest,
    )
