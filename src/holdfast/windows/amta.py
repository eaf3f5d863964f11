"""The Amortized Monoid Tree Aggregator (digest §3.4-3.8), with leaves at fixed numbers.

Leaves are numbered from 0 for ever. Element j of level l stands for leaves [j·2^l, (j+1)·2^l) and
lies in pair j // 2 of its level. Which pairs exist, which slots are holes and which values on the
left spine are stale then follows from two numbers, the oldest leaf and the next one: nothing is
ever written into an interior pair. (The founding document numbers pairs from the current head
and punches holes into them.)

Every operation works out what changes and only then changes it: a combine, a policy or a store
that raises in the middle leaves the window as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeAlias, TypeVar

from holdfast.errors import WindowDroppedError
from holdfast.windows.monoid import HOLE, Hole, Monoid
from holdfast.windows.pairs import MemoryPairs, Pair, Pairs, Root, Written
from holdfast.windows.policies import Part, Policy, check_monotone, check_policy
from holdfast.windows.window import check_eviction, check_monoid, roll

__all__ = ["Amta"]

V = TypeVar("V")
S = TypeVar("S")
R = TypeVar("R")

Operand: TypeAlias = S | Hole | Part
"""Of a part: at hand, or still to be combined."""
Due = Callable[[Part, Part], bool]
"""Must this prefix of the window go, which leaves that rest of it?"""


class Amta(Generic[V, S, R]):
    """A sliding window: amortised O(1) per slide, O(log n) for a bulk eviction, fork or search."""

    def __init__(
        self,
        monoid: Monoid[V, S, R],
        *,
        pairs: Pairs[S] | None = None,
        root: Root[S] | None = None,
    ) -> None:
        check_monoid(monoid)
        self.monoid = monoid
        self._pairs: Pairs[S] = MemoryPairs() if pairs is None else pairs
        self._root: Root[S] = Root() if root is None else root
        self._total: S | Hole = HOLE
        self._dropped = False

    def __len__(self) -> int:
        return self._root.next - self._root.oldest

    @property
    def position(self) -> int:
        """How many updates have ever entered the window: where to go on feeding a resumed one.

        Of a window that was folded or coarsened: the number of the leaf that comes next.
        """
        return self._root.next

    @property
    def evicted(self) -> int:
        """How many updates, or leaves of a window that was folded, have ever left the window."""
        return self._root.oldest

    @property
    def root(self) -> Root[S]:
        """All of the window but its interior pairs; to be looked at, not changed."""
        return self._root

    @property
    def pairs(self) -> Pairs[S]:
        """Where the interior pairs lie."""
        return self._pairs

    def result(self) -> R:
        return self.monoid.answer(self.aggregate())

    def aggregate(self) -> S | Hole:
        """The aggregate as a state; a hole when the window is empty."""
        if self._total is HOLE:
            self._check_living()
            self._total = self.monoid.join(self._root.front, self._root.back)
        return self._total

    def insert(self, value: V) -> None:
        if self._dropped:
            self._check_living()
        pairs, monoid, root = self._pairs, self.monoid, self._root
        join = monoid.join
        state = monoid.lift(value)
        number = root.next
        if number == root.oldest:
            pairs.write([], root)
            tail: Pair[S] = (HOLE, state) if number & 1 else (state, HOLE)
            root.tails, root.stack, root.front, root.back = [tail], [], state, HOLE
            root.next = root.end = number + 1
            self._total = state
            return
        tails = root.tails
        if monoid.check_order is not None:
            older, newer = tails[0]
            newest = older if newer is HOLE else newer
            if newest is not HOLE:
                monoid.check_order(newest, state)
        back = join(root.back, state)
        replaced: list[Pair[S]] = []
        written: list[Written[S]] = []
        carry, index, top = state, number, len(tails) - 1
        for level, (older, newer) in enumerate(tails):
            if index & 1:
                replaced.append((older, carry))
                break
            replaced.append((carry, HOLE))
            index = (index >> 1) - 1
            written.append((level, index, (older, newer)))
            # The top tail alone may have lost its older element: its parent is on the left spine,
            # where a value is never read, so the combine is saved.
            evicted = level == top and root.oldest >> level & 1
            carry = newer if evicted else join(older, newer)  # type: ignore[assignment]
        else:
            # The leftmost tree grew a root above it and holds the leaves it held.
            replaced.append((HOLE, carry) if index & 1 else (carry, HOLE))
            pairs.write(written, root)
            root.tails = replaced
            root.back = back
            root.next = number + 1
            self._total = HOLE
            return
        if level == top:
            # The second-highest tree became part of the leftmost one.
            end = (index + 1) << top
            front, stack = self._left(root.oldest, replaced)
            back = self._right(replaced[:-1])
            pairs.write(written, root)
            root.tails, root.stack, root.front, root.end = replaced, stack, front, end
        else:
            pairs.write(written, root)
            tails[: level + 1] = replaced
        root.back = back
        root.next = number + 1
        self._total = HOLE

    def fold(self, value: V) -> None:
        """Combine an update with the newest leaf instead of giving it one of its own. O(1)."""
        self._check_living()
        root, monoid = self._root, self.monoid
        if root.next == root.oldest:
            self.insert(value)
            return
        state, newest = monoid.lift(value), self.newest()
        if monoid.check_order is not None:
            monoid.check_order(newest, state)
        self.extend_newest(state, monoid.combine(newest, state))

    def newest(self) -> S:
        """The state of the newest leaf; there must be one."""
        older, newer = self._root.tails[0]
        newest = older if newer is HOLE else newer
        assert newest is not HOLE
        return newest

    def extend_newest(self, state: S, folded: S) -> None:
        """Make the newest leaf `folded`, which is that leaf combined with `state`."""
        root = self._root
        older, newer = root.tails[0]
        tail: Pair[S] = (folded, HOLE) if newer is HOLE else (older, folded)
        if len(root.tails) == 1:
            # The newest leaf is part of the leftmost tree.
            front, stack = self._left(root.oldest, [tail])
            root.front, root.stack = front, stack
        else:
            root.back = self.monoid.join(root.back, state)
        root.tails[0] = tail
        self._total = HOLE

    def evict(self, count: int = 1) -> None:
        """Drop the oldest `count` updates, at a cost that grows with log(count)."""
        root = self._root
        length = root.next - root.oldest
        if self._dropped or type(count) is not int or not 0 <= count <= length:
            self._check_living()
            count = check_eviction(count, length)
        oldest = root.oldest + count
        if count == 1 and oldest < root.end:
            # The same as `_without`, in place: this is what most evictions are.
            stack = root.stack
            rest: S | Hole = stack[-2] if len(stack) > 1 else HOLE
            added = []
            for level in range((oldest & -oldest).bit_length() - 2, -1, -1):
                rest = self._suffix(level, oldest, rest)
                added.append(rest)
            root.front = stack.pop()
            if added:
                stack += added
            root.oldest = oldest
            self._total = HOLE
            self._pairs.release(oldest)
        elif count:
            self.commit(self._without(root, oldest))

    def slide(self, policy: Policy, *, debug: bool = False) -> int:
        """Evict what the policy says must go; answer how many updates that were.

        `debug` first asks the policy about every prefix and raises if its answers are not monotone.
        """
        if self._dropped:
            self._check_living()
        check_policy(policy)
        if debug:
            check_monotone(policy, self.monoid, self.leaves())
        size = self._root.next - self._root.oldest
        if policy.newest is not None:
            count = size - policy.newest
            if count <= 0:
                return 0
            self.evict(count)
            return count
        found = self.after_slide(policy)
        if found is not self._root:
            self.commit(found)
        return size - len(self)

    def after_slide(self, policy: Policy) -> Root[S]:
        """The root that a slide by this policy would leave; changes nothing."""
        self._check_living()
        root = self._root
        if root.next - root.oldest <= policy.keep_newest:
            return root
        found = self._search(policy)
        left = found.next - found.oldest
        if left > policy.keep_newest and policy.breaks(self._part(left, found.front, found.back)):
            found = self._without(found, found.oldest + 1)
        return found

    def without(self, oldest: int) -> Root[S]:
        """The root once all leaves before number `oldest` have left; changes nothing."""
        return self._root if oldest == self._root.oldest else self._without(self._root, oldest)

    def commit(self, root: Root[S]) -> None:
        """Go on from a root with fewer leaves: one that `after_slide` has answered."""
        self._root = root
        self._total = HOLE
        self._pairs.release(root.oldest)

    def leaf(self, number: int) -> S:
        """The state of the leaf with this number, from `evicted` up to `position`."""
        return self._leaf(number, self._root.tails)

    def suffix(self, number: int) -> S | Hole:
        """The aggregate of the leaves from this number on; a hole when there are none."""
        root = self.without(number)
        return self.monoid.join(root.front, root.back)

    def roll(self, values: Iterable[V], policy: Policy) -> list[R]:
        """Insert each value, slide, and note the result: one result for each value."""
        return roll(self, values, policy)

    def leaves(self) -> Iterator[S]:
        """The states in the window, oldest first."""
        self._check_living()
        for number in range(self._root.oldest, self._root.next):
            yield self._leaf(number, self._root.tails)

    def forest(self) -> list[list[Pair[S]]]:
        """The pairs of each level as they stand, leaves first, evicted elements shown as holes.

        For pictures and tests; values on the left spine may be stale (digest §3.5).
        """
        self._check_living()
        levels = []
        for level, tail in enumerate(self._root.tails):
            first = self._root.oldest >> level
            last = self._tail_position(level)
            pairs = [self._pairs.read(level, position) for position in range(first >> 1, last)]
            pairs.append(tail)
            if first & 1:
                pairs[0] = (HOLE, pairs[0][1])
            levels.append(pairs)
        return levels

    def fork(self) -> Amta[V, S, R]:
        """A second window that goes on from here; neither disturbs the other. Copies O(log n)."""
        self._check_living()
        root = self._root.copy()
        fork = Amta(self.monoid, pairs=self._pairs.fork(root), root=root)
        fork._total = self._total
        return fork

    def drop(self) -> None:
        """Give up this window and what only it needs; its forks and its base live on."""
        self._check_living()
        self._pairs.drop()
        self._dropped = True
        self._total = HOLE

    def checkpoint(self) -> None:
        """Make the window durable as it is now, if its pairs lie where they can outlive it."""
        self._check_living()
        self._pairs.checkpoint(self._root)

    def _check_living(self) -> None:
        if self._dropped:
            raise WindowDroppedError("this window was dropped; go on with its base or a fork")

    def _part(self, size: int, older: Operand[S], newer: Operand[S] = HOLE) -> Part:
        return Part(self.monoid, size, older, newer)

    def _parts(
        self,
        cut: int,
        gone: tuple[Operand[S], Operand[S]],
        left: tuple[Operand[S], Operand[S]],
    ) -> tuple[Part, Part]:
        """What would be gone from the window and what be left if its oldest leaf were `cut`."""
        root = self._root
        return self._part(cut - root.oldest, *gone), self._part(root.next - cut, *left)

    def _tail_position(self, level: int) -> int:
        position = (self._root.next - 1) >> 1
        for _ in range(level):
            position = (position - 1) >> 1
        return position

    def _leaf(self, number: int, tails: list[Pair[S]]) -> S:
        # All level-0 pairs but the tail are interior; the newest leaf decides which is the tail.
        pair = (
            tails[0]
            if number >> 1 == (self._root.next - 1) >> 1
            else self._pairs.read(0, number >> 1)
        )
        state = pair[number & 1]
        assert state is not HOLE
        return state

    def _left(self, oldest: int, tails: list[Pair[S]]) -> tuple[S | Hole, list[S]]:
        """The leftmost tree's aggregate and stack, from its oldest leaf and its root pair."""
        top = len(tails) - 1
        stack: list[S] = []
        rest: S | Hole = HOLE
        last = tails[top][1]
        if last is not HOLE and not oldest >> top & 1:
            rest = last
            stack.append(last)
        for level in range(top - 1, -1, -1):
            if not oldest >> level & 1:
                rest = self._suffix(level, oldest, rest)
                stack.append(rest)
        pair = tails[0] if top == 0 else self._pairs.read(0, oldest >> 1)
        return self.monoid.join(pair[oldest & 1], rest), stack

    def _suffix(self, level: int, oldest: int, rest: S | Hole) -> S:
        """A stack entry: what follows the head element of a level whose head pair is full."""
        suffix = self.monoid.join(self._pairs.read(level, oldest >> level + 1)[1], rest)
        assert suffix is not HOLE
        return suffix

    def _right(self, tails: list[Pair[S]]) -> S | Hole:
        """The aggregate of the trees that these pairs root."""
        join = self.monoid.join
        back: S | Hole = HOLE
        for older, newer in tails:
            back = join(join(older, newer), back)
        return back

    def _without(self, root: Root[S], oldest: int) -> Root[S]:
        """The root after all leaves before `oldest` have left."""
        if oldest == root.next:
            return Root(oldest=oldest, next=oldest, end=oldest)
        if oldest >= root.end:
            tails, end = list(root.tails), root.end
            while oldest >= end:
                tails.pop()
                end += _leaves(tails)
            front, stack = self._left(oldest, tails)
            return Root(oldest, root.next, tails, end, stack, front, self._right(tails[:-1]))
        # Levels below `changed` get another head element; their stack entries go.
        changed = (oldest ^ root.oldest).bit_length()
        kept = len(root.stack) - _zero_bits(root.oldest, changed)
        passed, stack = root.stack[kept], root.stack[:kept]
        rest: S | Hole = stack[-1] if stack else HOLE
        for level in range(changed - 2, -1, -1):
            if not oldest >> level & 1:
                rest = self._suffix(level, oldest, rest)
                stack.append(rest)
        whole = not _low_bits(oldest, changed - 1)
        front = passed if whole else self.monoid.join(self._leaf(oldest, root.tails), rest)
        return Root(oldest, root.next, root.tails, root.end, stack, front, root.back)

    def _search(self, policy: Policy) -> Root[S]:
        """The root after the longest prefix has left that the policy says must go (digest §3.7).

        Climbs the left spine while the head element of a level must go, then tries whole trees,
        then descends into the one element where the cut must be.
        """
        monoid, root = self.monoid, self._root
        join, tails, back = monoid.join, root.tails, root.back
        start, top = root.oldest, len(root.tails) - 1
        most = len(self) - policy.keep_newest
        before = self._part(len(self), root.front, back)

        def due(candidate: Part, after: Part) -> bool:
            return candidate.size <= most and policy.must_go(candidate, after, before)

        kept = len(root.stack)
        level_cut = -1
        gone: S | Hole = HOLE
        spine: S | Hole = self._leaf(start, tails)
        for level in range(top + 1):
            full = tails[top][1] is not HOLE if level == top else True
            if start >> level & 1 or not full:
                continue
            if level_cut >= 0:
                spine = join(gone, self._pairs.read(level_cut, start >> level_cut + 1)[1])
            cut = _after(start, level)
            if not due(*self._parts(cut, (spine, HOLE), (root.stack[kept - 1], back))):
                break
            gone, level_cut, kept = spine, level, kept - 1
        else:
            if due(*self._parts(root.end, (root.front, HOLE), (back, HOLE))):
                return self._search_trees(due)
        if level_cut < 0:
            return root
        return self._descend(
            due,
            Root(
                _after(start, level_cut), root.next, tails, root.end, root.stack[:kept], back=back
            ),
            level_cut,
            gone,
            whole=root.stack[kept],
        )

    def _search_trees(self, due: Due) -> Root[S]:
        """The rest of `_search` once the leftmost tree must go altogether."""
        join, root = self.monoid.join, self._root
        trees = [join(*pair) for pair in root.tails[:-1]]
        rests: list[S | Hole] = [HOLE]
        for tree in trees:
            rests.append(join(tree, rests[-1]))
        tails = root.tails[:-1]
        gone: Operand[S] = root.front
        oldest = root.end
        while tails:
            end = oldest + _leaves(tails)
            tree, back = trees[len(tails) - 1], rests[len(tails) - 1]
            candidate, after = self._parts(end, (gone, tree), (back, HOLE))
            if not due(candidate, after):
                break
            gone, oldest = candidate, end
            tails = tails[:-1]
        else:
            return Root(oldest=root.next, next=root.next, end=root.next)
        found = Root(oldest, root.next, tails, end, back=back)
        level = len(tails) - 1
        older, newer = tails[-1]
        if newer is not HOLE:
            cut = _after(oldest, level)
            candidate, after = self._parts(cut, (gone, older), (newer, back))
            if due(candidate, after):
                gone, found.oldest = candidate, cut
            else:
                found.stack.append(newer)
        return self._descend(due, found, level, gone)

    def _descend(
        self, due: Due, root: Root[S], level: int, gone: Operand[S], whole: S | Hole = HOLE
    ) -> Root[S]:
        """Cut inside the element of `level` that starts at `root.oldest`; complete and return root.

        `gone` is the aggregate of what precedes it, `whole`, if at hand, that of its whole tree
        from there on.
        """
        join = self.monoid.join
        first = root.oldest
        rest: S | Hole = root.stack[-1] if root.stack else HOLE
        behind = self._part(root.next - first - (1 << level), rest, root.back)
        for below in range(level - 1, -1, -1):
            older, newer = self._pairs.read(below, root.oldest >> below + 1)
            cut = root.oldest + (1 << below)
            candidate, after = self._parts(cut, (gone, older), (newer, behind))
            if due(candidate, after):
                gone, root.oldest = candidate, cut
            else:
                rest = join(newer, rest)
                assert rest is not HOLE
                root.stack.append(rest)
                behind = after
        if root.oldest == first and whole is not HOLE:
            root.front = whole
        else:
            root.front = join(self._leaf(root.oldest, root.tails), rest)
        return root


def _after(number: int, level: int) -> int:
    """The first leaf after the element of `level` that holds leaf `number`."""
    return ((number >> level) + 1) << level


def _leaves(tails: list[Pair[S]]) -> int:
    """How many leaves the tree of the last tail holds when none of them has been evicted."""
    return (1 if tails[-1][1] is HOLE else 2) << len(tails) - 1


def _low_bits(number: int, count: int) -> int:
    return number & (1 << count) - 1


def _zero_bits(number: int, count: int) -> int:
    return count - _low_bits(number, count).bit_count()
