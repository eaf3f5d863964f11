"""A map from replicas to what each of them wrote, and the replicas that are retired.

The lattice under all types of this package: of each replica the greater entry, of the retired the
union, and no entry of one that is retired. It is a join semilattice if entries are totally ordered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from holdfast.errors import InvalidArgumentError

__all__ = ["Entries"]

E = TypeVar("E")


@dataclass(frozen=True)
class Entries(Generic[E]):
    """`exceeds(one, other)`: the strict total order of entries."""

    exceeds: Callable[[E, E], bool]
    written: Mapping[str, E] = field(default_factory=dict)
    retired: frozenset[str] = frozenset()

    def join(self, other: Entries[E]) -> Entries[E]:
        """The least upper bound of both."""
        retired = self.retired | other.retired
        both = dict(self.written)
        for replica, entry in other.written.items():
            if replica not in both or self.exceeds(entry, both[replica]):
                both[replica] = entry
        if retired:
            both = {replica: entry for replica, entry in both.items() if replica not in retired}
        return Entries(self.exceeds, both, retired)

    def beyond(self, other: Entries[E]) -> Entries[E]:
        """The least state that brings `other` up to the join of both: nothing that it has."""
        news = {
            replica: entry
            for replica, entry in self.written.items()
            if replica not in other.retired
            and (replica not in other.written or self.exceeds(entry, other.written[replica]))
        }
        return Entries(self.exceeds, news, self.retired - other.retired)

    def is_within(self, other: Entries[E]) -> bool:
        """The partial order: `other` has all that is here."""
        news = self.beyond(other)
        return not news.written and not news.retired

    def wrote(self, replica: str, entry: E) -> Entries[E]:
        """The delta in which a replica has written this."""
        self.check_writer(replica)
        return Entries(self.exceeds, {replica: entry})

    def retire(self, replica: str, into: str, entry: E) -> Entries[E]:
        """The delta that retires a replica whose entry was taken into that of another one."""
        if replica == into:
            raise InvalidArgumentError(f"retire: {replica!r} into itself; give another replica")
        self.check_writer(into)
        return Entries(self.exceeds, {into: entry}, frozenset([replica]))

    def check_writer(self, replica: str) -> None:
        if replica in self.retired:
            raise InvalidArgumentError(
                f"replica {replica!r} is retired; let it write under a new name"
            )
