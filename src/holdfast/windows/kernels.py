"""The window of `amta` over rows of floats, compiled by numba: the same combines in the same order.

A state is one row of a float64 table. The first rows are the stack, the result pair and scratch;
behind them each level has a ring, where an element's place is its number modulo the ring's length.
Which elements exist follows from five numbers (`Place`), which functions take and return anew.

Called by `fast` alone, which checks the arguments: nothing here raises. All of it is in one file
because numba's cache on disk notices changes only in the file of the function that was called.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BACK",
    "COUNT",
    "FIRST",
    "FRONT",
    "GEOMETRIC_MEAN",
    "LAST",
    "MAX",
    "MEAN",
    "MIN",
    "RANGE",
    "RINGS",
    "STDDEV",
    "STDDEV_POPULATION",
    "SUM",
    "TOTAL",
    "VARIANCE",
    "VARIANCE_POPULATION",
    "Place",
    "Rows",
    "count_elements",
    "evict",
    "find_row",
    "insert",
    "move",
    "read_tails",
    "roll",
    "sum_up",
]

F = TypeVar("F", bound=Callable[..., Any])

Rows = NDArray[np.float64]
Place = tuple[int, int, int, int, int]
"""Oldest leaf, next leaf, number of levels, end of the leftmost tree, entries on the stack."""

# The stack is in the rows before: at most one entry per level, and leaf numbers have 63 bits.
FRONT: Final = 64
BACK: Final = 65
TOTAL: Final = 66
TREE: Final = 67  # scratch
RINGS: Final = 68
"""How many rows there are before the rings, which take twice the window's capacity."""

COUNT: Final = 0
SUM: Final = 1
MEAN: Final = 2
GEOMETRIC_MEAN: Final = 3
MIN: Final = 4
MAX: Final = 5
RANGE: Final = 6
FIRST: Final = 7
LAST: Final = 8
VARIANCE: Final = 9
VARIANCE_POPULATION: Final = 10
STDDEV: Final = 11
STDDEV_POPULATION: Final = 12


def compiled(function: F) -> F:
    """numba's njit, with its cache on disk where there is a place for one.

    IEEE arithmetic is kept to the letter (no fastmath), so answers equal those of `monoids`.
    """
    njit = partial(numba.njit, function, error_model="numpy", forceinline=True)
    try:
        return cast(F, njit(cache=True))
    except RuntimeError:
        return cast(F, njit())


# The monoids: the formulas of `monoids`, for floats


@compiled
def lift(operation: int, rows: Rows, out: int, value: float) -> None:
    if operation == COUNT:
        rows[out, 0] = 1.0
    elif operation >= VARIANCE:
        rows[out, 0] = 1.0
        rows[out, 1] = value
        rows[out, 2] = 0.0
    else:
        rows[out, 0] = math.log(value) if operation == GEOMETRIC_MEAN else value
        if operation == RANGE:
            rows[out, 1] = value
        elif SUM <= operation <= GEOMETRIC_MEAN:
            rows[out, 1] = 0.0
            if operation != SUM:
                rows[out, 2] = 1.0


@compiled
def combine(operation: int, rows: Rows, out: int, older: int, newer: int) -> None:
    """`out` may be one of the operands."""
    a, b = rows[older, 0], rows[newer, 0]
    if operation == COUNT:
        rows[out, 0] = a + b
    elif operation <= GEOMETRIC_MEAN:
        high = a + b
        b_part = high - a
        low = rows[older, 1] + rows[newer, 1] + ((a - (high - b_part)) + (b - b_part))
        rows[out, 0] = high
        rows[out, 1] = low if low == low else 0.0
        if operation != SUM:
            rows[out, 2] = rows[older, 2] + rows[newer, 2]
    elif operation == MIN:
        rows[out, 0] = b if b < a else a
    elif operation == MAX:
        rows[out, 0] = b if b > a else a
    elif operation == RANGE:
        c, d = rows[older, 1], rows[newer, 1]
        rows[out, 0] = b if b < a else a
        rows[out, 1] = d if d > c else c
    elif operation == FIRST:
        rows[out, 0] = a
    elif operation == LAST:
        rows[out, 0] = b
    else:
        n = a + b
        delta = rows[newer, 1] - rows[older, 1]
        share = b / n
        rows[out, 2] = rows[older, 2] + rows[newer, 2] + delta * delta * share * a
        rows[out, 1] = rows[older, 1] + delta * share
        rows[out, 0] = n


@compiled
def lower(operation: int, rows: Rows, row: int) -> float:
    """The answer for a state; NaN where it is None."""
    answer: float = rows[row, 0]
    if SUM <= operation <= GEOMETRIC_MEAN:
        answer += rows[row, 1]
        if operation != SUM:
            answer /= rows[row, 2]
        if operation == GEOMETRIC_MEAN:
            answer = math.exp(answer)
    elif operation == RANGE:
        answer = rows[row, 1] - answer
    elif operation >= VARIANCE:
        n = answer - 1.0 if operation in (VARIANCE, STDDEV) else answer
        answer = rows[row, 2] / n if n > 0 else math.nan
        if operation >= STDDEV:
            answer = math.sqrt(answer)
    return answer


@compiled
def copy(rows: Rows, out: int, row: int) -> None:
    # A loop over the columns would cost a tenth of the time of a slide.
    rows[out, 0] = rows[row, 0]
    if rows.shape[1] > 1:
        rows[out, 1] = rows[row, 1]
    if rows.shape[1] > 2:
        rows[out, 2] = rows[row, 2]


# The window


@compiled
def count_elements(following: int, level: int) -> int:
    """How many elements of a level have ever been written when this leaf comes next.

    A pair gets its parent when the next pair of its level begins.
    """
    return (following + 1 >> level) - 1


@compiled
def find_row(rows: Rows, level: int, number: int) -> int:
    """Where an element of a level lies."""
    size: int = rows.shape[0] - RINGS >> level + 1
    return RINGS + (size | number & size - 1)


@compiled
def push(operation: int, rows: Rows, oldest: int, level: int, depth: int) -> int:
    """Stack what follows the head element of a level whose head pair is full."""
    newer = find_row(rows, level, oldest >> level | 1)
    if depth:
        combine(operation, rows, depth, newer, depth - 1)
    else:
        copy(rows, 0, newer)
    return depth + 1


@compiled
def join_oldest(operation: int, rows: Rows, oldest: int, depth: int) -> None:
    """Make the front from the oldest leaf and the stack."""
    leaf = find_row(rows, 0, oldest)
    if depth:
        combine(operation, rows, FRONT, leaf, depth - 1)
    else:
        copy(rows, FRONT, leaf)


@compiled
def rebuild(operation: int, rows: Rows, oldest: int, following: int, height: int) -> Place:
    """Make the result pair and the stack anew once another tree has become the leftmost."""
    top = height - 1
    for level in range(top):
        count = count_elements(following, level)
        tree = find_row(rows, level, count - 1)
        if not count & 1:
            combine(operation, rows, TREE, find_row(rows, level, count - 2), tree)
            tree = TREE
        if level:
            combine(operation, rows, BACK, tree, BACK)
        else:
            copy(rows, BACK, tree)
    count = count_elements(following, top)
    depth = 0
    if oldest >> top | 1 < count and not oldest >> top & 1:
        depth = push(operation, rows, oldest, top, depth)
    for level in range(top - 1, -1, -1):
        if not oldest >> level & 1:
            depth = push(operation, rows, oldest, level, depth)
    join_oldest(operation, rows, oldest, depth)
    return oldest, following, height, count << top, depth


@compiled
def insert(operation: int, rows: Rows, place: Place, value: float) -> Place:
    """`Amta.insert`; there must be room for one more."""
    oldest, number, height, end, depth = place
    following = number + 1
    leaf = find_row(rows, 0, number)
    lift(operation, rows, leaf, value)
    if number == oldest:
        copy(rows, FRONT, leaf)
        return oldest, following, 1, following, 0
    if height > 1:
        combine(operation, rows, BACK, BACK, leaf)
    else:
        copy(rows, BACK, leaf)
    level, index = 0, number
    while not index & 1:
        # The older of the two may have left: its parent is then on the left spine, where no value
        # is ever read, and may as well be nonsense.
        older, newer = find_row(rows, level, index - 2), find_row(rows, level, index - 1)
        level, index = level + 1, (index >> 1) - 1
        combine(operation, rows, find_row(rows, level, index), older, newer)
        if level == height:
            return oldest, following, height + 1, end, depth
    if level == height - 1:
        return rebuild(operation, rows, oldest, following, height)
    return oldest, following, height, end, depth


@compiled
def evict(operation: int, rows: Rows, place: Place, count: int) -> Place:
    """`Amta.evict` of at least one and at most all."""
    before, following, height, end, depth = place
    oldest = before + count
    if oldest == following:
        return oldest, following, 0, following, 0
    if oldest >= end:
        while count_elements(following, height - 1) <= oldest >> height - 1:
            height -= 1
        return rebuild(operation, rows, oldest, following, height)
    # Levels below `changed` get another head element; their stack entries go.
    changed = 0
    while before >> changed != oldest >> changed:
        if not before >> changed & 1:
            depth -= 1
        changed += 1
    whole = not oldest & (1 << changed - 1) - 1
    if whole:
        copy(rows, FRONT, depth)
    for level in range(changed - 2, -1, -1):
        if not oldest >> level & 1:
            depth = push(operation, rows, oldest, level, depth)
    if not whole:
        join_oldest(operation, rows, oldest, depth)
    return oldest, following, height, end, depth


@compiled
def sum_up(operation: int, rows: Rows, place: Place) -> None:
    """Put the aggregate of a window that is not empty into the row `TOTAL`."""
    if place[2] > 1:
        combine(operation, rows, TOTAL, FRONT, BACK)
    else:
        copy(rows, TOTAL, FRONT)


@compiled
def roll(
    operation: int, rows: Rows, place: Place, values: Rows, newest: int, answers: Rows
) -> Place:
    """Insert each value, evict all but the `newest`, note the answer."""
    for index in range(len(values)):
        place = insert(operation, rows, place, values[index])
        surplus = place[1] - place[0] - newest
        if surplus > 0:
            place = evict(operation, rows, place, surplus)
        sum_up(operation, rows, place)
        answers[index] = lower(operation, rows, TOTAL)
    return place


@compiled
def read_tails(rows: Rows, place: Place) -> Rows:
    """The last pair of each level, leaves first, two rows to a pair; holes hold anything."""
    tails = np.empty((2 * place[2], rows.shape[1]))
    for level in range(place[2]):
        older = count_elements(place[1], level) - 1 >> 1 << 1
        for side in range(2):
            row = find_row(rows, level, older + side)
            for column in range(rows.shape[1]):
                tails[2 * level + side, column] = rows[row, column]
    return tails


@compiled
def move(rows: Rows, wider: Rows, place: Place) -> None:
    """Copy a window to rows with longer rings."""
    for column in range(rows.shape[1]):
        for row in range(RINGS):
            wider[row, column] = rows[row, column]
        for level in range(place[2]):
            for number in range(place[0] >> level, count_elements(place[1], level)):
                row = find_row(rows, level, number)
                wider[find_row(wider, level, number), column] = rows[row, column]
