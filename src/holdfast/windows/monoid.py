"""Monoid of a window: three functions and an identity.

Used by every window algorithm. `monoids` has the ready-made ones; `columns` their vectorised forms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from holdfast.errors import InvalidArgumentError

if TYPE_CHECKING:
    from holdfast.windows.columns import Columns

__all__ = ["HOLE", "Addend", "Hole", "Monoid", "updates", "with_updates"]

V = TypeVar("V")
S = TypeVar("S")
R = TypeVar("R")
U = TypeVar("U")


class Hole(Enum):
    """The type of `HOLE`."""

    HOLE = "hole"

    def __repr__(self) -> str:
        return "HOLE"


HOLE: Final = Hole.HOLE
"""An empty slot of a window. Never a state: a state may well equal the identity, a hole is none."""


def updates(_state: Any) -> Any:
    """Stands for the number of updates where what adds up is read; never called."""
    raise NotImplementedError


@dataclass(frozen=True)
class Addend:
    """A number in a state that `combine` adds up: what an error bound can be put on."""

    read: Callable[[Any], Any]
    """From a state; `updates` for the number of updates, which no state need know."""
    of_quotient: bool = False
    """Whether the answer is the quotient of two such numbers, so that the errors of both count."""
    signed: bool = True
    """Whether it can be below zero."""


def with_updates(addends: Mapping[str, Addend]) -> dict[str, Addend]:
    """These and the number of updates, which stands in for what does not add up."""
    name = "updates"
    while name in addends:
        name += "_"
    return {**addends, name: Addend(updates, signed=False)}


@dataclass(frozen=True, eq=False)
class Monoid(Generic[V, S, R]):
    """`lift` makes an update a state, `combine` two states one, `lower` a state an answer.

    `combine` must be associative and must leave its operands as they are; it need be neither
    commutative nor invertible. The older operand always comes first.
    """

    name: str
    identity: S
    lift: Callable[[V], S]
    combine: Callable[[S, S], S]
    lower: Callable[[S], R]
    check_order: Callable[[S, S], None] | None = None
    """Given the newest state in the window and one about to follow it; raises to refuse it."""
    columns: Columns | None = None
    """The same monoid over NumPy columns, where one exists."""
    kernel: str | None = None
    """The name of its compiled form in `fast`, where one exists."""
    addends: Mapping[str, Addend] = field(default_factory=dict)
    """What of a state adds up, by name."""
    peak: Callable[[S], Any] | None = None
    """For one that picks the greatest of its updates: the number by which it does."""
    parameters: str = ""
    """What else states depend on, for instance `k=3`: a store keeps states of different parameters
    apart, which may have the same name."""

    def __post_init__(self) -> None:
        for part in ("lift", "combine", "lower"):
            if not callable(getattr(self, part)):
                raise InvalidArgumentError(
                    f"Monoid: {part} is {getattr(self, part)!r}; give a function"
                )

    def __repr__(self) -> str:
        return f"Monoid({self.signature!r})"

    @property
    def signature(self) -> str:
        """The name and the parameters: states of monoids that differ in it do not mix."""
        return f"{self.name}({self.parameters})" if self.parameters else self.name

    def over(self, read: Callable[[U], V] | str) -> Monoid[U, S, R]:
        """The same monoid over updates of which `read` takes the value (a name reads that item)."""
        if not callable(read) and not isinstance(read, str):
            raise InvalidArgumentError(
                f"over: read is {read!r}; give a function of the update or the name of an item"
            )
        take: Callable[[Any], V] = itemgetter(read) if isinstance(read, str) else read
        lift = self.lift
        return replace(self, lift=lambda update: lift(take(update)), columns=None, kernel=None)  # type: ignore[return-value]

    def join(self, older: S | Hole, newer: S | Hole) -> S | Hole:
        """`combine` where either side may be a hole."""
        if older is HOLE:
            return newer
        if newer is HOLE:
            return older
        return self.combine(older, newer)

    def answer(self, state: S | Hole) -> R:
        """What a window with this state answers; an empty one answers for the identity."""
        return self.lower(self.identity if state is HOLE else state)
