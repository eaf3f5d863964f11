"""Operators and replicas that share work, their rules, and the routing of tuples.

All but `at_random` depend on the tuple alone: done again, it comes to the same seat, where it is
known. With `at_random` it may come to another, and is filtered at the latest at the sink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.machine.tuples import shard_of

if TYPE_CHECKING:
    from random import Random


# Ids of tuples: the same whoever processes a tuple, and however often.
#
# A tuple keeps the id its source gave it. Where one becomes several each gets the place it has
# among them, so that a replica that does the work again gives the same ids.


class TupleId(NamedTuple):
    """The `number`-th tuple of a source, counted from 1, and its way through the splits since."""

    origin: str
    number: int
    path: tuple[int, ...] = ()

    def derived(self, count: int) -> tuple[TupleId, ...]:
        """Ids of so many tuples that came of this one: of one alone, its own."""
        if count == 1:
            return (self,)
        return tuple(TupleId(self.origin, self.number, (*self.path, at)) for at in range(count))


class Guarantee(Enum):
    """What holds for each tuple at the sink."""

    AT_MOST_ONCE = "at-most-once"
    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


@dataclass(frozen=True, slots=True)
class Rules:
    """The same for all replicas of a plan."""

    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    hops: int = 1
    """A tuple survives when so many replicas in a row on its way fail together."""
    capacity: int = 1024
    """How many tuples of a source may be under way, and how many a replica holds."""
    period: int = 100_000
    """Between two pings."""
    threshold: float = 8.0
    """The phi from which silence is suspicious."""
    missed: int = 2
    """So many pings in a row may go unanswered all the same."""
    retry: int = 50_000
    """Until what was not answered is said again."""
    nudge: int = 500_000
    """The same for what was received, and is not done for so long."""
    patience: int = 1_000_000
    """How long one who comes back waits for colleagues who do not answer."""
    linger: int = 0
    """How long to gather what goes to the same replica into one packet."""

    def __post_init__(self) -> None:
        for name in ("hops", "capacity", "period", "missed", "retry", "nudge", "patience"):
            if getattr(self, name) < 1:
                raise InvalidArgumentError(
                    f"sharing: {name} is {getattr(self, name)}; give at least 1"
                )
        if self.linger < 0:
            raise InvalidArgumentError(f"sharing: linger is {self.linger}; give 0 or more")


# Who is there: operators, their replicas, and who gives tuples to whom.
#
# Operators that nobody gives tuples to are sources, those that give to nobody are sinks. A sink has
# one replica: what is delivered there is filtered in one place.


@dataclass(frozen=True, slots=True)
class Operator:
    """One step of a query, the replicas that share its work, and the operators below it."""

    name: str
    replicas: tuple[str, ...]
    below: tuple[str, ...] = ()


class Plan:
    """An acyclic graph of operators."""

    def __init__(self, operators: Iterable[Operator]) -> None:
        given = list(operators)
        self.operators = {each.name: each for each in given}
        names = [name for each in given for name in each.replicas]
        if len(self.operators) < len(given) or len(set(names)) < len(names):
            raise InvalidArgumentError("plan: name each operator and each replica once")
        self._of = {name: each.name for each in given for name in each.replicas}
        self._above: dict[str, list[str]] = {name: [] for name in self.operators}
        for each in given:
            if not each.replicas:
                raise InvalidArgumentError(f"plan: {each.name!r} has no replica; give at least 1")
            for name in each.below:
                if name not in self.operators:
                    raise InvalidArgumentError(
                        f"plan: {each.name!r} gives to {name!r}, which is no operator"
                    )
                self._above[name].append(each.name)
        for each in given:
            if not each.below and len(each.replicas) > 1:
                raise InvalidArgumentError(f"plan: {each.name!r} is a sink; give it 1 replica")
        _check_acyclic(self)

    @staticmethod
    def chain(**replicas: int) -> Plan:
        """One operator below the other, with so many replicas each: `source/0`, `first/0` ..."""
        names = list(replicas)
        return Plan(
            Operator(
                name,
                tuple(f"{name}/{at}" for at in range(replicas[name])),
                tuple(names[place + 1 : place + 2]),
            )
            for place, name in enumerate(names)
        )

    def of(self, replica: str) -> str:
        """The operator of a replica."""
        return self._of[replica]

    def knows(self, replica: str) -> bool:
        return replica in self._of

    def replicas(self, operator: str) -> tuple[str, ...]:
        return self.operators[operator].replicas

    def above(self, operator: str) -> tuple[str, ...]:
        return tuple(self._above[operator])

    def below(self, operator: str) -> tuple[str, ...]:
        return self.operators[operator].below

    def near(self, operator: str) -> tuple[str, ...]:
        """The operators a replica has to do with: above, its own, below; in this order."""
        return (*self.above(operator), operator, *self.below(operator))

    def is_source(self, operator: str) -> bool:
        return not self._above[operator]

    @cached_property
    def origins(self) -> dict[str, frozenset[str]]:
        """The sources whose tuples can come to an operator."""
        found: dict[str, frozenset[str]] = {}

        def find(operator: str) -> frozenset[str]:
            if operator not in found:
                above = self._above[operator]
                mine = self.replicas(operator) if not above else ()
                found[operator] = frozenset(mine).union(*(find(each) for each in above))
            return found[operator]

        for name in self.operators:
            find(name)
        return found


def _check_acyclic(plan: Plan) -> None:
    done: set[str] = set()
    while len(done) < len(plan.operators):
        ready = {
            name for name in plan.operators if name not in done and done >= {*plan.above(name)}
        }
        if not ready:
            raise InvalidArgumentError("plan: tuples would go in a circle; operators form no cycle")
        done |= ready


Routing = Callable[[TupleId, Any, int], int]
"""Of a tuple's id, its value and the number of seats: a seat."""


def round_robin(tuple_id: TupleId, value: Any, seats: int) -> int:
    """One after the other, by the number the source gave."""
    return (tuple_id.number + sum(tuple_id.path)) % seats


def by_key(key: Callable[[Any], Any]) -> Routing:
    """All tuples with the same key to the same seat."""

    def route(tuple_id: TupleId, value: Any, seats: int) -> int:
        return shard_of(key(value), seats)

    return route


def at_random(rng: Random) -> Routing:
    def route(tuple_id: TupleId, value: Any, seats: int) -> int:
        return rng.randrange(seats)

    return route


def primary(tuple_id: TupleId, value: Any, seats: int) -> int:
    """All to the first seat; the others stand by."""
    return 0
