"""Counters of several writers: GCounter and PNCounter, with delta-mutators and retirement."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.crdt.entries import Entries
from holdfast.errors import InvalidArgumentError

__all__ = ["GCounter", "PNCounter"]


def _nothing() -> Entries[float]:
    return Entries(operator.gt)


@dataclass(frozen=True)
class GCounter:
    """A counter that only grows: for each replica the sum of its own increments."""

    entries: Entries[float] = field(default_factory=_nothing)

    @property
    def counts(self) -> Mapping[str, float]:
        return self.entries.written

    def value(self) -> float:
        return sum(self.counts[replica] for replica in sorted(self.counts))

    def increment(self, replica: str, by: float = 1) -> GCounter:
        """The delta of an increment: the replica's new count, not the step."""
        if not (by >= 0 and math.isfinite(by)):
            raise InvalidArgumentError(f"increment: by is {by!r}; give a finite number from 0 on")
        return GCounter(self.entries.wrote(replica, self.counts.get(replica, 0) + by))

    def join(self, other: GCounter) -> GCounter:
        return GCounter(self.entries.join(other.entries))

    def beyond(self, other: GCounter) -> GCounter:
        """What `other` lacks."""
        return GCounter(self.entries.beyond(other.entries))

    def is_within(self, other: GCounter) -> bool:
        return self.entries.is_within(other.entries)

    def retire(self, replica: str, into: str) -> GCounter:
        """The delta that moves the count of a replica which will not write again.

        Called by the process that writes `into`, by one process for each retired replica, and when
        it has all that the replica wrote: what it lacks is gone with the replica.
        """
        count = self.counts.get(into, 0) + self.counts.get(replica, 0)
        return GCounter(self.entries.retire(replica, into, count))


@dataclass(frozen=True)
class PNCounter:
    """A counter that goes up and down: increments less decrements."""

    increments: GCounter = field(default_factory=GCounter)
    decrements: GCounter = field(default_factory=GCounter)

    def value(self) -> float:
        return self.increments.value() - self.decrements.value()

    def increment(self, replica: str, by: float = 1) -> PNCounter:
        """The delta of an increment."""
        return PNCounter(self.increments.increment(replica, by), GCounter())

    def decrement(self, replica: str, by: float = 1) -> PNCounter:
        """The delta of a decrement."""
        return PNCounter(GCounter(), self.decrements.increment(replica, by))

    def join(self, other: PNCounter) -> PNCounter:
        return PNCounter(
            self.increments.join(other.increments), self.decrements.join(other.decrements)
        )

    def beyond(self, other: PNCounter) -> PNCounter:
        """What `other` lacks."""
        return PNCounter(
            self.increments.beyond(other.increments), self.decrements.beyond(other.decrements)
        )

    def is_within(self, other: PNCounter) -> bool:
        return self.increments.is_within(other.increments) and self.decrements.is_within(
            other.decrements
        )

    def retire(self, replica: str, into: str) -> PNCounter:
        """As that of `GCounter`."""
        return PNCounter(
            self.increments.retire(replica, into), self.decrements.retire(replica, into)
        )
