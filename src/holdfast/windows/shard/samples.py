"""Recent answers of each key of a shard, and the prediction of its next one.

Used by `buckets`: `approximation.prediction.Sample` for many keys and several numbers at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast.windows.approximation.prediction import LEAST, half_width
from holdfast.windows.columns import Column
from holdfast.windows.shard.tables import same

__all__ = ["KeySamples"]


class KeySamples:
    """Moments of two generations for each key, of `width` numbers that come together."""

    def __init__(self, width: int) -> None:
        self.ids = np.empty(0, np.int64)
        # Of the past and of the present generation.
        self._counts = np.zeros((2, 0), np.int64)
        self._means = np.zeros((2, width, 0))
        self._squares = np.zeros((2, width, 0))

    def observe(self, ids: Column, values: Any, span: int) -> None:
        """Take an answer of each of these keys: a column for each number. At least the last `span`
        of each key stay."""
        self._admit(ids)
        at = np.searchsorted(self.ids, ids)
        count = self._counts[1, at] + 1
        with np.errstate(over="ignore", invalid="ignore"):
            distance = values - self._means[1][:, at]
            mean = self._means[1][:, at] + distance / count
            squares = self._squares[1][:, at] + distance * (values - mean)
        self._counts[1, at], self._means[1][:, at], self._squares[1][:, at] = count, mean, squares
        full = at[count >= max(span, LEAST)]
        for part in (self._counts, self._means, self._squares):
            part[0][..., full] = part[1][..., full]
            part[1][..., full] = 0

    def nearest_zero(self, ids: Column, confidence: float) -> Any:
        """For each of these keys how near to zero its next answer may come: 0 where the interval
        that is predicted contains it, or nothing can be predicted."""
        nearest = np.zeros((self._means.shape[1], len(ids)))
        at = np.searchsorted(self.ids, ids)
        known = at < len(self.ids)
        known[known] = self.ids[at[known]] == ids[known]
        at = at[known]
        past, present = self._counts[:, at]
        count = past + present
        enough = count >= LEAST
        known[known] = enough
        at, past, present, count = at[enough], past[enough], present[enough], count[enough]
        with np.errstate(over="ignore", invalid="ignore"):
            share = present / count
            apart = self._means[1][:, at] - self._means[0][:, at]
            mean = self._means[0][:, at] + apart * share
            squares = self._squares[0][:, at] + self._squares[1][:, at] + apart**2 * (past * share)
            width = np.sqrt(squares) * _factors(count, confidence)
            near = np.abs(mean) - width
        nearest[:, known] = np.where(np.isfinite(near) & (near > 0), near, 0.0)
        return nearest

    def forget_all_but(self, ids: Column) -> None:
        if same(self.ids, ids):
            return
        kept = np.isin(self.ids, ids)
        self.ids = self.ids[kept]
        self._counts = self._counts[..., kept]
        self._means = self._means[..., kept]
        self._squares = self._squares[..., kept]

    def copy(self) -> KeySamples:
        other = KeySamples(self._means.shape[1])
        other.restore(self.saved())
        return other

    def saved(self) -> tuple[Any, ...]:
        # These are written to, and what is saved is not to change.
        return tuple(map(np.copy, (self.ids, self._counts, self._means, self._squares)))

    def restore(self, saved: tuple[Any, ...]) -> None:
        self.ids, self._counts, self._means, self._squares = map(np.copy, saved)

    def _admit(self, ids: Column) -> None:
        fresh = np.setdiff1d(ids, self.ids, assume_unique=True)
        if not len(fresh):
            return
        union = np.concatenate((self.ids, fresh))
        order = np.argsort(union, kind="stable")
        self.ids = union[order]
        self._counts = _widen(self._counts, order)
        self._means = _widen(self._means, order)
        self._squares = _widen(self._squares, order)


def _widen(part: Any, order: Column) -> Any:
    """Room for more keys at the end, and then all in this order."""
    room = np.zeros((*part.shape[:-1], len(order) - part.shape[-1]), part.dtype)
    return np.concatenate((part, room), axis=-1)[..., order]


def _factors(counts: Column, confidence: float) -> Column:
    """How wide an interval is for samples of these sizes with squares of 1."""
    sizes, places = np.unique(counts, return_inverse=True)
    widths = [half_width(int(size), 1.0, confidence) for size in sizes]
    factors: Column = np.array(widths)[places]
    return factors
