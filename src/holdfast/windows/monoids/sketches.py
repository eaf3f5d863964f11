"""Approximate answers in little memory: distinct counts and quantiles on Apache DataSketches.

Re-exported by `monoids`. A state is the serialised sketch, so it is immutable and goes into any
store. Replicas must agree to the bit, so nothing here draws random bits: HyperLogLog has none, and
of the quantile sketches only t-digest has none (KLL, REQ and classic quantiles flip coins when they
compact). The same updates combined in the same order give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from reprlib import repr as shorten
from typing import Any

from datasketches import hll_sketch, hll_union, tdigest_double, tgt_hll_type

from holdfast.errors import InvalidArgumentError, InvalidValueError
from holdfast.windows.monoid import Monoid
from holdfast.windows.values import to_finite_float, to_plain

__all__ = ["approx_distinct", "approx_quantiles"]


def approx_distinct(lg_k: int = 12) -> Monoid[Any, bytes, int]:
    """About how many different values there are, by HyperLogLog with 2^lg_k registers.

    The standard error is 1.04 / sqrt(2^lg_k): 1.6 % at 12, where a state has at most about 4 KB;
    with fewer than a tenth as many values as registers it is practically exact. The answer depends
    on the set of values only, not on the order they came or were combined in.

    Takes numbers, strings and bytes. Values that are equal in Python are one value (1, 1.0, True);
    so are all NaNs. None and everything else is refused.
    """
    if lg_k not in range(4, 22):
        raise InvalidArgumentError(f"approx_distinct: lg_k is {lg_k!r}; give an int from 4 to 21")
    return Monoid(
        "approx_distinct",
        identity=_new_hll(lg_k).serialize_compact(),
        lift=partial(_lift_hll, lg_k),
        combine=partial(_combine_hlls, lg_k),
        lower=partial(_estimate_distinct, lg_k),
        parameters=f"lg_k={lg_k}",
    )


def _new_hll(lg_k: int) -> Any:
    return hll_sketch(lg_k, tgt_hll_type.HLL_8)


def _lift_hll(lg_k: int, value: Any) -> bytes:
    sketch = _new_hll(lg_k)
    sketch.update(_hash_text(value))
    return bytes(sketch.serialize_compact())


def _hash_text(value: Any) -> str:
    """An ASCII text that is the same for equal values and differs for all others."""
    plain = to_plain(value)
    if isinstance(plain, float):
        return hex(int(plain)) if plain.is_integer() else float.__repr__(plain)
    if isinstance(plain, int):
        return hex(plain)
    if isinstance(plain, str):
        return ascii(str.__str__(plain))
    if isinstance(plain, bytes):
        return bytes.__repr__(plain)
    raise InvalidValueError(
        f"approx_distinct: {shorten(value)} is no number, string or bytes; "
        "filter it out or map it to one of these"
    )


def _combine_hlls(lg_k: int, older: bytes, newer: bytes) -> bytes:
    union = hll_union(lg_k)
    union.update(hll_sketch.deserialize(older))
    union.update(hll_sketch.deserialize(newer))
    return bytes(union.get_result(tgt_hll_type.HLL_8).serialize_compact())


def _estimate_distinct(lg_k: int, state: bytes) -> int:
    # A sketch that never met another full one answers by its history, which depends on the order
    # of updates. A union with itself leaves the registers and drops the history.
    sketch = hll_sketch.deserialize(state)
    union = hll_union(lg_k)
    union.update(sketch)
    union.update(sketch)
    estimate: float = union.get_estimate()
    return round(estimate)


def approx_quantiles(
    probabilities: Sequence[float], k: int = 200
) -> Monoid[Any, bytes, list[float] | None]:
    """About which values the given shares of all values lie below, by t-digest; None when empty.

    `probabilities` are from 0 (the minimum, exact) to 1 (the maximum, exact). Ranks are off by
    about 1 % in the middle at k = 200 and by far less near the ends; twice the k halves that and
    doubles the state, which has at most about 20·k bytes. The same values combined in another
    order may answer differently within that error.

    Takes finite numbers.
    """
    shares = _check_probabilities(probabilities)
    if k not in range(10, 65536):
        raise InvalidArgumentError(f"approx_quantiles: k is {k!r}; give an int from 10 to 65535")
    return Monoid(
        "approx_quantiles",
        identity=bytes(tdigest_double(k).serialize()),
        lift=partial(_lift_digest, k),
        combine=_combine_digests,
        lower=partial(_read_quantiles, shares),
        parameters=f"k={k}",
    )


def _check_probabilities(probabilities: Sequence[float]) -> tuple[float, ...]:
    try:
        shares = tuple(float(share) for share in probabilities)
    except (TypeError, ValueError):
        shares = ()
    if not shares or not all(0 <= share <= 1 for share in shares):
        raise InvalidArgumentError(
            f"approx_quantiles: probabilities is {probabilities!r}; "
            "give a list of numbers from 0 to 1, as in [0.5, 0.99]"
        )
    return shares


def _lift_digest(k: int, value: Any) -> bytes:
    digest = tdigest_double(k)
    digest.update(to_finite_float("approx_quantiles", value))
    return bytes(digest.serialize())


def _combine_digests(older: bytes, newer: bytes) -> bytes:
    digest = tdigest_double.deserialize(older)
    digest.merge(tdigest_double.deserialize(newer))
    return bytes(digest.serialize())


def _read_quantiles(shares: tuple[float, ...], state: bytes) -> list[float] | None:
    digest = tdigest_double.deserialize(state)
    if digest.is_empty():
        return None
    return [digest.get_quantile(share) for share in shares]
