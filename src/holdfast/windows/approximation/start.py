"""The place where the exact window begins, as far as buckets prove it.

Used by `window`, which certifies an answer only if the exact window is proven to begin inside one
of the two buckets at its old end. Places are counted from the beginning of the approximate window:
below zero the exact window has updates that have left here, above zero it lacks some that are here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from holdfast.windows.monoid import Monoid
from holdfast.windows.policies import Part, Policy

__all__ = ["Start", "estimated_cut", "sized_cut"]


class Start(NamedTuple):
    """Proven bounds: the exact window begins from `low` to `high`, both included."""

    low: int = 0
    high: int = 0

    @property
    def known(self) -> int | None:
        """The one place that is possible, if there is just one."""
        return self.low if self.low == self.high else None

    def at_least(self, low: int, high: int) -> Start:
        """The bounds after a slide that cuts between `low` and `high`, wherever a window begins."""
        return Start(max(self.low, low), max(self.high, high))

    def plus(self, count: int, size: int) -> Start:
        """The bounds after so many more have left, of `size` that are in the approximate window."""
        return Start(min(self.low + count, size), min(self.high + count, size))

    def seen_after(self, gone: int) -> Start:
        """The same place once so many updates have left the approximate window."""
        return Start(self.low - gone, self.high - gone)


class _NotKnownError(BaseException):
    """A policy asked for what buckets cannot tell. Not an Exception: predicates may catch those."""


class _Sized(Part):
    """A stretch of which the size alone is known."""

    __slots__ = ("_asked",)

    def __init__(self, size: int, asked: list[bool]) -> None:
        self.size = size
        self._asked = asked

    @property
    def value(self) -> Any:
        self._asked.append(True)
        raise _NotKnownError

    def state(self) -> Any:
        return self.value

    def __repr__(self) -> str:
        return str(self.value)


def sized_cut(policy: Policy, start: int, size: int) -> int | None:
    """The cut of an exact window that begins at `start` and ends at `size`; None if the policy
    looks at more than sizes. Asks it O(log n) times."""
    most = size - policy.keep_newest
    if start >= most:
        return start
    asked: list[bool] = []
    before = _Sized(size - start, asked)

    def due(cut: int) -> bool:
        return policy.must_go(_Sized(cut - start, asked), _Sized(size - cut, asked), before)

    try:
        found, step = start, 1
        while found + step <= most and due(found + step):
            found += step
            step *= 2
        found += _longest(step - 1, lambda more: found + more <= most and due(found + more))
        if found < most and policy.breaks(_Sized(size - found, asked)):
            found += 1
    except _NotKnownError:
        return None
    return None if asked else found


def _longest(most: int, due: Callable[[int], bool]) -> int:
    """The greatest number up to `most` for which `due` is true; it is once false, then for ever."""
    low = 0
    while low < most:
        middle = (low + most + 1) // 2
        if due(middle):
            low = middle
        else:
            most = middle - 1
    return low


class _Share(Part):
    """An estimate of a stretch that ends inside a bucket: a share of what adds up, sizes included,
    and all of the rest, as if the bucket were whole."""

    __slots__ = ("_bare", "_share")

    def __init__(
        self, monoid: Monoid[Any, Any, Any], size: int, whole: Part, bare: Part, share: float
    ) -> None:
        super().__init__(monoid, size, whole)
        self._bare = bare
        self._share = share

    @property
    def value(self) -> Any:
        whole, bare = super().value, self._bare.value
        names = [name for name, addend in self._monoid.addends.items() if not addend.of_quotient]
        if hasattr(whole, "keys"):
            return _SharedRecord(whole, bare, names, self._share)
        return _between(bare, whole, self._share) if len(names) == 1 else whole


class _SharedRecord:
    """The record of a `_Share`."""

    def __init__(self, whole: Any, bare: Any, names: list[str], share: float) -> None:
        self._whole = whole
        self._bare = bare
        self._names = names
        self._share = share

    def __getitem__(self, name: str) -> Any:
        if name in self._names:
            return _between(self._bare[name], self._whole[name], self._share)
        return self._whole[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._whole:
            raise AttributeError(f"this record has no field {name!r}")
        return self[name]

    def keys(self) -> Any:
        return self._whole.keys()


def _between(bare: Any, whole: Any, share: float) -> Any:
    try:
        return bare + (whole - bare) * share
    except (TypeError, OverflowError):
        return whole


def estimated_cut(
    policy: Policy,
    monoid: Monoid[Any, Any, Any],
    gone: Part,
    bucket: Part,
    rest: Part,
    before: Part,
) -> int:
    """How many updates of `bucket` a slide would let go together with `gone`, by an estimate: as if
    its updates were alike in what adds up. No proof; it keeps a window near the exact one. `rest`
    must not be empty."""
    size = bucket.size
    with_bucket = Part(monoid, gone.size + size, gone, bucket)
    all_left = Part(monoid, rest.size + size, bucket, rest)

    def due(count: int) -> bool:
        share = count / size
        candidate = _Share(monoid, gone.size + count, with_bucket, gone, share)
        after = _Share(monoid, rest.size + size - count, rest, all_left, share)
        return policy.must_go(candidate, after, before)

    try:
        return _longest(size - 1, due)
    except Exception:
        # What fails of real parts has failed before; an estimate is not worth an error.
        return 0
