"""The rule behind `max_error`: fold while the bucket cannot do more harm than is allowed.

Used by `window`. What a relative bound allows is taken from the end nearest to zero of a prediction
interval of the answers to come (digest §3.9a); nothing is folded while there is none, nor while it
contains zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from reprlib import repr as shorten
from typing import Any

from holdfast.errors import InvalidArgumentError, InvalidValueError
from holdfast.windows.approximation.buckets import (
    Bucket,
    Dimension,
    bucket_error,
    quotient_within,
)
from holdfast.windows.approximation.methods import MaxError, absolute_limits
from holdfast.windows.approximation.prediction import Sample, nearest_zero
from holdfast.windows.monoid import Addend, Monoid, updates

__all__ = ["ErrorBound", "dimensions_of"]

UPDATES = "updates"
"""What the number of updates is called where that is what is bounded."""


def dimensions_of(method: MaxError, monoid: Monoid[Any, Any, Any]) -> tuple[Dimension, ...]:
    """What this method bounds in a window of this monoid, and how tightly."""
    if method.of is None:
        addends = dict(monoid.addends)
    elif isinstance(method.of, str):
        addends = {}
    else:
        addends = {name: Addend(read) for name, read in method.of.items()}
    addends = addends or {UPDATES: Addend(updates, signed=False)}
    limits = _absolute_limits(method, addends, monoid)
    divided = [name for name, addend in addends.items() if addend.of_quotient][::2]
    return tuple(
        Dimension(
            name,
            _reader(addend),
            _relative_limit(method, addend),
            limits.get(name, 0.0),
            method.relative if name in divided else None,
        )
        for name, addend in addends.items()
        if method.relative is not None or name in limits
    )


def _relative_limit(method: MaxError, addend: Addend) -> float | None:
    if method.relative is None or not addend.of_quotient:
        return method.relative
    # A quotient of two numbers that are wrong by this part each is wrong by `relative` at most.
    return method.relative / (2 + method.relative)


def _absolute_limits(
    method: MaxError, addends: dict[str, Addend], monoid: Monoid[Any, Any, Any]
) -> dict[str, float]:
    if method.absolute is None:
        return {}
    if method.of is None and not monoid.addends:
        raise InvalidArgumentError(
            f"max_error: {monoid.name} does not add up, so that there is no absolute bound on it; "
            "with of='count' the amount is one of updates, relative bounds are so without it"
        )
    # The number of updates stands in for what does not add up: nobody need give an amount of it.
    names = [name for name, addend in addends.items() if addend.read is not updates]
    return absolute_limits(method, names or list(addends), list(addends))


def _reader(addend: Addend) -> Callable[[Bucket], Any]:
    return _size if addend.read is updates else partial(_read_state, addend.read)


def _size(bucket: Bucket) -> int:
    return bucket[0]


def _read_state(read: Any, bucket: Bucket) -> Any:
    return read(bucket[1])


class ErrorBound:
    """Knows how large an error may be by what the window has answered so far."""

    def __init__(self, dimensions: Sequence[Dimension], confidence: float) -> None:
        self.dimensions = tuple(dimensions)
        self.confidence = confidence
        self._samples = [Sample() for _ in self.dimensions]
        self._allowed = [dimension.absolute for dimension in self.dimensions]

    @property
    def allows_anything(self) -> bool:
        """Whether any error is allowed at all to the newest bucket."""
        return min(self._allowed) > 0

    def folds(self, merged: Bucket) -> bool:
        """Whether the newest bucket may become this."""
        for place, dimension in enumerate(self.dimensions):
            if not bucket_error(dimension, place, merged) <= self._allowed[place]:
                return False
        return self.allows_anything

    def check(self, update: Bucket) -> None:
        """Refuse updates of which something does not add up."""
        for dimension in self.dimensions:
            number = dimension.read(update)
            if not hasattr(number, "__float__"):
                raise InvalidValueError(
                    f"max_error: {dimension.name} is {shorten(number)}, no number; let the "
                    "function that reads it answer one"
                )

    def observe(self, answer: Bucket) -> None:
        """Take an answer of the window into the sample."""
        for dimension, sample in zip(self.dimensions, self._samples, strict=True):
            if dimension.relative is not None:
                sample.observe(_as_float(dimension.read(answer)), answer[0])

    def start_bucket(self) -> None:
        """Settle what is allowed to the bucket that now starts."""
        for place, dimension in enumerate(self.dimensions):
            if dimension.relative is not None:
                interval = self._samples[place].interval(self.confidence)
                nearest = 0.0 if interval is None else nearest_zero(interval)
                # Less by as much as makes the bound certain when it is seen from the answer.
                share = dimension.relative / (1 + 2 * dimension.relative)
                self._allowed[place] = max(dimension.absolute, share * nearest)

    def errors(self, edges: Sequence[Bucket]) -> list[float]:
        """For each dimension how wrong the answer can be: the window should begin inside one of
        these buckets, or it begins where it should."""
        return [
            _greatest([bucket_error(dimension, place, edge) for edge in edges])
            for place, dimension in enumerate(self.dimensions)
        ]

    def holds(self, answer: Bucket, errors: Sequence[float]) -> bool:
        """Whether errors of this size are within the bound, whatever the exact answer is."""
        values = [_as_float(dimension.read(answer)) for dimension in self.dimensions]
        errors = [_as_float(error) for error in errors]
        within = [
            _is_within(dimension, value, error)
            for dimension, value, error in zip(self.dimensions, values, errors, strict=True)
        ]
        for place, dimension in enumerate(self.dimensions):
            if dimension.quotient is not None:
                # Both may be wrong by more than their share, and yet not the quotient.
                above, below = list(zip(values, errors, strict=True))[place : place + 2]
                if quotient_within(dimension.quotient, *above, *below):
                    within[place : place + 2] = [True, True]
        return all(within)

    def saved(self) -> Any:
        return [sample.saved() for sample in self._samples], list(self._allowed)

    def restore(self, saved: Any) -> None:
        samples, allowed = saved
        self._samples = [Sample.restored(sample) for sample in samples]
        self._allowed = list(allowed)


def _is_within(dimension: Dimension, value: float, error: float) -> bool:
    allowed = dimension.absolute
    if dimension.relative is not None:
        allowed = max(allowed, dimension.relative * (abs(value) - error))
    return error <= allowed


def _as_float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _greatest(errors: list[float]) -> float:
    for error in errors:
        if error != error:
            return error
    return max(errors, default=0.0)
