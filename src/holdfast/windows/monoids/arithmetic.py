"""Monoids that count, add and measure spread. `monoids` offers them to users."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Any, Final

from holdfast.errors import InvalidValueError
from holdfast.windows import columns
from holdfast.windows.monoid import Addend, Monoid, updates
from holdfast.windows.values import itself, to_float, to_number

__all__ = [
    "count",
    "geometric_mean",
    "mean",
    "stddev",
    "stddev_population",
    "sum",
    "variance",
    "variance_population",
]

Number = int | float
Total = tuple[Number, Number]
"""A sum as `high + low`: `low` collects what rounding took from `high` and is 0 for ints."""
Average = tuple[Number, Number, int]
"""A sum as above, and of how many values."""
Moments = tuple[int, float, float]
"""How many values, their mean, and the sum of the squared distances from it."""


def _one(_update: Any) -> int:
    return 1


def _lift_total(value: Any) -> Total:
    kind = type(value)
    return (value if kind is float or kind is int else to_number("sum", value), 0)


def _add(older: Total, newer: Total) -> Total:
    a, a_low = older
    b, b_low = newer
    if type(a) is not type(b):
        a, a_low = _split(a, a_low)
        b, b_low = _split(b, b_low)
    elif type(a) is int:
        return a + b, 0
    # Knuth's TwoSum: high + (what is added to low) is a + b exactly.
    high = a + b
    b_part = high - a
    low = a_low + b_low + ((a - (high - b_part)) + (b - b_part))
    # An infinity or NaN in high makes low NaN; high alone then is the IEEE answer.
    return (high, low) if low == low else (high, 0.0)


def _split(high: Number, low: Number) -> Total:
    """A sum of ints as floats, exact to twice a float's precision."""
    if isinstance(high, float):
        return high, low
    try:
        near = float(high)
    except OverflowError:
        return (math.inf if high > 0 else -math.inf), 0.0
    return near, float(high - int(near))


def _lower_total(state: Total | Average) -> Number:
    return state[0] + state[1]


def _lift_average(value: Any) -> Average:
    return to_number("mean", value), 0, 1


def _add_average(older: Average, newer: Average) -> Average:
    high, low = _add(older[:2], newer[:2])
    return high, low, older[2] + newer[2]


def _lower_average(state: Average) -> float | None:
    high, low, n = state
    if n == 0:
        return None
    try:
        return (high + low) / n
    except OverflowError:
        return math.inf if high > 0 else -math.inf


def _lift_logarithm(value: Any) -> Average:
    number = to_number("geometric_mean", value)
    if not number > 0:
        raise InvalidValueError(
            f"geometric_mean: {number} is not above 0; filter it out or map it to another value"
        )
    return math.log(number), 0.0, 1


def _lower_geometric(state: Average) -> float | None:
    logarithm = _lower_average(state)
    if logarithm is None:
        return None
    try:
        return math.exp(logarithm)
    except OverflowError:
        return math.inf


count: Final[Monoid[Any, int, int]] = Monoid(
    "count",
    identity=0,
    lift=_one,
    combine=operator.add,
    lower=itself,
    columns=columns.COUNT,
    kernel="count",
    addends={"count": Addend(updates, signed=False)},
)
"""How many updates there are."""

sum: Final[Monoid[Any, Total, Number]] = Monoid(
    "sum",
    identity=(0, 0),
    lift=_lift_total,
    combine=_add,
    lower=_lower_total,
    columns=columns.SUM,
    kernel="sum",
    addends={"sum": Addend(_lower_total)},
)
"""The sum; of nothing, 0 (Spark: NULL). Ints of any size stay exact; floats are added in twice
their precision, so that the error does not grow with the window."""

mean: Final[Monoid[Any, Average, float | None]] = Monoid(
    "mean",
    identity=(0, 0, 0),
    lift=_lift_average,
    combine=_add_average,
    lower=_lower_average,
    columns=columns.MEAN,
    kernel="mean",
    addends={
        "sum": Addend(_lower_total, of_quotient=True),
        "count": Addend(itemgetter(2), of_quotient=True, signed=False),
    },
)
"""The arithmetic mean, added up as `sum` does; None when empty."""

geometric_mean: Final[Monoid[Any, Average, float | None]] = Monoid(
    "geometric_mean",
    identity=(0.0, 0.0, 0),
    lift=_lift_logarithm,
    combine=_add_average,
    lower=_lower_geometric,
    columns=columns.GEOMETRIC_MEAN,
    kernel="geometric_mean",
)
"""The n-th root of the product of n values above 0, by their logarithms; None when empty."""


def _lift_moments(monoid: str, value: Any) -> Moments:
    return 1, to_float(monoid, value), 0.0


def _add_moments(older: Moments, newer: Moments) -> Moments:
    """Chan, Golub and LeVeque's merge: no difference of large squares."""
    n_older, mean_older, m2_older = older
    n_newer, mean_newer, m2_newer = newer
    if not n_older:
        return newer
    if not n_newer:
        return older
    n = n_older + n_newer
    delta = mean_newer - mean_older
    share = n_newer / n
    return (
        n,
        mean_older + delta * share,
        m2_older + m2_newer + delta * delta * share * n_older,
    )


def _lower_variance(ddof: int, state: Moments) -> float | None:
    n, _, m2 = state
    return m2 / (n - ddof) if n > ddof else None


def _lower_stddev(ddof: int, state: Moments) -> float | None:
    squared = _lower_variance(ddof, state)
    return None if squared is None else math.sqrt(squared)


def _spread(
    name: str,
    lower: Callable[[int, Moments], float | None],
    ddof: int,
    vectorised: columns.Columns,
) -> Monoid[Any, Moments, float | None]:
    return Monoid(
        name,
        identity=(0, 0.0, 0.0),
        lift=partial(_lift_moments, name),
        combine=_add_moments,
        lower=partial(lower, ddof),
        columns=vectorised,
        kernel=name,
    )


variance: Final = _spread("variance", _lower_variance, 1, columns.VARIANCE)
"""The sample variance, Spark's `var_samp`. None of fewer than two values, as Spark has NULL there
(since 3.1; before, NaN of one value)."""

variance_population: Final = _spread(
    "variance_population", _lower_variance, 0, columns.VARIANCE_POPULATION
)
"""The population variance, Spark's `var_pop`: 0.0 of one value, None when empty."""

stddev: Final = _spread("stddev", _lower_stddev, 1, columns.STDDEV)
"""The sample standard deviation, Spark's `stddev_samp`: None of fewer than two values."""

stddev_population: Final = _spread("stddev_population", _lower_stddev, 0, columns.STDDEV_POPULATION)
"""The population standard deviation, Spark's `stddev_pop`: 0.0 of one value, None when empty."""
