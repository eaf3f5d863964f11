"""Methods of approximation, as plain data that users choose.

`max_error` bounds the error of sums and counts, `block_maxima` keeps what may become the maximum,
`hops` follows windows that evict many updates at once, `max_leaves` bounds the memory. `window`
and `holdfast.window` turn them into rules for folding updates into buckets (digest §3.9).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from reprlib import repr as shorten
from typing import Any, Final, TypeVar

from holdfast.errors import InvalidArgumentError
from holdfast.windows.values import to_integer

__all__ = [
    "BlockMaxima",
    "Hops",
    "MaxError",
    "MaxLeaves",
    "Method",
    "absolute_limits",
    "block_maxima",
    "check_methods",
    "hops",
    "max_error",
    "max_leaves",
    "only",
]

M = TypeVar("M")

CONFIDENCE: Final = 0.95
"""That of all experiments in the founding document."""
HOP_CONFIDENCE: Final = 0.999
"""One hop in twenty that ends inside a bucket spoils more than wider margins cost: measured."""
FEWEST_LEAVES: Final = 3
"""With two, joining neighbours might free no place."""


@dataclass(frozen=True)
class MaxError:
    """See `max_error`."""

    relative: float | None
    absolute: float | Mapping[str, float] | None
    of: str | Mapping[str, Callable[[Any], Any]] | None
    confidence: float

    def __str__(self) -> str:
        parts = [] if self.relative is None else [f"{100 * self.relative:.12g}%"]
        if self.absolute is not None:
            parts.append(f"absolute={_plain(self.absolute)}")
        if self.of is not None:
            parts.append(f"of={self.of if isinstance(self.of, str) else sorted(self.of)}")
        return f"max_error({', '.join(parts)}, confidence={self.confidence})"


@dataclass(frozen=True)
class BlockMaxima:
    """See `block_maxima`."""

    block: int
    of: Callable[[Any], Any] | None
    confidence: float

    def __str__(self) -> str:
        return f"block_maxima({self.block}, confidence={self.confidence})"


@dataclass(frozen=True)
class Hops:
    """See `hops`."""

    confidence: float

    def __str__(self) -> str:
        return f"hops(confidence={self.confidence})"


@dataclass(frozen=True)
class MaxLeaves:
    """See `max_leaves`."""

    limit: int = field(default=FEWEST_LEAVES)

    def __str__(self) -> str:
        return f"max_leaves({self.limit})"


Method = MaxError | BlockMaxima | Hops | MaxLeaves


def max_error(
    relative: float | str | None = None,
    *,
    absolute: float | Mapping[str, float] | None = None,
    of: str | Mapping[str, Callable[[Any], Any]] | None = None,
    confidence: float = CONFIDENCE,
) -> MaxError:
    """Answers of sums, counts and means differ from the exact ones by no more than this.

    `relative`: a part of the exact answer, "0.1%" or 0.001. `absolute`: an amount, or amounts by
    the name of what adds up in the window, as in {"sum": 50, "count": 10}. With both, the greater
    of the two is allowed.

    Windows whose answers do not add up (a maximum, a median, a list) have the number of updates in
    them bounded instead; `of="count"` asks for that of any window. For a monoid of your own, `of`
    takes functions that read what adds up from its states.

    An absolute bound always holds. How large a relative one may be is predicted, with this
    confidence, from at least 30 answers; where the prediction fails, the window says so (`holds`).
    """
    if relative is None and absolute is None:
        raise InvalidArgumentError(
            "max_error: give how large the error may be, relative (max_error('0.1%')) or "
            "absolute (max_error(absolute=5))"
        )
    return MaxError(
        None if relative is None else _share("max_error: relative", relative),
        _amounts(absolute),
        _readers(of),
        _check_confidence("max_error", confidence),
    )


def block_maxima(
    block: int, *, of: Callable[[Any], Any] | None = None, confidence: float = CONFIDENCE
) -> BlockMaxima:
    """For maxima and minima: fold updates that will hardly ever be the answer.

    From the maxima of the last 30 blocks of so many updates it is estimated, with this confidence,
    how low an answer can be; lower updates are folded, up to a block of them into one bucket, and
    never one that is the greatest in the window. For a monoid of your own, `of` reads the number
    that is compared from its states. There is no bound on the error.
    """
    size = to_integer("block_maxima: block", block)
    if size < 1:
        raise InvalidArgumentError(f"block_maxima: block is {size}; give at least 1")
    if of is not None and not callable(of):
        raise InvalidArgumentError(f"block_maxima: of is {of!r}; give a function of a state")
    return BlockMaxima(size, of, _check_confidence("block_maxima", confidence))


def hops(confidence: float = HOP_CONFIDENCE) -> Hops:
    """For windows that let many updates go at once: fold those that will go together.

    How many that are is predicted, with this confidence, from at least 30 evictions. Nothing is
    wrong as long as they come as predicted.
    """
    return Hops(_check_confidence("hops", confidence))


def max_leaves(limit: int) -> MaxLeaves:
    """Never hold more than this many buckets (at least 3), however coarse they get."""
    leaves = to_integer("max_leaves: limit", limit)
    if leaves < FEWEST_LEAVES:
        raise InvalidArgumentError(
            f"max_leaves: limit is {leaves}; give at least {FEWEST_LEAVES}, with fewer a window "
            "could not make room"
        )
    return MaxLeaves(leaves)


def check_methods(approximate: Method | Sequence[Method]) -> tuple[Method, ...]:
    """The methods that were given, if they go together."""
    some = [approximate] if isinstance(approximate, Method) else approximate
    if not isinstance(some, Sequence) or not some:
        raise InvalidArgumentError(
            f"approximate: is {shorten(approximate)}; give a method, as in max_error('0.1%'), or "
            "a list of them"
        )
    for method in some:
        if not isinstance(method, Method):
            raise InvalidArgumentError(
                f"approximate: has {shorten(method)}; give max_error(...), block_maxima(...), "
                "hops() or max_leaves(...)"
            )
        if sum(isinstance(other, type(method)) for other in some) > 1:
            raise InvalidArgumentError(
                f"approximate: {_NAMES[type(method)]} is there twice; one of a kind is enough"
            )
    kinds = {type(method) for method in some}
    if {MaxError, BlockMaxima} <= kinds:
        raise InvalidArgumentError(
            "approximate: max_error and block_maxima exclude each other: the one bounds answers "
            "that add up, the other keeps maxima. Drop either; hops and max_leaves go with both"
        )
    return tuple(some)


def absolute_limits(
    method: MaxError, names: Sequence[str], known: Sequence[str]
) -> dict[str, float]:
    """The amounts of an absolute bound by name: `names` need one, others that are `known` may have
    one."""
    if method.absolute is None:
        return {}
    listed = ", ".join(names)
    if isinstance(method.absolute, float):
        if len(names) > 1:
            raise InvalidArgumentError(
                f"max_error: absolute is one amount, but {listed} add up; give amounts by name: "
                f"absolute={{{names[0]!r}: ..., {names[1]!r}: ...}}"
            )
        return {names[0]: method.absolute}
    unknown, missing = set(method.absolute) - set(known), set(names) - set(method.absolute)
    if unknown or (missing and method.relative is None):
        raise InvalidArgumentError(
            f"max_error: absolute names {', '.join(method.absolute)}; what adds up here is "
            f"{listed}, so give amounts for these"
        )
    return dict(method.absolute)


def only(kind: type[M], methods: Sequence[Method]) -> M | None:
    """The method of this kind, if there is one."""
    return next((method for method in methods if isinstance(method, kind)), None)


_NAMES: Final = {
    MaxError: "max_error",
    BlockMaxima: "block_maxima",
    Hops: "hops",
    MaxLeaves: "max_leaves",
}


def _share(what: str, value: Any) -> float:
    number: Any = value
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            number = float(value.strip()[:-1]) / 100
        except ValueError:
            number = None
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number < 1:
        raise InvalidArgumentError(
            f"{what} is {shorten(value)}; give a part such as 0.001 or '0.1%', above 0 and below 1"
        )
    return float(number)


def _amounts(absolute: Any) -> float | dict[str, float] | None:
    if absolute is None:
        return None
    if isinstance(absolute, Mapping):
        if not absolute:
            raise InvalidArgumentError("max_error: absolute is empty; give at least one amount")
        return {str(name): _amount(name, value) for name, value in absolute.items()}
    return _amount("absolute", absolute)


def _amount(what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise InvalidArgumentError(
            f"max_error: {what} is {shorten(value)}; give an amount above 0, such as 5"
        )
    try:
        return float(value)
    except OverflowError:
        raise InvalidArgumentError(
            f"max_error: {what} is beyond all floats; leave it out"
        ) from None


def _readers(of: Any) -> Any:
    if of is None or of == "count":
        return of
    if isinstance(of, Mapping) and of and all(callable(read) for read in of.values()):
        return dict(of)
    raise InvalidArgumentError(
        f"max_error: of is {shorten(of)}; give 'count' to bound the number of updates, or "
        "functions of a state by name, as in {'energy': lambda state: state[1]}"
    )


def _check_confidence(what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.5 <= value < 1:
        raise InvalidArgumentError(
            f"{what}: confidence is {shorten(value)}; give one from 0.5 to below 1, such as 0.95"
        )
    return float(value)


def _plain(absolute: float | Mapping[str, float]) -> str:
    if isinstance(absolute, Mapping):
        return ", ".join(f"{name}: {value:.12g}" for name, value in sorted(absolute.items()))
    return f"{absolute:.12g}"
