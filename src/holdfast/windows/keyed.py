"""Many scalar windows, one for each key, that lie on shelves between batches.

The operator of programmable windows on Spark opens them at the start of a batch and saves them at
its end. A key costs something only in batches that have updates for it: then its root is read and
written, O(log n) states, and of its interior pairs those that its slides touch.

On the shelf of parts lie `meta`, the roots under the hash of their key, and, if keys may idle away,
lists of the keys that were last seen in each span of time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Any, Final, Generic, TypeVar

from holdfast.errors import InvalidArgumentError, TimeOrderError
from holdfast.windows.amta import Amta
from holdfast.windows.approximation.methods import MaxLeaves, Method, only
from holdfast.windows.approximation.window import ApproximateWindow
from holdfast.windows.monoid import Hole, Monoid
from holdfast.windows.pairs import Root
from holdfast.windows.policies import Policy, check_policy
from holdfast.windows.shard.saved import SignatureError
from holdfast.windows.shard.shelves import Shelf, ShelvedPairs
from holdfast.windows.values import to_integer
from holdfast.windows.window import check_monoid

__all__ = ["KeyedWindows", "Rolled", "roll_timed"]

V = TypeVar("V")
S = TypeVar("S")
R = TypeVar("R")

AnyWindow = Amta[V, S, R] | ApproximateWindow[V, S, R]

FORMAT: Final = 2


@dataclass(slots=True)
class Rolled(Generic[S]):
    """What a window answers to some updates."""

    states: list[S | Hole]
    """The state of the window after each of them."""
    certain: list[bool | None]
    """True where that is proven to be within the bound on its error, None where nothing is known;
    of an exact window nothing is noted."""


def roll_timed(
    window: AnyWindow[V, S, R],
    policy: Policy,
    idle: int | None,
    last: int | None,
    times: Sequence[int],
    updates: Iterable[V],
) -> Rolled[S]:
    """Insert each update and slide.

    `last` is the time of the update before. After a gap of more than `idle` the window starts anew:
    what is answered depends on the updates and their times alone.
    """
    states: list[S | Hole] = []
    certain: list[bool | None] = []
    approximate = isinstance(window, ApproximateWindow)
    for time, update in zip(times, updates, strict=True):
        if last is not None:
            if time < last:
                raise TimeOrderError(
                    f"times: {time} is before {last}, the newest in the window; sort the updates "
                    "by time, and leave the late ones out"
                )
            if idle is not None and time - last > idle:
                _restart(window)
        window.insert(update)
        window.slide(policy)
        states.append(window.aggregate())
        if approximate:
            certain.append(window.guarantee().holds)  # type: ignore[union-attr]
        last = time
    return Rolled(states, certain)


def _restart(window: AnyWindow[V, S, R]) -> None:
    if isinstance(window, ApproximateWindow):
        window.restart()
    else:
        window.evict(len(window))


@dataclass(slots=True)
class _Keyed(Generic[S]):
    """The window of one key while a batch runs."""

    number: int
    """What its pairs lie under; never given to another key."""
    last: int | None
    """The time of its newest update."""
    pairs: ShelvedPairs[S]
    window: AnyWindow[Any, S, Any]

    @property
    def amta(self) -> Amta[Any, Any, Any]:
        window = self.window
        return window.amta if isinstance(window, ApproximateWindow) else window


@dataclass(frozen=True)
class _KeyShelf:
    """The shelf of pairs as the window of one key sees it."""

    shelf: Shelf
    number: int

    def read(self, name: Any, number: int) -> Any:
        return self.shelf.read((self.number, name), number)

    def write(self, name: Any, number: int, record: Any) -> None:
        self.shelf.write((self.number, name), number, record)

    def delete(self, name: Any, number: int) -> None:
        self.shelf.delete((self.number, name), number)


class KeyedWindows(Generic[V, S, R]):
    """Windows by key, over updates that come in the order of time.

    `signature` says all that the saved state depends on. Keys are plain values of which equal ones
    look equal (`ascii`). `pairs` is read and written under ((number of the key, level), position).
    `idle`: after how long without updates a key is forgotten, None for never. `approximate`: the
    methods of approximate windows.
    """

    def __init__(
        self,
        monoid: Monoid[V, S, R],
        policy: Policy,
        signature: str,
        parts: Shelf,
        pairs: Shelf,
        *,
        idle: int | None = None,
        approximate: Sequence[Method] = (),
    ) -> None:
        check_monoid(monoid)
        check_policy(policy)
        self.monoid = replace(monoid, combine=self._counted(monoid))
        self.policy = policy
        self.signature = signature
        self.idle = _check_idle(idle)
        self.approximate = tuple(approximate)
        self.version = 0
        """How often they were saved."""
        self.watermark: int | None = None
        """Updates up to this time have come and are no longer waited for."""
        self.keys = 0
        self.held = 0
        """How many leaves there are in all windows together."""
        self.combines = 0
        """How many there were since they were opened."""
        self._parts = parts
        self._pairs = pairs
        self._next_number = 0
        self._seen_lists: dict[int, int] = {}
        """For each span of time in which keys were last seen, how many lists of them there are."""
        self._newly_seen: dict[int, list[Hashable]] = {}
        self._opened: dict[int, dict[Hashable, _Keyed[S]]] = {}
        """By the hash of their keys: the windows that this batch has touched."""
        meta = parts.read("meta", 0)
        if meta is not None:
            self._load(meta)

    def roll(self, key: Hashable, times: Sequence[int], updates: Iterable[V]) -> Rolled[S]:
        """Insert each update and slide; answers what the key's window does after each.

        Times must not go back, also not behind those of earlier calls for this key.
        """
        keyed = self._open(key)
        before = len(keyed.amta)
        rolled = roll_timed(keyed.window, self.policy, self.idle, keyed.last, times, updates)
        self.held += len(keyed.amta) - before
        if times:
            self._note_seen(key, keyed.last, times[-1])
            keyed.last = times[-1]
        return rolled

    def advance(self, watermark: int) -> None:
        """From now on updates come after `watermark` only: keys that have idled away are forgotten.

        Without this, too, their next update would start a new window.
        """
        if self.watermark is not None and watermark < self.watermark:
            raise TimeOrderError(
                f"advance: {watermark} is before the watermark, which is {self.watermark} already"
            )
        self.watermark = watermark
        if self.idle is None:
            return
        for span in [span for span in self._seen_lists if self._end(span) <= watermark]:
            for number in range(self._seen_lists.pop(span)):
                for key in self._parts.read(_seen_in(span), number):
                    self._forget(key, span)
                self._parts.delete(_seen_in(span), number)
        for span in [span for span in self._newly_seen if self._end(span) <= watermark]:
            for key in self._newly_seen.pop(span):
                self._forget(key, span)

    def next_end(self) -> int | None:
        """The watermark at which there are keys to forget; None while there are none."""
        spans = [*self._seen_lists, *self._newly_seen]
        return self._end(min(spans)) if spans else None

    def save(self) -> None:
        """Bring the shelves up to date; the windows are read again when they are needed."""
        for place, bucket in self._opened.items():
            records = []
            for key, keyed in bucket.items():
                keyed.pairs.save()
                records.append(_record(key, keyed))
            if records:
                self._parts.write("keys", place, records)
            else:
                self._parts.delete("keys", place)
        self._opened.clear()
        for span, keys in self._newly_seen.items():
            number = self._seen_lists.get(span, 0)
            self._parts.write(_seen_in(span), number, keys)
            self._seen_lists[span] = number + 1
        self._newly_seen.clear()
        self.version += 1
        self._parts.write("meta", 0, self._meta())

    # Keys

    def _open(self, key: Hashable) -> _Keyed[S]:
        bucket = self._bucket(key)
        keyed = bucket.get(key)
        if keyed is None:
            keyed = bucket[key] = self._make(self._next_number)
            self._next_number += 1
            self.keys += 1
        return keyed

    def _bucket(self, key: Hashable) -> dict[Hashable, _Keyed[S]]:
        """The windows of all keys with the hash of this one."""
        place = _place(key)
        bucket = self._opened.get(place)
        if bucket is None:
            records = self._parts.read("keys", place) or []
            bucket = {other: self._restore(*record) for other, *record in records}
            self._opened[place] = bucket
        return bucket

    def _make(self, number: int) -> _Keyed[S]:
        pairs: ShelvedPairs[Any] = ShelvedPairs(_KeyShelf(self._pairs, number))
        open_amta = partial(Amta, pairs=pairs)
        if not self.approximate:
            return _Keyed(number, None, pairs, open_amta(self.monoid))
        window = ApproximateWindow(self.monoid, self.approximate, open_amta=open_amta)
        return _Keyed(number, None, pairs, window)

    def _restore(
        self,
        number: int,
        last: int,
        pairs: tuple[int, int, int],
        root: tuple[Any, ...],
        approximate: tuple[Any, ...] | None,
    ) -> _Keyed[S]:
        oldest, following, tails, end, stack, front, back = root
        keyed = self._make(number)
        keyed.pairs.resume(*pairs)
        keyed.last = last
        keyed.amta.commit(Root(oldest, following, list(tails), end, list(stack), front, back))
        if isinstance(keyed.window, ApproximateWindow) and approximate is not None:
            keyed.window.restore(approximate)
            limit, before = only(MaxLeaves, self.approximate), len(keyed.amta)
            keyed.window.constrain(None if limit is None else limit.limit)
            self.held += len(keyed.amta) - before
        return keyed

    def _forget(self, key: Hashable, span: int) -> None:
        """Let go of a key, unless it has been seen after that span."""
        bucket = self._bucket(key)
        keyed = bucket.get(key)
        if keyed is None or keyed.last is None or self._span(keyed.last) != span:
            return
        self.held -= len(keyed.amta)
        self.keys -= 1
        keyed.window.evict(len(keyed.window))
        keyed.pairs.save()
        del bucket[key]

    # Time: keys are noted by the span, as long as `idle`, in which they were last seen

    def _span(self, time: int) -> int:
        assert self.idle is not None
        return time // self.idle

    def _end(self, span: int) -> int:
        """When every key last seen in a span has idled away."""
        assert self.idle is not None
        return (span + 2) * self.idle

    def _note_seen(self, key: Hashable, before: int | None, now: int) -> None:
        if self.idle is None:
            return
        span = self._span(now)
        if before is None or self._span(before) != span:
            self._newly_seen.setdefault(span, []).append(key)

    # Records

    def _meta(self) -> tuple[Any, ...]:
        return (
            FORMAT,
            self.signature,
            self.version,
            self.watermark,
            self._next_number,
            self.keys,
            self.held,
            dict(self._seen_lists),
        )

    def _load(self, meta: tuple[Any, ...]) -> None:
        if meta[0] != FORMAT:
            raise SignatureError(f"format {meta[0]}", f"format {FORMAT}")
        if meta[1] != self.signature:
            raise SignatureError(meta[1], self.signature)
        _, _, self.version, self.watermark, self._next_number, self.keys, self.held, seen = meta
        self._seen_lists = dict(seen)

    def _counted(self, monoid: Monoid[V, S, R]) -> Any:
        combine = monoid.combine

        def counted(older: S, newer: S) -> S:
            self.combines += 1
            return combine(older, newer)

        return counted


def _record(key: Hashable, keyed: _Keyed[S]) -> tuple[Any, ...]:
    root, pairs, window = keyed.amta.root, keyed.pairs, keyed.window
    # A shelf in memory keeps what it is given: later changes must not reach it.
    lists = list(root.tails), list(root.stack)
    kept = (root.oldest, root.next, lists[0], root.end, lists[1], root.front, root.back)
    places = pairs.swept, pairs.levels, pairs.lowest
    approximate = window.saved() if isinstance(window, ApproximateWindow) else None
    return key, keyed.number, keyed.last, places, kept, approximate


def _place(key: Hashable) -> int:
    """The hash of a key, the same in every process; 64 bits."""
    digest = blake2b(ascii(key).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def _seen_in(span: int) -> str:
    return f"seen {span}"


def _check_idle(idle: int | None) -> int | None:
    if idle is None:
        return None
    length = to_integer("idle", idle)
    if length < 1:
        raise InvalidArgumentError(f"idle: is {length}; give at least 1, or None for never")
    return length
