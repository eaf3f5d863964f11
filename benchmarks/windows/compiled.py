"""Two-Stacks and DABA compiled by numba, so that compiled AMTA has compiled peers.

They use the combines of `holdfast.windows.kernels` in the order of `TwoStacks` and `Daba`, so
answers equal theirs to the bit; they only roll over the newest n. Rows of the table: states by
number modulo the capacity, behind them their aggregates, then two of scratch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast.windows import Monoid, Policy
from holdfast.windows.fast import KERNELS
from holdfast.windows.kernels import Rows, combine, compiled, copy, lift, lower

__all__ = ["CompiledDaba", "CompiledTwoStacks"]


@compiled
def roll_two_stacks(
    operation: int, rows: Rows, pointers: Rows, values: Rows, newest: int, answers: Rows
) -> None:
    """Front [f, b), oldest first, with aggregates up to b; back [b, e) with one in total."""
    capacity = rows.shape[0] // 2 - 1
    mask = capacity - 1
    back, answer = 2 * capacity, 2 * capacity + 1
    f, b, e = int(pointers[0]), int(pointers[1]), int(pointers[2])
    for index in range(len(values)):
        leaf = e & mask
        lift(operation, rows, leaf, values[index])
        if f == e:
            copy(rows, capacity + leaf, leaf)
            b = e + 1
        elif b == e:
            copy(rows, back, leaf)
        else:
            combine(operation, rows, back, back, leaf)
        e += 1
        if e - f > newest:
            f += 1
            if f == b:
                b = e
                for number in range(e - 1, f - 1, -1):
                    at = number & mask
                    if number == e - 1:
                        copy(rows, capacity + at, at)
                    else:
                        after = capacity + (number + 1 & mask)
                        combine(operation, rows, capacity + at, at, after)
        front = capacity + (f & mask)
        if b == e:
            answers[index] = lower(operation, rows, front)
        else:
            combine(operation, rows, answer, front, back)
            answers[index] = lower(operation, rows, answer)
    pointers[0], pointers[1], pointers[2] = f, b, e


@compiled
def fix_daba(
    operation: int, rows: Rows, place: tuple[int, int, int, int, int, int]
) -> tuple[int, int, int, int, int, int]:
    """Restore the invariants after one insertion or eviction (Tangwongsan et al. 2017)."""
    first, left, right, rear, back, end = place
    capacity = rows.shape[0] // 2 - 1
    mask = capacity - 1
    scratch = 2 * capacity
    if first == back:
        return first, end, end, end, end, end
    if left == back:
        left, rear, back = first, end, end
    if left == right:
        return first, left + 1, right + 1, rear + 1, back, end
    oldest, newest = left & mask, rear - 1 & mask
    combine(operation, rows, scratch, capacity + oldest, capacity + newest)
    if rear == back:
        copy(rows, capacity + oldest, scratch)
        copy(rows, capacity + newest, newest)
    else:
        behind = capacity + (rear & mask)
        combine(operation, rows, capacity + oldest, scratch, behind)
        combine(operation, rows, capacity + newest, newest, behind)
    return first, left + 1, right, rear - 1, back, end


@compiled
def roll_daba(
    operation: int, rows: Rows, pointers: Rows, values: Rows, newest: int, answers: Rows
) -> None:
    capacity = rows.shape[0] // 2 - 1
    mask = capacity - 1
    answer = 2 * capacity + 1
    place = (
        int(pointers[0]),
        int(pointers[1]),
        int(pointers[2]),
        int(pointers[3]),
        int(pointers[4]),
        int(pointers[5]),
    )
    for index in range(len(values)):
        first, left, right, rear, back, end = place
        leaf = end & mask
        lift(operation, rows, leaf, values[index])
        if back == end:
            copy(rows, capacity + leaf, leaf)
        else:
            combine(operation, rows, capacity + leaf, capacity + (end - 1 & mask), leaf)
        place = fix_daba(operation, rows, (first, left, right, rear, back, end + 1))
        if place[5] - place[0] > newest:
            first, left, right, rear, back, end = place
            place = fix_daba(operation, rows, (first + 1, left, right, rear, back, end))
        front = capacity + (place[0] & mask)
        if place[4] == place[5]:
            answers[index] = lower(operation, rows, front)
        else:
            combine(operation, rows, answer, front, capacity + (place[5] - 1 & mask))
            answers[index] = lower(operation, rows, answer)
    for index in range(6):
        pointers[index] = place[index]


class _Compiled:
    """A window of at most `capacity` that only rolls."""

    def __init__(self, monoid: Monoid[Any, Any, Any], capacity: int, roll: Any) -> None:
        kernel = KERNELS[str(monoid.kernel)]
        # A power of two: the remainder is then as cheap as in the rings of AMTA.
        ring = 1 << capacity.bit_length()
        self._operation = kernel.operation
        self._rows = np.zeros((2 * ring + 2, kernel.width))
        self._pointers = np.zeros(6, dtype=np.int64)
        self._roll = roll

    def roll(self, values: Any, policy: Policy) -> Any:
        """Insert each value, keep the newest, note the answer."""
        answers = np.empty(len(values))
        self._roll(self._operation, self._rows, self._pointers, values, policy.newest, answers)
        return answers


class CompiledTwoStacks(_Compiled):
    """`TwoStacks` over floats."""

    def __init__(self, monoid: Monoid[Any, Any, Any], capacity: int) -> None:
        super().__init__(monoid, capacity, roll_two_stacks)


class CompiledDaba(_Compiled):
    """`Daba` over floats."""

    def __init__(self, monoid: Monoid[Any, Any, Any], capacity: int) -> None:
        super().__init__(monoid, capacity, roll_daba)
