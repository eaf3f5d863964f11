"""`FastAmta`: the window of `amta` over float64 values, compiled by numba (extra `fast`).

`choose.aggregator` picks it where it is faster; importing this module needs numba. The arithmetic
is in `kernels`; here are the checks before it and what the pure window does on its behalf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from reprlib import repr as shorten
from typing import Any, Final, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidArgumentError, InvalidValueError, WindowDroppedError
from holdfast.windows import kernels, window
from holdfast.windows.amta import Amta
from holdfast.windows.kernels import Place, Rows
from holdfast.windows.monoid import HOLE, Hole, Monoid
from holdfast.windows.pairs import Pair, Pairs, Root
from holdfast.windows.policies import Policy, check_policy
from holdfast.windows.values import to_integer, to_number

__all__ = ["KERNELS", "FastAmta", "Kernel"]

S = TypeVar("S")
R = TypeVar("R")

EXACT: Final = 2**53
"""Up to here every int is a float64."""


def _to_count(row: list[float]) -> int:
    return int(row[0])


def _to_value(row: list[float]) -> float:
    return row[0]


def _to_average(row: list[float]) -> tuple[float, float, int]:
    return row[0], row[1], int(row[2])


def _to_moments(row: list[float]) -> tuple[int, float, float]:
    return int(row[0]), row[1], row[2]


def _is_positive(values: Rows) -> NDArray[np.bool_]:
    return values > 0


def _is_ordered(values: Rows) -> NDArray[np.bool_]:
    return ~np.isnan(values)


def _is_exact(values: NDArray[Any]) -> bool:
    """Whether all of these are floats, or ints that lose nothing as such."""
    if values.dtype.kind in "iu":
        return bool(values.min(initial=0) >= -EXACT and values.max(initial=0) <= EXACT)
    return values.dtype in (np.float32, np.float64)


@dataclass(frozen=True)
class Kernel:
    """The compiled form of a ready-made monoid."""

    operation: int
    width: int
    to_state: Callable[[list[float]], Any]
    """The state of the monoid that a row stands for."""
    accepts: Callable[[Rows], NDArray[np.bool_]] | None = None
    """Which floats the monoid's lift takes, where it does not take all."""


KERNELS: Final = {
    "count": Kernel(kernels.COUNT, 1, _to_count),
    "sum": Kernel(kernels.SUM, 2, tuple),
    "mean": Kernel(kernels.MEAN, 3, _to_average),
    "geometric_mean": Kernel(kernels.GEOMETRIC_MEAN, 3, _to_average, _is_positive),
    "min": Kernel(kernels.MIN, 1, _to_value, _is_ordered),
    "max": Kernel(kernels.MAX, 1, _to_value, _is_ordered),
    "range": Kernel(kernels.RANGE, 2, tuple, _is_ordered),
    "first": Kernel(kernels.FIRST, 1, _to_value),
    "last": Kernel(kernels.LAST, 1, _to_value),
    "variance": Kernel(kernels.VARIANCE, 3, _to_moments),
    "variance_population": Kernel(kernels.VARIANCE_POPULATION, 3, _to_moments),
    "stddev": Kernel(kernels.STDDEV, 3, _to_moments),
    "stddev_population": Kernel(kernels.STDDEV_POPULATION, 3, _to_moments),
}


class FastAmta(Generic[S, R]):
    """The same window as `Amta`, with answers equal to the bit, for floats and numeric monoids.

    `roll` by `policies.last` runs compiled from end to end and is what this class is for. Single
    calls cost about a microsecond each; a `slide` by predicates borrows the search of `Amta` and
    costs more than there. A fork copies all that the window holds, one of `Amta` O(log n). Memory
    follows the largest window there has been.

    All values must be numbers, for `count` and `first` too. Ints are taken as floats if they are
    exact as such, and refused otherwise.
    """

    def __init__(self, monoid: Monoid[Any, S, R], *, capacity: int = 64) -> None:
        """`capacity` is how many updates there is room for at first; it doubles when needed."""
        window.check_monoid(monoid)
        if monoid.kernel not in KERNELS:
            raise InvalidArgumentError(
                f"FastAmta: {monoid.name} has no compiled form; use Amta, or one of "
                f"{', '.join(KERNELS)} over plain floats"
            )
        capacity = to_integer("FastAmta: capacity", capacity)
        if capacity < 1:
            raise InvalidArgumentError(f"FastAmta: capacity is {capacity}; it must be at least 1")
        self.monoid = monoid
        self._kernel = KERNELS[monoid.kernel]
        self._rows: Rows | None = self._make_rows(capacity)
        self._place: Place = (0, 0, 0, 0, 0)

    def __len__(self) -> int:
        return self._place[1] - self._place[0]

    @property
    def position(self) -> int:
        """How many updates have ever entered the window."""
        return self._place[1]

    @property
    def evicted(self) -> int:
        """How many updates have ever left the window."""
        return self._place[0]

    def result(self) -> R:
        return self.monoid.answer(self.aggregate())

    def aggregate(self) -> S | Hole:
        """The aggregate as a state; a hole when the window is empty."""
        rows = self._living()
        if not len(self):
            return HOLE
        kernels.sum_up(self._kernel.operation, rows, self._place)
        return cast(S, self._kernel.to_state(rows[kernels.TOTAL].tolist()))

    def insert(self, value: float) -> None:
        self._living()
        number = self._to_float(value)
        self.monoid.lift(number)  # for its refusal
        rows = self._reserve(len(self) + 1)
        self._place = kernels.insert(self._kernel.operation, rows, self._place, number)

    def evict(self, count: int = 1) -> None:
        """Drop the oldest `count` updates, at a cost that grows with log(count)."""
        rows = self._living()
        count = window.check_eviction(count, len(self))
        if count:
            self._place = kernels.evict(self._kernel.operation, rows, self._place, count)

    def slide(self, policy: Policy, *, debug: bool = False) -> int:
        """Evict what the policy says must go; answer how many updates that were.

        `debug` first asks the policy about every prefix and raises if its answers are not monotone.
        """
        check_policy(policy)
        size = len(self)
        if policy.newest is not None and not debug:
            self.evict(max(0, size - policy.newest))
        else:
            # The pure window searches in these rows; what it found becomes this window.
            amta = self._to_amta()
            if amta.slide(policy, debug=debug):
                self._adopt(amta.root)
        return size - len(self)

    def roll(self, values: Iterable[float], policy: Policy) -> NDArray[np.float64]:
        """Insert each value, slide, and note the result: one result for each value.

        NaN stands for a result that is None. If one of the values is refused, none is inserted.
        """
        self._living()
        check_policy(policy)
        column = self._to_column(values)
        if policy.newest is None:
            return np.array(window.roll(self, column.tolist(), policy), dtype=np.float64)
        newest = min(policy.newest, len(self) + len(column))
        rows = self._reserve(min(len(self) + len(column), max(len(self), newest) + 1))
        answers = np.empty(len(column))
        self._place = kernels.roll(
            self._kernel.operation, rows, self._place, column, newest, answers
        )
        return answers

    def leaves(self) -> Iterator[S]:
        """The states in the window, oldest first."""
        return self._to_amta().leaves()

    def fork(self) -> FastAmta[S, R]:
        """A second window that goes on from here; neither disturbs the other. Copies O(n)."""
        fork = FastAmta(self.monoid)
        fork._rows = self._living().copy()
        fork._place = self._place
        return fork

    def drop(self) -> None:
        """Give up this window; its forks and its base live on."""
        self._living()
        self._rows = None

    def _living(self) -> Rows:
        if self._rows is None:
            raise WindowDroppedError("this window was dropped; go on with its base or a fork")
        return self._rows

    def _make_rows(self, size: int) -> Rows:
        """Rows with rings for `size` leaves, rounded up to a power of two."""
        capacity = 1 << (size - 1).bit_length()
        # Zeros, for a row not yet written is now and then read beside its sibling.
        return np.zeros((kernels.RINGS + 2 * capacity, self._kernel.width))

    def _reserve(self, size: int) -> Rows:
        """Rows with room for a window of this size."""
        rows = self._living()
        if size > (len(rows) - kernels.RINGS) // 2:
            wider = self._make_rows(size)
            kernels.move(rows, wider, self._place)
            self._rows = rows = wider
        return rows

    def _to_float(self, value: Any) -> float:
        if type(value) is float:
            return value
        number = to_number(self.monoid.name, value)
        if isinstance(number, int) and abs(number) > EXACT:
            raise InvalidValueError(
                f"{self.monoid.name}: {shorten(value)} is not exact as a float; use Amta, where "
                "ints stay exact, or convert it to a float first"
            )
        return float(number)

    def _to_column(self, values: Iterable[Any]) -> Rows:
        """All values as floats, or an error for the first that cannot enter the window."""
        if not isinstance(values, np.ndarray) or not _is_exact(values):
            given = list(values)
            floats = given if set(map(type, given)) <= {float} else map(self._to_float, given)
            values = np.fromiter(floats, np.float64, len(given))
        if values.ndim != 1:
            raise InvalidArgumentError(
                f"roll: values have {values.ndim} dimensions; give one column, as with ravel()"
            )
        column = np.require(values, np.float64, ["C", "A", "W", "E"])
        if self._kernel.accepts is not None:
            accepted = self._kernel.accepts(column)
            if not accepted.all():
                self.monoid.lift(float(column[accepted.argmin()]))
        return column

    def _to_amta(self) -> Amta[Any, S, R]:
        """This window as a pure one to search in and read from, made of O(log n) rows."""
        rows, to_state = self._living(), self._kernel.to_state
        oldest, following, height, end, depth = self._place
        root: Root[S] = Root(oldest, following, end=end)
        elements = map(to_state, kernels.read_tails(rows, self._place).tolist())
        for level, (older, newer) in enumerate(zip(elements, elements, strict=True)):
            count = kernels.count_elements(following, level)
            gone = count - 1 >> 1 << 1 < oldest >> level
            root.tails.append((HOLE if gone else older, HOLE if count & 1 else newer))
        root.stack = list(map(to_state, rows[:depth].tolist()))
        if height > 0:
            root.front = to_state(rows[kernels.FRONT].tolist())
        if height > 1:
            root.back = to_state(rows[kernels.BACK].tolist())
        return Amta(self.monoid, pairs=cast("Pairs[S]", _RowPairs(rows, to_state)), root=root)

    def _adopt(self, root: Root[Any]) -> None:
        """Become the window with this root, whose elements are in the rows already."""
        rows = self._living()
        for row, state in enumerate(root.stack):
            rows[row] = state
        if root.front is not HOLE:
            rows[kernels.FRONT] = root.front
        if root.back is not HOLE:
            rows[kernels.BACK] = root.back
        self._place = (root.oldest, root.next, len(root.tails), root.end, len(root.stack))


class _RowPairs(Generic[S]):
    """The pairs of a `FastAmta` for a pure window that only searches: there is nothing to write."""

    def __init__(self, rows: Rows, to_state: Callable[[list[float]], S]) -> None:
        self._rows = rows
        self._to_state = to_state

    def read(self, level: int, position: int) -> Pair[S]:
        row = kernels.find_row(self._rows, level, 2 * position)
        older, newer = self._rows[row : row + 2].tolist()
        return self._to_state(older), self._to_state(newer)

    def release(self, oldest: int) -> None:
        """Nothing to do: rings take their rows back themselves."""
