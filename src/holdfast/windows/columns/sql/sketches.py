"""Sketches of whole stretches: one is updated with all values of a stretch, not one made per value.

Used by the aggregates of windows on Spark. `monoids.sketches` has the scalar forms, and says why
t-digest and HyperLogLog. Distinct counts have their states; quantiles count NaN and the infinities
beside the digest, which knows only finite numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from datasketches import hll_sketch, hll_union, tdigest_double, tgt_hll_type

from holdfast.windows.columns.core import Column, Columns, State

__all__ = ["quantiles", "sketch_distinct", "sketch_quantiles"]


def _bounds(count: int, starts: Column | None) -> Iterator[tuple[int, int]]:
    return pairwise([*(range(count) if starts is None else starts.tolist()), count])


def _objects(values: Sequence[Any]) -> Column:
    return np.fromiter(values, dtype=object, count=len(values))


# Distinct values: a state is that of `monoids.approx_distinct`


def sketch_distinct(lg_k: int, values: Column, starts: Column | None) -> State:
    """The sketch of each stretch, of a column of numbers, bools, strings or bytes.

    It answers what combining one sketch per value would.
    """
    texts = list(map(_text(values), values.tolist()))
    stretches = _bounds(len(texts), starts)
    return (_objects([_sketch_texts(lg_k, texts[start:stop]) for start, stop in stretches]),)


def _text(values: Column) -> Callable[[Any], str]:
    """How values become texts: as `monoids.approx_distinct` has it."""
    match values.dtype.kind:
        case "f":
            return _float_text
        case "i" | "b":
            return hex
        case _:
            return _object_text


def _float_text(value: float) -> str:
    return hex(int(value)) if value.is_integer() else repr(value)


def _object_text(value: Any) -> str:
    return hex(value) if isinstance(value, int) else ascii(value)


def _sketch_texts(lg_k: int, texts: list[str]) -> bytes:
    sketch = hll_sketch(lg_k, tgt_hll_type.HLL_8)
    for text in texts:
        sketch.update(text)
    # A union drops what depends on the order of updates.
    union = hll_union(lg_k)
    union.update(sketch)
    return bytes(union.get_result(tgt_hll_type.HLL_8).serialize_compact())


# Quantiles: a digest of the finite numbers, and how many were -inf, inf and NaN


def quantiles(probabilities: tuple[float, ...], k: int) -> Columns:
    """About which values these shares of all numbers lie below; NaN is greater than all others."""
    return Columns(
        f"quantiles({k})",
        lift=partial(sketch_quantiles, k, starts=None),
        combine=_merge,
        lower=partial(_read, probabilities),
    )


def sketch_quantiles(k: int, values: Column, starts: Column | None) -> State:
    """The state of each stretch of a column of floats."""
    unbounded = [values == -math.inf, values == math.inf, np.isnan(values)]
    finite = np.isfinite(values)
    stretches = list(_bounds(len(values), starts))
    if finite.all():
        digests = [_digest(k, values[start:stop]) for start, stop in stretches]
        return _objects(digests), *(np.zeros(len(stretches), np.int64) for _ in unbounded)
    digests = [_digest(k, values[start:stop][finite[start:stop]]) for start, stop in stretches]
    if starts is not None:
        unbounded = [np.add.reduceat(which, starts, dtype=np.int64) for which in unbounded]
    return _objects(digests), *(count.astype(np.int64) for count in unbounded)


def _digest(k: int, numbers: Column) -> bytes:
    digest = tdigest_double(k)
    digest.update(numbers)
    return bytes(digest.serialize())


def _merge(older: State, newer: State) -> State:
    pairs = zip(older[0].tolist(), newer[0].tolist(), strict=True)
    counts = [a + b for a, b in zip(older[1:], newer[1:], strict=True)]
    return _objects([_merge_digests(a, b) for a, b in pairs]), *counts


def _merge_digests(older: bytes, newer: bytes) -> bytes:
    digest = tdigest_double.deserialize(older)
    digest.merge(tdigest_double.deserialize(newer))
    return bytes(digest.serialize())


def _read(probabilities: tuple[float, ...], state: State) -> Column:
    fields = zip(*(field.tolist() for field in state), strict=True)
    return _objects([_quantiles_of(probabilities, *row) for row in fields])


def _quantiles_of(
    probabilities: tuple[float, ...], state: bytes, below: int, above: int, nans: int
) -> list[float]:
    digest = tdigest_double.deserialize(state)
    finite = digest.get_total_weight()
    total = below + finite + above + nans
    answers = []
    for share in probabilities:
        rank = max(math.ceil(share * total), 1)
        if rank <= below:
            answers.append(-math.inf)
        elif rank <= below + finite:
            within = share if finite == total else max((share * total - below) / finite, 0.0)
            answers.append(digest.get_quantile(min(within, 1.0)))
        else:
            answers.append(math.inf if rank <= total - nans else math.nan)
    return answers
