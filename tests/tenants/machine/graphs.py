"""Random graphs of streams with one number each, for the reference and for the real thing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from holdfast.tenants.machine.documents import Channel, Input, Query, Stream
from holdfast.tenants.machine.settling import ExpressionError, Node
from tests.tenants.machine import reference

NUMBER = {"n": Channel("integer")}
ANY = Query({"kind": "any"}, {"n": "integer"})


@dataclass(frozen=True)
class Described:
    """A composite stream: the sum of its inputs and a constant."""

    name: str
    inputs: tuple[tuple[str, ...], ...]
    queries: frozenset[int]
    optional: frozenset[int]
    constant: int
    drops: int
    """Sums that it divides are filtered out; 0: none."""
    fails: int
    """Sums that it divides are errors; 0: none."""
    groups: int
    """So many partitions by the sum; 0: none of its own."""

    @property
    def aliases(self) -> list[str]:
        return [f"i{number}" for number in range(len(self.inputs))]

    def total(self, given: Mapping[str, Any]) -> int:
        return (
            self.constant
            + sum(
                (3 * number + 1) * given[alias]["n"]
                for number, alias in enumerate(self.aliases)
                if given.get(alias) is not None
            )
            % 1009
        )

    def operation(self, given: dict[str, Any]) -> dict[str, Any] | None:
        total = self.total(given)
        if self.drops and total % self.drops == 0:
            return None
        if self.fails and total % self.fails == 0:
            raise ZeroDivisionError
        return {"n": total}

    def group(self, given: dict[str, Any]) -> str:
        return f"k{self.total(given) % self.groups}"

    def as_reference(self) -> reference.Stream:
        return reference.Stream(
            {alias: list(paths) for alias, paths in zip(self.aliases, self.inputs, strict=True)},
            {f"i{number}" for number in self.queries},
            {f"i{number}" for number in self.optional},
            self.operation,
            self.group if self.groups else None,
        )

    def as_node(self) -> Node:
        inputs = {
            alias: Input(
                None if number in self.queries else "x/y/z",
                ANY if number in self.queries else None,
                number in self.optional,
            )
            for number, alias in enumerate(self.aliases)
        }
        stream = Stream(NUMBER, inputs=inputs, group="group" if self.groups else None)
        return Node(self.name, stream, dict(zip(self.aliases, self.inputs, strict=True)))


class Summing:
    """A description as a calculation."""

    work = 10
    lifting = 1

    def __init__(self, described: Described) -> None:
        self._described = described

    def _given(self, scope: Mapping[str, Any]) -> dict[str, Any]:
        return {
            alias: {"n": scope[f"{alias}.n"]} if scope[f"{alias}._present"] else None
            for alias in self._described.aliases
        }

    def passes(self, scope: Mapping[str, Any]) -> bool:
        total = self._described.total(self._given(scope))
        return not (self._described.drops and total % self._described.drops == 0)

    def key(self, scope: Mapping[str, Any]) -> str:
        return self._described.group(self._given(scope))

    def lift(self, name: str, scope: Mapping[str, Any]) -> Any:
        raise AssertionError("no aggregates here")

    def values(self, scope: Mapping[str, Any]) -> dict[str, Any]:
        try:
            made = self._described.operation(self._given(scope))
        except ZeroDivisionError as error:
            raise ExpressionError("division by zero") from error
        assert made is not None
        return made

    def calls(self, scope: Mapping[str, Any]) -> Sequence[str]:
        return ()

    def columns(
        self, inputs: Mapping[str, Mapping[str, list[Any]]], count: int
    ) -> dict[str, list[Any]]:
        made = []
        for row in range(count):
            scope = {f"{alias}.n": columns["n"][row] for alias, columns in inputs.items()}
            present = {f"{alias}._present": True for alias in inputs}
            made.append(self.values({**scope, **present})["n"])
        return {"n": made}


@st.composite
def graphs(draw: st.DrawFn, most: int = 6) -> tuple[list[str], list[Described]]:
    """Simple streams and composite ones, of two tenants, with diamonds, cycles and self inputs."""
    simple = [f"{'ab'[number % 2]}/o/s{number}" for number in range(draw(st.integers(1, 3)))]
    names = [f"{'ab'[number % 2]}/o/c{number}" for number in range(draw(st.integers(1, most)))]
    described = []
    for name in names:
        inputs = draw(
            st.lists(
                st.lists(st.sampled_from([*simple, *names]), min_size=1, max_size=3, unique=True),
                min_size=1,
                max_size=3,
            )
        )
        queries = frozenset(n for n, paths in enumerate(inputs) if len(paths) > 1)
        paths = [tuple(sorted(set(p) - {name})) if len(p) > 1 else tuple(p) for p in inputs]
        described.append(
            Described(
                name,
                tuple(paths),
                queries,
                frozenset(draw(st.sets(st.integers(0, 2), max_size=3))),
                draw(st.integers(0, 20)),
                draw(st.sampled_from([0, 0, 3])),
                draw(st.sampled_from([0, 0, 5])),
                draw(st.sampled_from([0, 0, 0, 2, 3])),
            )
        )
    return simple, described


def publications(simple: Sequence[str]) -> st.SearchStrategy[list[tuple[str, int, int]]]:
    """Updates in any order: stream, timestamp by a clock that may be skewed, value."""
    skew = st.fixed_dictionaries({name: st.sampled_from([0, 0, 5, -5, 50]) for name in simple})
    raw = st.lists(
        st.tuples(st.sampled_from(list(simple)), st.integers(0, 4), st.integers(0, 30)),
        min_size=1,
        max_size=14,
    )

    def clocked(given: tuple[dict[str, int], list[tuple[str, int, int]]]) -> list[Any]:
        skews, updates = given
        now, found = 100, []
        for stream, step, value in updates:
            now += step
            found.append((stream, now + skews[stream], value))
        return found

    return st.tuples(skew, raw).map(clocked)
