"""Aggregates of several writers, over the partials of `holdfast.edge.machine.aggregates`.

`combine` of a count, sum, mean, variance, top_k or quantiles is no join: a partial that is combined
twice counts twice. `PerReplica` makes a join of any of them. `combine` of the extremes and of
HyperLogLog registers is a join by itself, and `Shared` uses it: one partial, however many replicas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from holdfast.crdt.entries import Entries
from holdfast.edge.machine.aggregates import Aggregate, Partial, decode_partial
from holdfast.errors import InvalidArgumentError

__all__ = ["JOINS", "PerReplica", "Shared", "Versioned"]

JOINS: Final = ("min", "max", "range", "distinct")
"""The kinds whose `combine` is idempotent: `Shared` carries them."""


class Versioned(NamedTuple):
    """A replica's partial after so many of its own additions."""

    version: int
    partial: Partial


def _exceeds(one: Versioned, other: Versioned) -> bool:
    if one.version != other.version:
        return one.version > other.version
    # Where these differ two processes wrote under one name: the same one must win everywhere. Bytes
    # tell 0.0 from -0.0 and take NaN for NaN.
    return msgspec.msgpack.encode(one.partial) > msgspec.msgpack.encode(other.partial)


def _nothing() -> Entries[Versioned]:
    return Entries(_exceeds)


@dataclass(frozen=True)
class PerReplica:
    """An aggregate of any kind: for each replica the partial of what it added itself."""

    aggregate: Aggregate
    entries: Entries[Versioned] = field(default_factory=_nothing)

    @property
    def partials(self) -> Mapping[str, Versioned]:
        return self.entries.written

    def value(self) -> Any:
        """The answer of the aggregate; partials are combined in the order of replicas' names."""
        return self.aggregate.answer(
            self.aggregate.combine_all(
                self.partials[replica].partial for replica in sorted(self.partials)
            )
        )

    def add(self, replica: str, values: NDArray[np.float64]) -> PerReplica:
        """The delta of an addition: the replica's whole new partial."""
        version, partial = self._of(replica)
        entry = Versioned(version + 1, self.aggregate.add(partial, values))
        return PerReplica(self.aggregate, self.entries.wrote(replica, entry))

    def join(self, other: PerReplica) -> PerReplica:
        _check_alike(self.aggregate, other.aggregate)
        return PerReplica(self.aggregate, self.entries.join(other.entries))

    def beyond(self, other: PerReplica) -> PerReplica:
        """What `other` lacks."""
        _check_alike(self.aggregate, other.aggregate)
        return PerReplica(self.aggregate, self.entries.beyond(other.entries))

    def is_within(self, other: PerReplica) -> bool:
        _check_alike(self.aggregate, other.aggregate)
        return self.entries.is_within(other.entries)

    def retire(self, replica: str, into: str) -> PerReplica:
        """The delta that moves the partial of a replica which will not write again.

        Called by the process that writes `into`, by one process for each retired replica, and when
        it has all that the replica wrote: what it lacks is gone with the replica.
        """
        version, partial = self._of(into)
        whole = self.aggregate.combine(partial, self._of(replica).partial)
        entries = self.entries.retire(replica, into, Versioned(version + 1, whole))
        return PerReplica(self.aggregate, entries)

    def encode(self) -> bytes:
        """The state as bytes, the same for equal states."""
        written = [(replica, *self.partials[replica]) for replica in sorted(self.partials)]
        return msgspec.msgpack.encode((written, sorted(self.entries.retired)))

    def decode(self, data: bytes) -> PerReplica:
        """The state of the same aggregate that was encoded."""
        written, retired = msgspec.msgpack.decode(
            data, type=tuple[list[tuple[str, int, Any]], frozenset[str]]
        )
        entries = {
            replica: Versioned(version, decode_partial(partial))
            for replica, version, partial in written
        }
        return PerReplica(self.aggregate, Entries(_exceeds, entries, retired))

    def _of(self, replica: str) -> Versioned:
        return self.partials.get(replica) or Versioned(0, self.aggregate.empty())


@dataclass(frozen=True)
class Shared:
    """An aggregate of the kinds in `JOINS`: one partial that all replicas write."""

    aggregate: Aggregate
    partial: Partial = None

    def __post_init__(self) -> None:
        if self.aggregate.kind not in JOINS:
            raise InvalidArgumentError(
                f"Shared: combining a {self.aggregate.kind} twice counts twice; use PerReplica, or "
                f"one of {', '.join(JOINS)}"
            )
        if self.partial is None:
            object.__setattr__(self, "partial", self.aggregate.empty())

    def value(self) -> Any:
        return self.aggregate.answer(self.partial)

    def add(self, values: NDArray[np.float64]) -> Shared:
        """The delta of an addition."""
        return Shared(self.aggregate, self.aggregate.add(self.aggregate.empty(), values))

    def join(self, other: Shared) -> Shared:
        _check_alike(self.aggregate, other.aggregate)
        return Shared(self.aggregate, self.aggregate.combine(self.partial, other.partial))

    def is_within(self, other: Shared) -> bool:
        return bool(self.join(other).partial == other.partial)

    def beyond(self, other: Shared) -> Shared:
        """What `other` lacks: all or nothing."""
        return Shared(self.aggregate) if self.is_within(other) else self

    def encode(self) -> bytes:
        """The state as bytes, the same for equal states."""
        return msgspec.msgpack.encode(self.partial)

    def decode(self, data: bytes) -> Shared:
        """The state of the same aggregate that was encoded."""
        return Shared(self.aggregate, decode_partial(msgspec.msgpack.decode(data)))


def _check_alike(one: Aggregate, other: Aggregate) -> None:
    if one != other:
        raise InvalidArgumentError(
            f"join: {one.kind} with {dict(one.options)} and {other.kind} with "
            f"{dict(other.options)}; join states of the same aggregate and options"
        )
