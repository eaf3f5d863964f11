"""Shadow mode: an approximate window beside the exact one, to see what an approximation costs.

Users and `holdfast shadow` run one over a stretch of a stream before they settle on a method;
`holdfast.shadow.picture` draws what came out. It answers with a report and does no IO.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from holdfast.errors import InvalidArgumentError
from holdfast.windows.amta import Amta
from holdfast.windows.approximation.buckets import Dimension
from holdfast.windows.approximation.error_bound import dimensions_of
from holdfast.windows.approximation.methods import BlockMaxima, Hops, MaxError, Method, only
from holdfast.windows.approximation.peaks import BLOCKS
from holdfast.windows.approximation.prediction import LEAST
from holdfast.windows.approximation.window import ApproximateWindow
from holdfast.windows.monoid import HOLE, Monoid
from holdfast.windows.policies import Policy, check_policy
from holdfast.windows.values import itself

__all__ = ["Course", "Shadow", "ShadowReport"]

ROUNDING: Final = 1e-12
"""Two trees over the same updates round differently: by no more than this part of the answer."""
QUANTILES: Final = (0.5, 0.9, 0.99, 0.999, 1.0)
CURVE_POINTS: Final = 1_000


@dataclass(frozen=True)
class ShadowReport:
    """What a shadow has seen; `str(report)` is for people."""

    monoid: str
    methods: str
    updates: int
    exact: int
    """Answers that were the exact ones, but for rounding."""
    errors: Mapping[float, float]
    """Relative errors by quantile, the largest under 1.0; empty if answers are not numbers."""
    largest_difference: float | None
    """The largest absolute error; None if answers are not numbers."""
    bound: float | None
    """The relative error that was asked for, if it is one of the answer."""
    not_guaranteed: int | None
    """How often `guarantee().holds` was not true; None if no method bounds the error."""
    exceeded: int | None
    """How often the error was larger than was asked for, guaranteed or not; with `block_maxima`,
    how often the answer was not the exact one."""
    broken: int | None
    """How often it was so although the bound was guaranteed: 0."""
    created: int
    """How many buckets were made."""
    settled_at: int | None
    """The update after which the steady state begins; None if it has not begun."""
    steady_created: int
    """How many buckets were made in the steady state."""
    buckets: int
    buckets_peak: int
    leaves: int
    """How many updates the exact window holds."""
    leaves_peak: int
    curve: tuple[tuple[float, float], ...] = field(repr=False)
    """The distribution of the errors of answers that were not exact: (relative error, share of
    all answers with no larger one)."""
    course: tuple[tuple[int, int, int], ...] = field(repr=False)
    """Over time: (updates, leaves of the exact window, buckets of the approximate one)."""

    @property
    def exact_share(self) -> float:
        return self.exact / self.updates if self.updates else 1.0

    @property
    def footprint(self) -> float:
        """Buckets made for each update since the start: what a store is sent, against an exact
        window."""
        return self.created / self.updates if self.updates else 0.0

    @property
    def steady_footprint(self) -> float | None:
        """The same in the steady state. That begins one length of the window after its first
        eviction and after the methods have what they learn from (30 evictions for `hops`, 30
        blocks for `block_maxima`). None if the stretch was too short for that."""
        if self.settled_at is None or self.updates == self.settled_at:
            return None
        return self.steady_created / (self.updates - self.settled_at)

    def lines(self) -> list[tuple[str, str]]:
        """The report in words: what, and how much."""
        return [
            ("updates", f"{self.updates:,}"),
            ("exact answers", f"{self.exact:,} ({_percent(self.exact_share)})"),
            *self._error_lines(),
            *self._bound_lines(),
            ("buckets made per update", _percent(self.footprint)),
            ("the same in steady state", self._steady()),
            ("buckets now, at most", f"{self.buckets:,}, {self.buckets_peak:,}"),
            ("exact leaves now, at most", f"{self.leaves:,}, {self.leaves_peak:,}"),
        ]

    def _error_lines(self) -> list[tuple[str, str]]:
        if self.largest_difference is None:
            return [("errors", "answers are not numbers: only told whether they are equal")]
        lines = [
            (f"relative error, {100 * part:g} % of answers", f"up to {_percent(self.errors[part])}")
            for part in QUANTILES[:-1]
        ]
        largest = f"{_percent(self.errors[1.0])} (absolute {self.largest_difference:.6g})"
        return [*lines, ("largest error", largest)]

    def _bound_lines(self) -> list[tuple[str, str]]:
        if self.not_guaranteed is None:
            return [("bound", "none: no method here bounds the error")]
        return [
            ("bound exceeded", f"{self.exceeded:,} times"),
            ("bound not guaranteed", f"{self.not_guaranteed:,} times"),
            ("bound broken though guaranteed", f"{self.broken:,} times"),
        ]

    def _steady(self) -> str:
        steady = self.steady_footprint
        if steady is None:
            return "not reached: feed more updates"
        return f"{_percent(steady)} (after {self.settled_at:,} updates)"

    def __str__(self) -> str:
        lines = self.lines()
        width = max(len(what) for what, _ in lines)
        title = f"{self.monoid}, {self.methods}, beside the exact window"
        return "\n".join([title, *(f"  {what:<{width}}  {much}" for what, much in lines)])


class Shadow:
    """An approximate window and the exact one over the same updates.

    >>> from holdfast.windows import monoids, policies
    >>> from holdfast.windows.approximation import max_leaves
    >>> shadow = Shadow(monoids.mean, max_leaves(100), policies.last(1_000))
    >>> shadow.feed(float(i % 50) for i in range(5_000))
    >>> report = shadow.report()
    >>> report.buckets_peak, report.leaves_peak, report.errors[1.0] < 0.02
    (100, 1000, True)

    `value` reads the number to compare from an answer: a function, or the name of a field of a
    product's record. Memory: the exact window, and 8 bytes for each update, its error.
    """

    def __init__(
        self,
        monoid: Monoid[Any, Any, Any],
        approximate: Method | Sequence[Method],
        policy: Policy,
        *,
        value: Callable[[Any], Any] | str | None = None,
    ) -> None:
        check_policy(policy)
        self.window: ApproximateWindow[Any, Any, Any] = ApproximateWindow(monoid, approximate)
        self.exact: Amta[Any, Any, Any] = Amta(monoid)
        self.policy = policy
        self._value = _reader(value)
        bound = only(MaxError, self.window.methods)
        self._dimensions = () if bound is None else dimensions_of(bound, monoid)
        self._quotients = () if bound is None else _quotients(bound, monoid, self._dimensions)
        self._bound = _bound_of_answer(bound, monoid)
        self._peaks = self.window.peak
        self._learning = _Learning.of(self.window.methods)
        self._errors = array("d")
        self._largest = 0.0
        self._updates = self._same = 0
        self._not_guaranteed = self._exceeded = self._broken = 0
        self._buckets_peak = self._leaves_peak = 0
        self._settled_at: int | None = None
        self._created_before = 0
        self._course = Course()

    def feed(self, values: Iterable[Any]) -> None:
        for value in values:
            self.insert(value)

    def insert(self, value: Any) -> None:
        """Take in an update, slide both windows, and compare their answers."""
        # The approximate one first: it refuses all that the exact one refuses.
        self.window.insert(value)
        self.exact.insert(value)
        self.window.slide(self.policy)
        gone = self.exact.slide(self.policy)
        self._updates += 1
        self._compare(self._value(self.exact.result()), self._value(self.window.result()))
        if self._peaks is not None:
            self._check_peak(self._peaks)
        elif self._dimensions:
            self._check_bound()
        self._settle(gone)
        self._note_size(len(self.exact), self.window.buckets)

    def _note_size(self, leaves: int, buckets: int) -> None:
        self._leaves_peak = max(self._leaves_peak, leaves)
        self._buckets_peak = max(self._buckets_peak, buckets)
        self._course.note(self._updates, leaves, buckets)

    def _compare(self, exact: Any, answer: Any) -> None:
        if not (_is_number(exact) and _is_number(answer)):
            self._same += bool(exact == answer)
            return
        error, difference = _errors_of(exact, answer)
        self._errors.append(error)
        self._largest = max(self._largest, difference)
        self._same += error <= ROUNDING

    def _check_bound(self) -> None:
        exact, answer = _bucket(self.exact), _bucket(self.window)
        outside = {each.name for each in self._dimensions if _exceeds(each, exact, answer)}
        for quotient in self._quotients:
            if outside and not quotient.exceeds(exact, answer):
                outside -= quotient.names
        self._note_bound(bool(outside))

    def _check_peak(self, peak: Callable[[Any], Any]) -> None:
        exact, answer = self.exact.aggregate(), self.window.aggregate()
        if exact is HOLE or answer is HOLE:
            self._note_bound(exact is not answer)
        else:
            self._note_bound(bool(peak(exact) != peak(answer)))

    def _note_bound(self, exceeded: bool) -> None:
        holds = bool(self.window.guarantee().holds)
        self._not_guaranteed += not holds
        self._exceeded += exceeded
        self._broken += holds and exceeded

    def _settle(self, gone: int) -> None:
        if self._settled_at is None or self._updates <= self._settled_at:
            if self._settled_at is None and self._learning.observe(self._updates, gone):
                self._settled_at = self._updates + len(self.exact)
            self._created_before = self.window.created

    def report(self) -> ShadowReport:
        errors = np.sort(np.frombuffer(self._errors)) if self._errors else np.empty(0)
        bounded = bool(self._dimensions) or self._peaks is not None
        reached = self._settled_at is not None and self._updates >= self._settled_at
        return ShadowReport(
            monoid=self.window.monoid.signature,
            methods=", ".join(map(str, self.window.methods)),
            updates=self._updates,
            exact=self._same,
            errors=_quantiles(errors),
            largest_difference=self._largest if len(errors) else None,
            bound=self._bound,
            not_guaranteed=self._not_guaranteed if bounded else None,
            exceeded=self._exceeded if bounded else None,
            broken=self._broken if bounded else None,
            created=self.window.created,
            settled_at=self._settled_at if reached else None,
            steady_created=self.window.created - self._created_before if reached else 0,
            buckets=self.window.buckets,
            buckets_peak=self._buckets_peak,
            leaves=len(self.exact),
            leaves_peak=self._leaves_peak,
            curve=_curve(errors),
            course=self._course.points(),
        )


class Course:
    """Sizes over time in bounded memory: every nth is kept, and n doubles when there are many."""

    def __init__(self, most: int = CURVE_POINTS) -> None:
        self._most = most
        self._every = 1
        self._points: list[tuple[int, int, int]] = []
        self._newest: tuple[int, int, int] | None = None

    def note(self, updates: int, leaves: int, buckets: int) -> None:
        self._newest = updates, leaves, buckets
        if (updates - 1) % self._every:
            return
        self._points.append(self._newest)
        if len(self._points) > self._most:
            self._points = self._points[::2]
            self._every *= 2

    def points(self) -> tuple[tuple[int, int, int], ...]:
        """Those that were kept, and the newest."""
        if self._newest is None or self._points[-1] == self._newest:
            return tuple(self._points)
        return (*self._points, self._newest)


@dataclass
class _Learning:
    """What has to come before the methods have learned all they need."""

    evictions: int
    updates: int

    @classmethod
    def of(cls, methods: Sequence[Method]) -> _Learning:
        peaks = only(BlockMaxima, methods)
        return cls(
            evictions=1 if only(Hops, methods) is None else LEAST,
            updates=0 if peaks is None else BLOCKS * peaks.block,
        )

    def observe(self, updates: int, gone: int) -> bool:
        """Take in that so many left after the update of this number; whether that was the last."""
        self.evictions -= gone > 0
        return self.evictions <= 0 and updates >= self.updates


def _reader(value: Any) -> Callable[[Any], Any]:
    if value is None:
        return itself
    if isinstance(value, str):
        return itemgetter(value)
    if callable(value):
        return value  # type: ignore[no-any-return]
    raise InvalidArgumentError(
        f"Shadow: value is {value!r}; give a function of an answer or the name of a field"
    )


def _bound_of_answer(method: MaxError | None, monoid: Monoid[Any, Any, Any]) -> float | None:
    if method is None or method.of is not None or not monoid.addends:
        return None
    return method.relative


def _is_number(answer: Any) -> bool:
    return isinstance(answer, int | float) and not isinstance(answer, bool)


def _errors_of(exact: float, answer: float) -> tuple[float, float]:
    """The relative and the absolute error."""
    if exact == answer or (exact != exact and answer != answer):
        return 0.0, 0.0
    try:
        difference = abs(answer - exact)
        relative = difference / abs(exact) if exact else math.inf
        both = float(relative), float(difference)
    except OverflowError:
        return math.inf, math.inf
    # NaN against a number, and an infinity against anything else.
    return both if both[0] == both[0] else (math.inf, math.inf)


def _bucket(window: Amta[Any, Any, Any] | ApproximateWindow[Any, Any, Any]) -> tuple[int, Any, Any]:
    state = window.aggregate()
    return len(window), window.monoid.identity if state is HOLE else state, ()


def _exceeds(dimension: Dimension, exact: Any, answer: Any) -> bool:
    should, is_ = dimension.read(exact), dimension.read(answer)
    relative, difference = _errors_of(should, is_)
    if relative <= ROUNDING:
        return False
    allowed = max(dimension.absolute, (dimension.relative or 0.0) * abs(should))
    return not difference <= allowed * (1 + ROUNDING)


@dataclass(frozen=True)
class _Quotient:
    """Two sums, as that and the count of a mean, of whose quotient an error was allowed."""

    names: frozenset[str]
    above: Callable[[Any], Any]
    below: Callable[[Any], Any]
    relative: float

    def exceeds(self, exact: Any, answer: Any) -> bool:
        """Whether it is too wrong: both sums may be, and yet not their quotient."""
        error, _ = _errors_of(self._read(exact), self._read(answer))
        return error > self.relative * (1 + ROUNDING)

    def _read(self, bucket: Any) -> float:
        below = self.below(bucket)
        return float(self.above(bucket) / below) if below else math.nan


def _quotients(
    method: MaxError, monoid: Monoid[Any, Any, Any], dimensions: Sequence[Dimension]
) -> tuple[_Quotient, ...]:
    if method.relative is None or method.of is not None:
        return ()
    owners: dict[str, list[str]] = {}
    for name, addend in monoid.addends.items():
        if addend.of_quotient:
            owners.setdefault(name.rpartition(".")[0], []).append(name)
    read = {dimension.name: dimension.read for dimension in dimensions}
    return tuple(
        _Quotient(frozenset((above, below)), read[above], read[below], method.relative)
        for above, below in owners.values()
    )


def _quantiles(ordered: np.ndarray[Any, np.dtype[np.float64]]) -> Mapping[float, float]:
    """For each part the least error that so large a part of the answers does not exceed."""
    count = len(ordered)
    return MappingProxyType(
        {part: float(ordered[math.ceil(part * count) - 1]) for part in QUANTILES} if count else {}
    )


def _curve(ordered: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[tuple[float, float], ...]:
    count = len(ordered)
    first = int(np.searchsorted(ordered, ROUNDING, side="right"))
    places = np.unique(np.linspace(first, count - 1, min(CURVE_POINTS, count - first)).astype(int))
    return tuple((float(ordered[at]), (int(at) + 1) / count) for at in places)


def _percent(part: float) -> str:
    return f"{100 * part:.4g} %"
