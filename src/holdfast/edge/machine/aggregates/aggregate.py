"""Aggregates of the edge: partials of the events of a slot.

A partial aggregate is plain data (numbers, tuples, bytes) that is never changed in place. `add`
takes values in the order of their offsets, and how they are cut into frames does not change a bit:
add(add(p, a), b) == add(p, concatenate(a, b)). So the partial of a slot is decided by its offset,
whoever calculated it. `combine` is for partials of different slots: of the same arguments in the
same order it is the same to the bit, but sums, variances and quantiles of another order may differ
in their last digits. Whoever combines therefore does so in sorted order.

| kind      | partial                               | answer                                      |
|-----------|---------------------------------------|---------------------------------------------|
| count     | n                                     | n                                           |
| sum, mean | n, sum in twice a float's precision   | the sum, the mean                           |
| min, max, range | least, greatest                 | one of them, or the distance                |
| variance  | n, first value, distances from it and | the sample variance; None of one value      |
|           | their squares, in twice the precision |                                             |
| top_k     | the k greatest                        | a list of them, the greatest first          |
| distinct  | HyperLogLog registers                 | about how many values differ                |
| quantiles | t-digest and a block that waits       | a list, one value for each share            |

Of nothing every answer is None. Infinities are values like others; NaN is none: a sensor refuses it
(`numbers` tells which values are good) and counts it, and `add` raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from holdfast.edge.machine.aggregates import distinct as registers
from holdfast.edge.machine.aggregates import extremes, totals
from holdfast.edge.machine.aggregates import quantiles as digests
from holdfast.errors import InvalidArgumentError, InvalidValueError

Floats = NDArray[np.float64]
Partial = Any
"""Plain data that goes through msgpack; what is in it is the aggregate's own affair."""
Key = Any
"""A string, a bool, an integer of 64 bits or a float that is a number."""
KeyedPartial = dict[Key, Partial]

LONGEST_KEY: Final = 256
"""Bytes of a string in UTF-8."""
FEW: Final = 24
"""Up to so many values Python's own floats are faster than arrays; the bits are the same."""

# fmt: off
KINDS: Final = (
    "count", "sum", "mean", "min", "max", "range", "variance", "top_k", "distinct", "quantiles",
)
# fmt: on


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One kind of aggregate with its options; made by `aggregate`."""

    kind: str
    options: tuple[tuple[str, Any], ...]
    _empty: Partial = field(compare=False, repr=False)
    _add: Callable[[Any, Floats], Partial] = field(compare=False, repr=False)
    _add_few: Callable[[Any, list[float]], Partial] | None = field(compare=False, repr=False)
    _combine: Callable[[Any, Any], Partial] = field(compare=False, repr=False)
    _answer: Callable[[Any], Any] = field(compare=False, repr=False)

    def empty(self) -> Partial:
        """The partial of no value."""
        return self._empty

    def add(self, partial: Partial, values: Floats) -> Partial:
        """The partial with these values added in their order."""
        values = self._check(values)
        if self._add_few is not None and len(values) <= FEW:
            return self._add_few(partial, values.tolist())
        return self._add(partial, values)

    def combine(self, older: Partial, newer: Partial) -> Partial:
        """The partial of two slots, or of two partitions, or of two panes."""
        return self._combine(older, newer)

    def combine_all(self, partials: Iterable[Partial]) -> Partial:
        """One partial of many, from left to right."""
        whole = self._empty
        for one in partials:
            whole = self._combine(whole, one)
        return whole

    def answer(self, partial: Partial) -> Any:
        """What a user wants to know; None of nothing."""
        return self._answer(partial)

    def add_keyed(
        self, partial: Mapping[Key, Partial], keys: Sequence[Key] | NDArray[Any], values: Floats
    ) -> KeyedPartial:
        """For each key the partial of its own values. The argument stays as it is."""
        values = self._check(values)
        names = keys.tolist() if isinstance(keys, np.ndarray) else keys
        if len(names) != len(values):
            raise InvalidArgumentError(
                f"{self.kind}: {len(names)} keys for {len(values)} values; give one key for each"
            )
        groups: dict[Key, list[float]] = {}
        for name, value in zip(names, values.tolist(), strict=True):
            group = groups.get(name)
            if group is None:
                groups[name] = [value]
            else:
                group.append(value)
        added = dict(partial)
        for name, group in groups.items():
            before = added.get(name, self._empty)
            if self._add_few is not None and len(group) <= FEW:
                added[name] = self._add_few(before, group)
            else:
                added[name] = self._add(before, np.array(group))
        return added

    def combine_keyed(
        self, older: Mapping[Key, Partial], newer: Mapping[Key, Partial]
    ) -> KeyedPartial:
        """The keys of both."""
        both = dict(older)
        for name, one in newer.items():
            both[name] = self._combine(both[name], one) if name in both else one
        return both

    def answer_keyed(self, partial: Mapping[Key, Partial]) -> dict[Key, Any]:
        return {name: self._answer(one) for name, one in partial.items()}

    def _check(self, values: Floats) -> Floats:
        values = np.ascontiguousarray(values, np.float64)
        if np.isnan(values).any():
            raise InvalidValueError(
                f"{self.kind}: NaN among the values; a sensor leaves out what "
                "holdfast.edge.machine.aggregates.numbers calls no number"
            )
        return values


def decode_partial(data: Any) -> Partial:
    """A partial of any kind as it was before it was sent: msgpack has lists where tuples were."""
    if isinstance(data, list):
        return tuple(data)
    if isinstance(data, dict):
        return {key: decode_partial(one) for key, one in data.items()}
    return data


def numbers(values: Floats) -> NDArray[np.bool_]:
    """Which of the values are numbers that may be aggregated: all but NaN."""
    return ~np.isnan(values)


def are_plain(keys: Sequence[Any] | NDArray[Any]) -> bool:
    """Whether all keys are there, and are short strings of ASCII: what is quickly seen."""
    try:
        return "".join(keys).isascii() and max(map(len, keys), default=0) <= LONGEST_KEY
    except TypeError:
        return False


def invalid_keys(keys: Sequence[Any] | NDArray[Any]) -> NDArray[np.bool_] | None:
    """Mark the events whose key no query can group by; None if there are none. An event without a
    key, None, is not one of them."""
    if are_plain(keys) or (set(map(type, keys)) <= _KEY_TYPES and all(map(_is_key, set(keys)))):
        return None
    found = (not _is_key(key) for key in keys)
    return np.fromiter(found, np.bool_, len(keys))


def _is_key(key: Any) -> bool:
    if isinstance(key, str):
        try:
            return len(key) <= LONGEST_KEY and len(key.encode()) <= LONGEST_KEY
        except UnicodeEncodeError:
            return False
    if isinstance(key, int):
        return -(2**63) <= key < 2**63
    return key is None or (isinstance(key, float) and key == key)


_KEY_TYPES: Final = {str, int, float, bool, type(None)}


def aggregate(
    kind: str,
    *,
    k: int | None = None,
    lg_k: int | None = None,
    shares: Sequence[float] | None = None,
) -> Aggregate:
    """The aggregate of that kind.

    top_k: `k` greatest values, 10 unless told. distinct: 2^`lg_k` registers, 12 unless told.
    quantiles: `shares` from 0 to 1, the median unless told; `k` sets the accuracy as in
    `monoids.approx_quantiles`, 200 unless told.
    """
    given = {"k": k, "lg_k": lg_k, "shares": shares}
    if kind not in KINDS:
        raise InvalidArgumentError(f"aggregate: no kind {kind!r}; there are {', '.join(KINDS)}")
    for name, value in given.items():
        if value is not None and name not in _OPTIONS.get(kind, ()):
            raise InvalidArgumentError(f"{kind}: has no option {name}; leave it out")
    if kind == "top_k":
        return _top_k(10 if k is None else k)
    if kind == "distinct":
        return _distinct(12 if lg_k is None else lg_k)
    if kind == "quantiles":
        return _quantiles((0.5,) if shares is None else shares, 200 if k is None else k)
    return _PLAIN[kind]


_OPTIONS: Final = {"top_k": ("k",), "distinct": ("lg_k",), "quantiles": ("k", "shares")}


def _count_many(n: int, values: Floats) -> int:
    return n + len(values)


def _count_few(n: int, values: list[float]) -> int:
    return n + len(values)


def _add_counts(older: int, newer: int) -> int:
    return older + newer


def _read_count(n: int) -> int | None:
    return n or None


def _of_totals(kind: str, answer: Callable[[totals.Total], float | None]) -> Aggregate:
    return Aggregate(
        kind, (), totals.NOTHING, totals.add_many, totals.add_few, totals.combine, answer
    )


def _of_extremes(kind: str, answer: Callable[[extremes.Extremes], float | None]) -> Aggregate:
    return Aggregate(
        kind,
        (),
        None,
        extremes.add_many_extremes,
        extremes.add_few_extremes,
        extremes.combine_extremes,
        answer,
    )


_PLAIN: Final = {
    one.kind: one
    for one in (
        Aggregate("count", (), 0, _count_many, _count_few, _add_counts, _read_count),
        _of_totals("sum", totals.read_sum),
        _of_totals("mean", totals.read_mean),
        _of_extremes("min", extremes.read_minimum),
        _of_extremes("max", extremes.read_maximum),
        _of_extremes("range", extremes.read_range),
        Aggregate(
            "variance",
            (),
            totals.NO_MOMENTS,
            totals.add_many_moments,
            totals.add_few_moments,
            totals.combine_moments,
            totals.read_variance,
        ),
    )
}


def _top_k(k: int) -> Aggregate:
    _check_int("top_k", "k", k, 1, 1_000_000)
    return Aggregate(
        "top_k",
        (("k", k),),
        (),
        partial(extremes.add_many_greatest, k=k),
        partial(extremes.add_top, k=k),
        partial(extremes.combine_top, k=k),
        extremes.read_top,
    )


def _distinct(lg_k: int) -> Aggregate:
    _check_int("distinct", "lg_k", lg_k, 4, 21)
    return Aggregate(
        "distinct",
        (("lg_k", lg_k),),
        registers.EMPTY,
        partial(registers.add, lg_k=lg_k),
        None,
        partial(registers.combine, lg_k=lg_k),
        partial(registers.estimate, lg_k=lg_k),
    )


def _quantiles(shares: Sequence[float], k: int) -> Aggregate:
    _check_int("quantiles", "k", k, 10, 65535)
    wanted = tuple(shares)
    if not wanted or not all(0 <= share <= 1 for share in wanted):
        raise InvalidArgumentError(
            f"quantiles: shares is {shares!r}; give numbers from 0 to 1, as in [0.5, 0.99]"
        )
    return Aggregate(
        "quantiles",
        (("k", k), ("shares", wanted)),
        digests.EMPTY,
        partial(digests.add, k=k),
        None,
        partial(digests.combine, k=k),
        partial(digests.read, shares=wanted, k=k),
    )


def _check_int(kind: str, name: str, value: int, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidArgumentError(
            f"{kind}: {name} is {value!r}; give an int from {least} to {most}"
        )
