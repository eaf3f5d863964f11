"""Choice between the compiled AMTA and the pure one, by what is faster.

Users call `aggregator` and need not know which they got: both give the same answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from holdfast.errors import InvalidArgumentError
from holdfast.windows.amta import Amta
from holdfast.windows.monoid import Monoid
from holdfast.windows.policies import Policy, check_policy
from holdfast.windows.window import check_monoid

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from holdfast.windows.fast import FastAmta

__all__ = ["aggregator"]

V = TypeVar("V")
S = TypeVar("S")
R = TypeVar("R")


def aggregator(
    monoid: Monoid[V, S, R], dtype: DTypeLike | None = None, policy: Policy | None = None
) -> Amta[V, S, R] | FastAmta[S, R]:
    """The faster AMTA for this monoid over values of this type, slid by this policy.

    With `dtype=float` (that is float64), a policy that keeps the newest n (`policies.last(n)`),
    numba installed (`pip install 'holdfast[fast]'`) and a monoid that has a compiled form this is a
    `FastAmta`. Else it is an `Amta`: it takes any values, keeps ints exact, and searches by a
    policy's functions in less than half the time that the compiled window needs for it.
    """
    check_monoid(monoid)
    is_float = _is_float64(dtype)
    if policy is not None:
        check_policy(policy)
    if policy is None or policy.newest is None or monoid.kernel is None or not is_float:
        return Amta(monoid)
    try:
        from holdfast.windows.fast import KERNELS, FastAmta
    except ImportError:
        return Amta(monoid)
    return FastAmta(monoid) if monoid.kernel in KERNELS else Amta(monoid)


def _is_float64(dtype: DTypeLike | None) -> bool:
    # NumPy reads None as float64.
    if dtype is None:
        return False
    try:
        return np.dtype(dtype) == np.float64
    except TypeError:
        raise InvalidArgumentError(
            f"aggregator: dtype is {dtype!r}; give a NumPy type such as float, or leave it out"
        ) from None
