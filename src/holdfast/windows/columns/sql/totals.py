"""Sums, averages and variances as SQL has them, fast over long stretches.

Used by the aggregates of windows on Spark. Sums of integers and decimals are whole and exact, of
any size. For floats these are `arithmetic`'s, with the same states: only the reduction of a stretch
is another one, a few passes over all rows instead of pairwise combines, and a variance sees the
infinities.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from holdfast.windows.columns import arithmetic
from holdfast.windows.columns.core import Column, Columns, State, addend_at
from holdfast.windows.columns.values import INT64, as_objects, narrow
from holdfast.windows.monoid import Addend

__all__ = [
    "FLOAT_MEAN",
    "FLOAT_SUM",
    "STDDEV",
    "STDDEV_POPULATION",
    "VARIANCE",
    "VARIANCE_POPULATION",
    "WHOLE_SUM",
    "whole_mean",
]

LARGEST: Final = 2.0**1000
"""Beyond it the splitter of a stretch might overflow."""


# Whole numbers: int64, and Python ints where that would overflow


def _lift_whole(values: Column) -> State:
    return (values,)


def _add_whole(older: Column, newer: Column) -> Column:
    if older.dtype == object or newer.dtype == object:
        return narrow(as_objects(older) + as_objects(newer))
    total: Column = older + newer
    if (((older ^ total) & (newer ^ total)) < 0).any():
        return as_objects(older) + as_objects(newer)
    return total


def _reduce_whole(values: Column, starts: Column) -> Column:
    if values.dtype == object:
        return narrow(np.add.reduceat(values, starts))
    longest = int(np.diff(starts, append=len(values)).max())
    if longest * max(int(values.max()), -int(values.min())) <= INT64.max:
        return np.add.reduceat(values, starts)
    upper = np.add.reduceat(values >> 32, starts)
    lower = np.add.reduceat(values & 0xFFFFFFFF, starts)
    return narrow(as_objects(upper) * 2**32 + as_objects(lower))


def _align_whole(older: State, newer: State) -> tuple[State, State]:
    # The counts of a mean, too: they are whole like any other field.
    return tuple(map(as_objects, older)), tuple(map(as_objects, newer))


def _add_wholes(older: State, newer: State) -> State:
    return tuple([_add_whole(a, b) for a, b in zip(older, newer, strict=True)])


def _reduce_wholes(state: State, starts: Column) -> State:
    return tuple([_reduce_whole(field, starts) for field in state])


def _lower_whole(state: State) -> Column:
    return narrow(state[0]) if state[0].dtype == object else state[0].copy()


WHOLE_SUM: Final = Columns(
    "whole sum",
    lift=_lift_whole,
    combine=_add_wholes,
    lower=_lower_whole,
    align=_align_whole,
    reduce=_reduce_wholes,
    addends={"sum": Addend(partial(addend_at, 0))},
)
"""Totals of int64 or Python ints; those that do not fit into int64 are answered as Python ints."""


def whole_mean(scale: int) -> Columns:
    """The average of whole numbers times `scale`, rounded half away from zero to a whole number."""
    return replace(
        WHOLE_SUM,
        name=f"whole mean({scale})",
        lift=_lift_mean,
        lower=partial(_lower_mean, scale),
        addends={
            "sum": Addend(partial(addend_at, 0), of_quotient=True),
            "count": Addend(partial(addend_at, 1), of_quotient=True, signed=False),
        },
    )


def _lift_mean(values: Column) -> State:
    return values, np.ones(len(values), np.int64)


def _lower_mean(scale: int, state: State) -> Column:
    total, n = state
    if not _fits(total, 2 * scale, n):
        total, n = as_objects(total), as_objects(n)
    means: Column = np.sign(total) * ((2 * scale * np.abs(total) + n) // (2 * n))
    return narrow(means) if means.dtype == object else means


def _fits(total: Column, factor: int, n: Column) -> bool:
    """Whether the numerators of a mean fit into int64."""
    if total.dtype == object or n.dtype == object or not len(total):
        return False
    greatest = max(int(total.max()), -int(total.min()))
    return factor * greatest + int(n.max()) <= INT64.max


# Floats


def _sum_stretches(high: Column, low: Column, starts: Column) -> State:
    """The sum of each stretch of `high + low`, as a float and what it lacks.

    Rump, Ogita and Oishi's extraction of leading parts: adding and taking away a power of two above
    the sum of a stretch cuts every value at the same bit. The sum of the leading parts is exact,
    and what is cut off is small.
    """
    lengths = np.diff(starts, append=len(high))
    with np.errstate(over="ignore", invalid="ignore"):
        bound = np.maximum.reduceat(np.abs(high), starts) * lengths
        splitter = np.ldexp(1.0, np.frexp(np.minimum(bound, LARGEST))[1] + 1)
        # Infinities, NaN and sums close to overflow are added as they come.
        splitter[~(bound < LARGEST)] = 0.0
        cut = np.repeat(splitter, lengths)
        leading = high + cut
        leading -= cut
        total = np.add.reduceat(leading, starts)
        rest = np.subtract(high, leading, out=leading)
        rest += low
        return total, np.add.reduceat(rest, starts)


def _reduce_sum(state: State, starts: Column) -> State:
    high, low = state
    return _sum_stretches(high, low, starts)


def _reduce_mean(state: State, starts: Column) -> State:
    high, low, n = state
    return *_sum_stretches(high, low, starts), np.add.reduceat(n, starts)


FLOAT_SUM: Final = replace(arithmetic.SUM, name="float sum", reduce=_reduce_sum)
"""For columns of float64 only."""

FLOAT_MEAN: Final = replace(arithmetic.MEAN, name="float mean", reduce=_reduce_mean)


# Variances


def _lift_moments(values: Column) -> State:
    numbers = values.astype(np.float64, copy=False)
    with np.errstate(invalid="ignore"):
        # Not zeros: the variance of an infinity or of NaN is NaN.
        return np.ones(len(numbers), np.int64), numbers, numbers - numbers


def _reduce_moments(state: State, starts: Column) -> State:
    """Two passes: the mean, then the squares of what differs from it."""
    n, mean, m2 = state
    count = np.add.reduceat(n, starts)
    lengths = np.diff(starts, append=len(n))
    with np.errstate(over="ignore", invalid="ignore"):
        centre = np.add.reduceat(mean * n, starts) / count
        delta = mean - np.repeat(centre, lengths)
        weighted = delta * n
        # What rounding has left of the differences, nought if the centre were exact.
        drift = np.add.reduceat(weighted, starts) / count
        weighted *= delta
        weighted += m2
        spread = np.add.reduceat(weighted, starts) - drift * drift * count
    return count, centre + drift, np.maximum(spread, 0.0)


def _variance(columns: Columns) -> Columns:
    return replace(columns, lift=_lift_moments, reduce=_reduce_moments)


VARIANCE: Final = _variance(arithmetic.VARIANCE)
VARIANCE_POPULATION: Final = _variance(arithmetic.VARIANCE_POPULATION)
STDDEV: Final = _variance(arithmetic.STDDEV)
STDDEV_POPULATION: Final = _variance(arithmetic.STDDEV_POPULATION)
