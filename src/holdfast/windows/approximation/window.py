"""A window whose leaves are buckets of updates, with the error or the memory under control.

Users make one for a window that is too large to be kept update by update; the operators on Spark
keep one for each key. It is an `Amta` over buckets: for each update it asks the rules of its
methods whether the newest bucket may take it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from operator import neg
from typing import Any, Generic, TypeVar

from holdfast.errors import InvalidArgumentError, StoreError, StoreUnavailableError
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
from holdfast.windows.approximation.outage import Outage
from holdfast.windows.approximation.peaks import Peaks
from holdfast.windows.approximation.start import Start, estimated_cut, sized_cut
from holdfast.windows.monoid import HOLE, Hole, Monoid
from holdfast.windows.pairs import DurablePairs, Root
from holdfast.windows.policies import Part, Policy, check_monotone, check_policy, last
from holdfast.windows.values import itself
from holdfast.windows.window import check_eviction, check_monoid, roll

__all__ = ["ApproximateWindow", "Guarantee"]

V = TypeVar("V")
S = TypeVar("S")
R = TypeVar("R")
T = TypeVar("T")

OpenAmta = Callable[[Monoid[Any, Bucket, Any]], Amta[Any, Bucket, Any]]


@dataclass(frozen=True)
class Guarantee:
    """What is proven about the present answer."""

    errors: dict[str, float]
    """For all that is bounded: how much it can be wrong, at most; infinite if that is not known."""
    holds: bool | None
    """True if the answer is proven to be within the bound, with `block_maxima` to be exact. False
    if it may be wrong by `errors`, which is more: a relative bound fails if answers fall faster
    than was predicted, or if another method folded, too. None if nothing is known: no method bounds
    the error, or the policy does not tell where the exact window begins."""


class ApproximateWindow(Generic[V, S, R]):
    """A sliding window over buckets of updates; see `methods` for what can be asked of it.

    >>> from holdfast.windows import monoids, policies
    >>> from holdfast.windows.approximation import max_leaves
    >>> window = ApproximateWindow(monoids.sum, max_leaves(100))
    >>> results = window.roll(range(10_000), policies.last(1_000))
    >>> window.buckets <= 100, results[-1] / sum(range(9_000, 10_000))
    (True, 0.991...)

    The window begins where a bucket does. Its error is at most that of the one bucket in which the
    exact window begins. Where that is, is proven for policies that go by numbers of updates, that
    have a window invariant only, or that are `positional`. Others are followed as near as can be,
    and `guarantee` answers None once they cut inside a bucket.
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
        self._start = Start()
        """Where the exact window is proven to begin."""
        self._owed = 0
        """How many updates of the oldest bucket have left the exact window, by an estimate: of use
        where that is not proven."""
        self._slid: tuple[Policy, Policy] | None = None
        self.created = 0
        """How many buckets have ever been made: what a store would have been sent."""
        self.position = 0
        """How many updates have ever entered the window: where to go on feeding a resumed one."""
        self._amta: Amta[V, Bucket, R] = open_amta(bucketed(monoid, dimensions))
        self._resume(self._accompany())
        self._outage: Outage | None = None
        """Set while the store is away and `_amta` is in memory in its place."""

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

    @property
    def peak(self) -> Callable[[S], Any] | None:
        """What `block_maxima` compares, read from a state; None without it."""
        return None if self._peaks is None else self._peaks.peak

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
        """What is proven about the present answer; of use with `max_error` and `block_maxima`."""
        return self._reach(self._guarantee)

    def _guarantee(self) -> Guarantee:
        edges = self._edges()
        if self._peaks is not None:
            return Guarantee({}, holds=self._has_peak(edges))
        if self._bound is None:
            return Guarantee({}, holds=None)
        names = [dimension.name for dimension in self._bound.dimensions]
        if edges is None:
            return Guarantee(dict.fromkeys(names, inf), holds=None)
        total = self._amta.aggregate()
        errors = self._bound.errors(edges)
        answer = self._amta.monoid.identity if total is HOLE else total
        holds = self._bound.holds(answer, errors)
        return Guarantee(dict(zip(names, errors, strict=True)), holds)

    def _edges(self) -> list[Bucket] | None:
        """The buckets inside which the exact window may begin; None if it may begin elsewhere."""
        edges = []
        if self._start.low < 0:
            if self._evicted is None or self._start.low <= -self._evicted[0]:
                return None
            edges.append(self._evicted)
        if self._start.high > 0:
            if self._start.high >= _oldest(self._amta.root):
                return None
            edges.append(self._amta.leaf(self._amta.evicted))
        return edges

    def _has_peak(self, edges: list[Bucket] | None) -> bool | None:
        """True if none of these buckets can have what the exact window answers."""
        if not edges:
            return None if edges is None else True
        assert self._peaks is not None
        amta = self._amta
        sure = amta.suffix(amta.evicted + (self._start.high > 0)) if len(amta) else HOLE
        if sure is HOLE:
            return None
        peak = self._peaks.peak
        greatest = peak(sure[1])
        # Of equal ones the oldest is answered: that may be another, unless it is the number itself.
        same = peak in (itself, neg) and isinstance(sure[1], int | float)
        for edge in edges:
            if not (peak(edge[1]) < greatest or (same and peak(edge[1]) == greatest)):
                return None
        return True

    # Updates

    def insert(self, value: V) -> None:
        self._reach(lambda: self._insert(value))

    def _insert(self, value: V) -> None:
        amta = self._amta
        before = amta.aggregate()
        update = amta.monoid.lift(value)
        peak = 0.0 if self._peaks is None else self._peaks.value(update)
        if before is HOLE and self._bound is not None:
            self._bound.check(update)
        folded = None if before is HOLE else self._folded(update, peak, before)
        limit = self._limit_now()
        if folded is None and limit is not None and len(amta) >= limit:
            # Buckets are larger then: one that a store resumes at this point decides the same.
            self._make_room(limit)
            before = amta.aggregate()
            assert before is not HOLE
            folded = self._folded(update, peak, before)
        if folded is not None:
            # As in every operation that writes: a store saves the window as it was before.
            amta.pairs.write([], amta.root)
            amta.extend_newest(update, folded)
        else:
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
            or (self._hopping is not None and self._hopping.folds(self._exact(answer), newest[0]))
        ):
            return monoid.combine(newest, update) if folded is None else folded
        return None

    def _exact(self, answer: Bucket) -> int:
        """How many updates the exact window has, or else is estimated to have."""
        known = self._start.known
        return answer[0] - (self._owed if known is None else known)

    def _is_small(self, newest: int, size: int) -> bool:
        """Whether a bucket of `newest` updates must grow for the sake of the limit on leaves."""
        limit = self._limit_now()
        if not self._coarse or limit is None:
            return False
        return newest < -(-max(size + 1, self._fullest) // limit)

    def _limit_now(self) -> int | None:
        """How many leaves there may be; without the store no more than there is room for here."""
        if self._outage is None:
            return self._limit
        room = self._outage.limit
        return room if self._limit is None else min(self._limit, room)

    def constrain(self, limit: int | None) -> None:
        """Change how many buckets there may be at most, None for any number: fewer, for instance,
        while a store is slow or away. Larger buckets are made from now on, and neighbours joined
        until there are no more than `limit`.
        """
        self._limit = None if limit is None else max_leaves(limit).limit
        if self._limit is None:
            self._coarse = False
        else:
            room = self._limit + 1
            self._reach(lambda: self._make_room(room))

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
        self._reach(lambda: self._evict(count))

    def _evict(self, count: int) -> None:
        size = len(self)
        count = check_eviction(count, size)
        known, start = self._start.known, self._start.plus(count, size)
        due = count + (self._owed if known is None else known)
        self._go_on(self._without(due), start, due)

    def restart(self) -> None:
        """Empty the window and forget all that was learned, as if it were new."""
        self._amta.evict(len(self._amta))
        fresh = ApproximateWindow(self.monoid, self.methods)
        _, limit, *rest = fresh.saved()
        self.restore((self.created, (self._limit, *limit[1:]), *rest))

    def slide(self, policy: Policy, *, debug: bool = False) -> int:
        """Evict the buckets that the policy says must go; answer how many updates that were.

        What it lets go of a bucket that does not go altogether is carried over to the next slide.
        """
        check_policy(policy)
        return self._reach(lambda: self._slide(policy, debug=debug))

    def _slide(self, policy: Policy, *, debug: bool) -> int:
        size, start = len(self), self._start
        if debug:
            check_monotone(self._on_buckets(policy), self._amta.monoid, self._amta.leaves())
        if policy.newest is not None:
            cut = size - policy.newest
            if start.low < cut:
                start = Start(cut, max(start.high, cut))
            if cut <= 0:
                # As it mostly is: nothing to evict.
                self._start = start
                return 0
            return self._go_on(self._without_all_but(policy.newest, size), start)
        proven = None if start.known is None else sized_cut(policy, start.known, size)
        if proven is not None:
            start = Start(proven, proven)
            if policy.eviction_invariant is not None:
                return self._go_on(self._without(proven), start)
            return self._go_on(self._amta.after_slide(self._on_buckets(policy)), start)
        root = self._amta.after_slide(self._on_buckets(policy))
        start = self._proven(policy, root)
        if policy.eviction_invariant is None or policy.positional:
            return self._go_on(root, start)
        due = self._estimated(policy, root)
        return self._go_on(self._without(due), start, due)

    def _without(self, due: int) -> Root[Bucket]:
        """The root without the buckets that end within the oldest `due` updates."""
        amta, root = self._amta, self._amta.root
        if due >= len(self):
            return Root(root.next, root.next, end=root.next)
        if due < _oldest(root):
            return root
        rule = Policy(eviction_invariant=lambda candidate, _after, _before: candidate.size <= due)
        return amta.after_slide(_by_bucket(rule, self.monoid))

    def _without_all_but(self, newest: int, size: int) -> Root[Bucket]:
        """The root without the buckets that hold none of the `newest` updates alone."""
        amta, root = self._amta, self._amta.root
        if size - _oldest(root) <= newest and len(amta) > 1:
            return amta.without(root.oldest + 1)
        return amta.after_slide(self._on_buckets(last(newest)))

    def _proven(self, policy: Policy, root: Root[Bucket]) -> Start:
        """The start of the exact window once this one, of which the policy was asked about whole
        buckets, goes on from `root`."""
        start, left = self._start, _updates(root)
        gone = len(self) - left
        inside = gone + max(_oldest(root) - 1, 0)
        if policy.eviction_invariant is None:
            # What is left is acceptable, or only because its newest bucket must stay.
            saved = policy.keep_newest and root.next - root.oldest == 1
            high = inside if saved else gone
        elif policy.positional or start.known == 0:
            high = inside
        else:
            # Asked from elsewhere it might have let go of anything.
            return Start(start.low, max(start.high, gone + left - policy.keep_newest))
        if not gone:
            return start.at_least(start.low, high)
        if policy.window_invariant is None:
            return start.at_least(gone, high)
        # The cut may be inside the bucket that leaves last.
        return start.at_least(gone - self._amta.leaf(root.oldest - 1)[0] + 1, high)

    def _estimated(self, policy: Policy, root: Root[Bucket]) -> int:
        """How many updates a slide would let go if the policy let go of the buckets before `root`,
        those included that it has let go of before."""
        amta, monoid = self._amta, self.monoid
        if root.next == root.oldest:
            return len(self)
        state: Bucket | Hole = HOLE
        for number in range(amta.evicted, root.oldest):
            state = amta.monoid.join(state, amta.leaf(number))
        gone, bucket = _plain(monoid, state), _plain(monoid, amta.leaf(root.oldest))
        rest = _plain(monoid, amta.suffix(root.oldest + 1))
        due = self._owed + gone.size
        if bucket.size > 1 and rest.size:
            before = _plain(monoid, amta.aggregate())
            due += estimated_cut(policy, monoid, gone, bucket, rest, before)
        return min(due, len(self) - policy.keep_newest)

    def _go_on(self, root: Root[Bucket], start: Start, due: int | None = None) -> int:
        """Go on from `root`; answer how many updates that lets go.

        `start`: where the exact window then begins, seen from where this one began; `due`: an
        estimate of that.
        """
        size = len(self)
        gone = size - _updates(root)
        evicted = self._amta.leaf(root.oldest - 1) if gone else self._evicted
        if self._hopping is not None:
            self._note_hop(self._hopping, start, root, size)
        # From here on nothing fails: the window and what is proven of it change together.
        self._start = start.seen_after(gone)
        self._owed = max(0, self._owed - gone if due is None else min(due, size) - gone)
        if gone:
            self._fullest, self._evicted = size, evicted
            self._amta.commit(root)
        return gone

    def _note_hop(self, hopping: Hopping, start: Start, root: Root[Bucket], size: int) -> None:
        """Learn from how many updates leave the exact window, or else this one."""
        gone = size - _updates(root)
        before, now = self._start.known, start.known
        if before is not None and now is not None:
            if now > before:
                hopping.observe(now - before, 1, 1, size - now)
        elif gone:
            last_out = self._amta.leaf(root.oldest - 1)[0]
            hopping.observe(gone, last_out, max(_oldest(root), 1), size - gone)

    def _on_buckets(self, policy: Policy) -> Policy:
        """The same policy for a window in which a part has as many updates as its buckets."""
        if self._slid is None or self._slid[0] is not policy:
            self._slid = policy, _by_bucket(policy, self.monoid)
        return self._slid[1]

    # Outages

    def _reach(self, operation: Callable[[], T]) -> T:
        """Do something with the buckets: in memory, if the store stays away.

        Operations either raise StoreUnavailableError and have changed nothing, or are done.
        """
        if self._outage is not None and self._outage.is_due():
            self._return()
        try:
            return operation()
        except StoreUnavailableError:
            pass
        try:
            return operation()
        except StoreUnavailableError as error:
            self._retreat(error)
        return operation()

    def _retreat(self, error: StoreUnavailableError) -> None:
        """Go on in memory, with buckets as fine as can be made of what is here."""
        amta = self._amta
        outage = None if self._outage is not None else Outage.begin(amta, self._companion())
        if outage is None:
            raise error
        self._outage, self._amta = outage, outage.local
        self._make_room(outage.limit + 1)

    def _return(self) -> None:
        """Move what is in memory to the store, if that is back; else the outage goes on."""
        assert self._outage is not None
        if self._outage.end(self._amta):
            self._amta, self._outage = self._outage.stored, None
            self._accompany()
            self._coarse = self._coarse and self._limit is not None

    def roll(self, values: Iterable[V], policy: Policy) -> list[R]:
        """Insert each value, slide, and note the result: one result for each value."""
        return roll(self, values, policy)

    # Forks and records

    def fork(self) -> ApproximateWindow[V, S, R]:
        """A second window that goes on from here; neither disturbs the other.

        One that is made while the store is away stays in memory.
        """
        amta = self._amta.fork()
        fork = ApproximateWindow(self.monoid, self.methods)
        fork.restore(self.saved())
        amta.monoid = fork._amta.monoid
        fork._amta, fork.position = amta, self.position
        fork._accompany()
        return fork

    def drop(self) -> None:
        """Give up this window; its forks and its base live on."""
        if self._outage is not None:
            self._outage.stored.drop()
        self._amta.drop()

    def checkpoint(self) -> None:
        """Make the window durable as it is now, if its buckets lie where they can outlive it."""
        if self._outage is not None:
            self._outage.reach()
            self._return()
        self._amta.checkpoint()

    def _accompany(self) -> Any:
        """Have what is not in the leaves saved with them; answers what was saved before."""
        pairs = self._amta.pairs
        if not isinstance(pairs, DurablePairs):
            return None
        pairs.hold(self._amta.root)
        return pairs.accompany(self._companion)

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
        start = self._owed, self._start.low, self._start.high
        return self.created, limit, self._evicted, start, tuple(rules)

    def restore(self, saved: tuple[Any, ...]) -> None:
        """Go on from what `saved` has answered."""
        self.created, limit, self._evicted, start, records = saved
        if isinstance(start, int):
            # Saved by a version that did not know: nothing is proven until all of it has left.
            start = start, -(2**62), len(self)
        self._owed, low, high = start
        self._start = Start(low, high)
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
        return _plain(monoid, buckets.state())

    return Policy(
        window_invariant=None if keeps is None else lambda window: keeps(part(window)),
        eviction_invariant=(
            None
            if names is None
            else lambda candidate, after, before: names(part(candidate), part(after), part(before))
        ),
        keep_newest=policy.keep_newest,
    )


def _oldest(root: Root[Bucket]) -> int:
    """How many updates the oldest bucket has, told without reading it."""
    after = root.stack[-1] if root.stack else HOLE
    return _size(root.front) - _size(after)


def _updates(root: Root[Bucket]) -> int:
    return _size(root.front) + _size(root.back)


def _size(bucket: Bucket | Hole) -> int:
    return 0 if bucket is HOLE else bucket[0]


def _plain(monoid: Monoid[Any, Any, Any], bucket: Bucket | Hole) -> Part:
    """What is in a bucket as a part of a window of updates."""
    return Part(monoid, 0) if bucket is HOLE else Part(monoid, bucket[0], bucket[1])
