"""How far the operators above have come with the tuples of each source.

A replica says up to which tuple all that its operator makes of them is known below: as far as it
can see. The least that any live one of them says is right, whatever one that came back has missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.protocol.sharing.books import Book
from holdfast.protocol.sharing.plan import Plan
from holdfast.protocol.sharing.tables import SharedTable

__all__ = ["Marks"]


class Marks:
    """Raises the marks of a table by what those above say."""

    def __init__(
        self, plan: Plan, operator: str, books: Mapping[str, Book], table: SharedTable
    ) -> None:
        self._plan = plan
        self._books = books
        self._table = table
        self._above = {
            origin: tuple(each for each in plan.above(operator) if origin in plan.origins[each])
            for origin in plan.origins[operator]
        }
        self._said: dict[str, dict[str, int]] = {}

    def take(self, sender: str, marks: Iterable[tuple[str, int]]) -> None:
        said = self._said.setdefault(sender, {})
        for origin, mark in marks:
            if origin in self._above and mark > said.get(origin, 0):
                said[origin] = mark
                self._raise(origin)

    def look(self) -> None:
        """Somebody above has been taken over from, or is back."""
        for origin in self._above:
            self._raise(origin)

    def _raise(self, origin: str) -> None:
        least = min(
            self._said.get(name, {}).get(origin, 0)
            for operator in self._above[origin]
            for name in self._speakers(operator, origin)
        )
        self._table.raise_mark(origin, least)

    def _speakers(self, operator: str, origin: str) -> tuple[str, ...]:
        if self._plan.of(origin) == operator:
            return (origin,)
        return self._books[operator].live or self._books[operator].replicas
