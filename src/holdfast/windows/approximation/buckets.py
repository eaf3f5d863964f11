"""Buckets: several updates as one leaf of a window, and how wrong that can make it.

`window` makes any monoid one of buckets. A window that should begin inside a bucket begins at
either end of it instead; what it then has too much or lacks is a proper prefix or suffix of the
bucket. So a bucket carries the extent of the sums over its proper prefixes, from which both follow
(digest §3.9a), and which two buckets side by side have in common again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.windows.monoid import Monoid

__all__ = ["Bucket", "Dimension", "bucket_error", "bucketed", "quotient_within"]

Extent = tuple[Any, Any] | None
"""The least and the greatest sum over a proper prefix; None of a single update, which has none."""
Bucket = tuple[int, Any, tuple[Extent, ...]]
"""How many updates, their state, and for each dimension the extent of its prefixes."""


@dataclass(frozen=True)
class Dimension:
    """Something that adds up over updates, with a bound on its error."""

    name: str
    read: Callable[[Bucket], Any]
    relative: float | None
    absolute: float
    quotient: float | None = None
    """For the former of two in a row of which the answer is the quotient: the bound on that."""


def bucketed(
    monoid: Monoid[Any, Any, Any], dimensions: Sequence[Dimension]
) -> Monoid[Any, Bucket, Any]:
    """The same monoid with buckets for states."""
    lift, join, lower = monoid.lift, monoid.combine, monoid.lower
    check = monoid.check_order
    none = (None,) * len(dimensions)
    reads = [dimension.read for dimension in dimensions]

    def combine(older: Bucket, newer: Bucket) -> Bucket:
        return (
            older[0] + newer[0],
            join(older[1], newer[1]),
            tuple(map(_extend, [read(older) for read in reads], older[2], newer[2])),
        )

    def combine_plain(older: Bucket, newer: Bucket) -> Bucket:
        return older[0] + newer[0], join(older[1], newer[1]), ()

    def check_order(newest: Bucket, incoming: Bucket) -> None:
        assert check is not None
        check(newest[1], incoming[1])

    return Monoid(
        monoid.name,
        identity=(0, monoid.identity, none),
        lift=lambda value: (1, lift(value), none),
        combine=combine if dimensions else combine_plain,
        lower=lambda bucket: lower(bucket[1]),
        check_order=None if check is None else check_order,
        parameters=", ".join(filter(None, [monoid.parameters, _describe(dimensions)])),
    )


def _describe(dimensions: Sequence[Dimension]) -> str:
    """What sets states apart that a store has, beside the monoid of the updates."""
    names = ", ".join(dimension.name for dimension in dimensions)
    return f"in buckets with the extent of {names}" if names else "in buckets"


def _extend(total: Any, older: Extent, newer: Extent) -> Extent:
    """The extent of two stretches together; `total` is the sum over the older one."""
    low = high = total
    if newer is not None:
        low, high = min(low, total + newer[0]), max(high, total + newer[1])
    if older is not None:
        low, high = min(low, older[0]), max(high, older[1])
    return low, high


def quotient_within(
    relative: float, above: Any, above_error: Any, below: Any, below_error: Any
) -> Any:
    """Whether a quotient of numbers that may be wrong by so much is within a relative bound.

    For numbers and for columns of them. What stands below must be sure to be above zero.
    """
    wrong = below * above_error + abs(above) * below_error
    sure = (below > below_error) | (below_error == 0)
    return sure & (wrong <= relative * below * (abs(above) - above_error))


def bucket_error(dimension: Dimension, place: int, bucket: Bucket) -> float:
    """How wrong a sum can be by a window that begins at the wrong end of this bucket.

    NaN where it cannot be told, which is not below any bound.
    """
    extent = bucket[2][place]
    if extent is None:
        return 0.0
    low, high = extent
    total = dimension.read(bucket)
    error: float = max(abs(total - low), abs(total - high), abs(low), abs(high))
    return error
