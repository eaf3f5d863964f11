"""The tables of a topology that are tables at all, for the checks that look at several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.topology.graph import sort_stages
from holdfast.topology.security import Security
from holdfast.topology.settings import is_sound
from holdfast.topology.sinks import Sink
from holdfast.topology.spans import Span
from holdfast.topology.stages import Replica, Stage
from holdfast.topology.streams import Stream

if TYPE_CHECKING:
    from holdfast.topology.topology import Topology

__all__ = ["Sound"]

Table = TypeVar("Table")


@dataclass(frozen=True)
class Sound:
    """What can be looked at. Fields may still be wrong: ask `is_sound` before."""

    bucket: Span | None
    security: Security | None
    streams: Mapping[str, Stream]
    stages: Mapping[str, Stage]
    sinks: Mapping[str, Sink]
    spoilt: frozenset[str]
    """Names of streams and stages that are no tables: told once, and not missed elsewhere."""

    @classmethod
    def of(cls, topology: Topology) -> Sound:
        security = topology.security
        return cls(
            topology.bucket if is_sound(topology, "bucket") else None,
            security if isinstance(security, Security) else None,
            _tables(topology.streams, Stream),
            _tables(topology.stages, Stage),
            _tables(topology.sinks, Sink),
            frozenset([*_others(topology.streams, Stream), *_others(topology.stages, Stage)]),
        )

    @cached_property
    def inputs(self) -> Mapping[str, tuple[str, ...]]:
        """Of every stage those that exist."""
        known = {*self.streams, *self.stages}
        return {
            name: tuple(each for each in stage.inputs if each in known)
            if is_sound(stage, "inputs")
            else ()
            for name, stage in self.stages.items()
        }

    @cached_property
    def order(self) -> list[str]:
        """The stages, each after those it reads, but for cycles."""
        return sort_stages(self.inputs)

    def replicas(self, stage: str) -> Iterator[tuple[int, Replica]]:
        """The replicas of a stage whose address is one, with their numbers."""
        table = self.stages[stage]
        if is_sound(table, "replicas"):
            for number, replica in enumerate(table.replicas, 1):
                if isinstance(replica, Replica) and is_sound(replica, "address"):
                    yield number, replica


def _tables(tables: Any, kind: type[Table]) -> dict[str, Table]:
    if not isinstance(tables, Mapping):
        return {}
    return {
        name: table
        for name, table in tables.items()
        if isinstance(name, str) and isinstance(table, kind)
    }


def _others(tables: Any, kind: type) -> set[str]:
    if not isinstance(tables, Mapping):
        return set()
    return {name for name in tables if isinstance(name, str)} - set(_tables(tables, kind))
