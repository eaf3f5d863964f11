"""What operators there are, described: the simulator and Spark have their own running forms.

Of each is known what fault tolerance depends on (digest §1.3):

- `deterministic`: the same input in the same order gives the same output. Replicas of anything else
  drift apart, so a diagram refuses it.
- `convergent`: started empty anywhere it comes to the right state once it has seen `span` of event
  time. A stage of such operators recovers by reading on; any other needs the state of a peer, and
  upstream must not throw away what it has not read.
- `blocking`: with one input missing it makes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.machine.tuples import Row
from holdfast.windows.monoid import Monoid
from holdfast.windows.window import check_monoid


@dataclass(frozen=True, slots=True)
class Filter:
    """A case statement: a row goes to the first output whose predicate holds, else to `no_match`.

    Its streams are the outputs it names; without `no_match` other rows are gone.
    """

    predicates: tuple[tuple[str, Callable[[Row], bool]], ...]
    no_match: str | None = None

    deterministic: ClassVar[bool] = True
    convergent: ClassVar[bool] = True
    blocking: ClassVar[bool] = False
    span: ClassVar[float] = 0

    def __post_init__(self) -> None:
        if not self.predicates:
            raise InvalidArgumentError(
                "Filter: there are no predicates; give pairs of an output and a function of the row"
            )


@dataclass(frozen=True, slots=True)
class Map:
    """A new key and value for each row, from a function of the row; its time stays."""

    function: Callable[[Row], tuple[Any, Any]]

    deterministic: ClassVar[bool] = True
    convergent: ClassVar[bool] = True
    blocking: ClassVar[bool] = False
    span: ClassVar[float] = 0


@dataclass(frozen=True, slots=True)
class Union:
    """All rows of two or more streams, in the order they come in: rewriting makes it a `Merge`."""

    deterministic: ClassVar[bool] = True
    convergent: ClassVar[bool] = True
    blocking: ClassVar[bool] = False
    span: ClassVar[float] = 0


@dataclass(frozen=True, slots=True)
class Merge:
    """A union in the one order: by time, then by input, then by place in the input."""

    deterministic: ClassVar[bool] = True
    convergent: ClassVar[bool] = True
    blocking: ClassVar[bool] = False
    span: ClassVar[float] = 0


@dataclass(frozen=True, slots=True)
class Join:
    """Pairs of a left and a right row at most `window` apart: of one key, or as `match` says.

    A pair has the time of its newest row, the key of its left one and both values.
    """

    window: int
    match: Callable[[Row, Row], bool] | None = None

    deterministic: ClassVar[bool] = True
    convergent: ClassVar[bool] = True
    blocking: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.window < 0:
            raise InvalidArgumentError(f"Join: window is {self.window}; give 0 or more")

    @property
    def span(self) -> float:
        return self.window


@dataclass(frozen=True, slots=True)
class OrderedJoin:
    """A join that takes its rows by time, left ones first where times are equal (SJoin).

    A row is paired with the rows taken before it, oldest first: that is the order of the pairs.
    """

    window: int
    match: Callable[[Row, Row], bool] | None = None

    deterministic: ClassVar[bool] = True
    convergent: ClassVar[bool] = True
    blocking: ClassVar[bool] = True

    @property
    def span(self) -> float:
        return self.window


@dataclass(frozen=True, slots=True)
class WindowAggregate:
    """The aggregate of the last `size` of event time, for each key, whenever `slide` has passed.

    A window [end - size, end) gives a row at `end - 1` for each key with rows in it, keys in the
    order of how they look (`ascii`). Ends are multiples of the slide, which any start finds again.
    `anchored`: the first window begins with the first row; `size=None`, a landmark window: nothing
    ever leaves. Both depend on where one started and so do not converge.

    Replicas agree to the bit if `combine` is associative to the bit: give it ints, not floats.
    """

    size: int | None
    slide: int
    monoid: Monoid[Any, Any, Any]
    anchored: bool = False

    deterministic: ClassVar[bool] = True
    blocking: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_monoid(self.monoid)
        if self.slide < 1:
            raise InvalidArgumentError(f"WindowAggregate: slide is {self.slide}; give at least 1")
        if self.size is not None and (self.size < self.slide or self.size % self.slide):
            raise InvalidArgumentError(
                f"WindowAggregate: size is {self.size}; give a multiple of the slide, "
                f"{self.slide}, or None for a landmark window"
            )
        if self.size is None and self.anchored:
            raise InvalidArgumentError(
                "WindowAggregate: a landmark window is not anchored; give a size or anchored=False"
            )

    @property
    def convergent(self) -> bool:
        return self.span < math.inf

    @property
    def span(self) -> float:
        return math.inf if self.size is None or self.anchored else self.size


@dataclass(frozen=True, slots=True)
class CountWindow:
    """The aggregate of the last `rows` rows of its key, for each row.

    It would converge after so many rows of every key, but no span of time is sure to hold them: a
    key may be silent for ever. So it counts as not convergent.
    """

    rows: int
    monoid: Monoid[Any, Any, Any]

    deterministic: ClassVar[bool] = True
    convergent: ClassVar[bool] = False
    blocking: ClassVar[bool] = False
    span: ClassVar[float] = math.inf

    def __post_init__(self) -> None:
        check_monoid(self.monoid)
        if self.rows < 1:
            raise InvalidArgumentError(f"CountWindow: rows is {self.rows}; give at least 1")


@dataclass(frozen=True, slots=True)
class Sort:
    """The approximate sort (BSort): holds `rows` rows, and each further one sends out the least.

    `by` reads what is sorted by. A row goes out with the time of the one that sent it out. Behind a
    gate that is deterministic; but a row may be held for ever, so it does not converge.
    """

    rows: int
    by: Callable[[Row], Any]

    deterministic: ClassVar[bool] = True
    convergent: ClassVar[bool] = False
    blocking: ClassVar[bool] = False
    span: ClassVar[float] = math.inf

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise InvalidArgumentError(f"Sort: rows is {self.rows}; give at least 1")


@dataclass(frozen=True, slots=True)
class Timeout:
    """Closes windows after so long by the local clock. Replicas would differ, so it is refused."""

    after: int

    deterministic: ClassVar[bool] = False
    convergent: ClassVar[bool] = False
    blocking: ClassVar[bool] = False
    span: ClassVar[float] = math.inf
    remedy: ClassVar[str] = "let boundaries of event time close windows (WindowAggregate)"


Operator = (
    Filter
    | Map
    | Union
    | Merge
    | Join
    | OrderedJoin
    | WindowAggregate
    | CountWindow
    | Sort
    | Timeout
)
