"""Who is there: operators, their replicas, and who gives tuples to whom.

Operators that nobody gives tuples to are sources, those that give to nobody are sinks. A sink has
one replica: what is delivered there is filtered in one place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from holdfast.errors import InvalidArgumentError

__all__ = ["Operator", "Plan"]


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
