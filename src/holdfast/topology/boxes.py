"""What the drawings of a topology say about each stream, stage and sink."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.topology.gates import VOTING
from holdfast.topology.parties import PartyKind
from holdfast.topology.sinks import SINKS, Sink, SqlTable
from holdfast.topology.stages import Function, Join, Stage, Step, Window
from holdfast.topology.streams import SOURCES

if TYPE_CHECKING:
    from holdfast.topology.topology import Topology

__all__ = ["Box", "boxes_of"]

LONGEST_LINE = 44
MOST_REPLICAS = 8


@dataclass(frozen=True, slots=True)
class Box:
    """One box of a drawing."""

    name: str
    kind: PartyKind
    inputs: tuple[str, ...]
    facts: tuple[str, ...]
    """A line each."""
    replicas: tuple[str, ...] = ()
    """Of a stage: a line each."""

    @property
    def width(self) -> int:
        """In letters."""
        return max(map(len, (self.name, *self.facts, *self.replicas)))


def boxes_of(topology: Topology) -> Mapping[str, Box]:
    """All boxes by name."""
    boxes = {}
    for name, stream in topology.streams.items():
        word = next(word for word, kind in SOURCES.items() if isinstance(stream.source, kind))
        facts = [f"source {word}", stream.address]
        if stream.time is not None:
            late = f", {stream.lateness} late" if stream.lateness else ""
            facts.append(f"time {stream.time}{late}")
        boxes[name] = _box(name, PartyKind.SOURCE, (), facts)
    for name, stage in topology.stages.items():
        facts = [_gate(stage), *map(_step, stage.steps)]
        boxes[name] = _box(name, PartyKind.REPLICA, stage.inputs, facts, _replicas(topology, name))
    for name, sink in topology.sinks.items():
        word = next(word for word, kind in SINKS.items() if isinstance(sink.sink, kind))
        facts = [f"sink {word}"]
        # The URL of a database may hold a password.
        if isinstance(sink.sink, SqlTable):
            facts.append(f"table {sink.sink.table}")
        elif target := getattr(sink.sink, "path", getattr(sink.sink, "function", None)):
            facts.append(target)
        if sink.policy != "switch":
            facts.append(_comparison(sink))
        if sink.tentative:
            facts.append("tentative rows too")
        boxes[name] = _box(name, PartyKind.SINK, (sink.stream,), facts)
    return boxes


def _box(
    name: str,
    kind: PartyKind,
    inputs: tuple[str, ...],
    facts: list[str],
    replicas: tuple[str, ...] = (),
) -> Box:
    return Box(name, kind, inputs, tuple(map(_cut, facts)), tuple(map(_cut, replicas)))


def _cut(line: str) -> str:
    flat = " ".join(line.split())
    return flat if len(flat) <= LONGEST_LINE else flat[: LONGEST_LINE - 1] + "…"


def _gate(stage: Stage) -> str:
    if stage.policy == "switch":
        delay = "forever" if stage.max_delay == math.inf else str(stage.max_delay)
        return f"switch, max_delay {delay}"
    if stage.is_shared:
        return f"share, {stage.routing}, {stage.guarantee}"
    return _comparison(stage)


def _comparison(reader: Stage | Sink) -> str:
    if reader.policy not in VOTING:
        return reader.policy
    sampled = f", every {reader.every}" if reader.policy == "sample" else ""
    return f"{reader.policy}, faults {reader.faults}{sampled}"


def _step(step: Step) -> str:
    match step:
        case Join():
            return f"join {', '.join(step.keys)} within {step.within}"
        case Window():
            slide = "" if step.slide in (None, step.size) else f" every {step.slide}"
            keys = f" by {', '.join(step.keys)}" if step.keys else ""
            return f"window {step.size}{slide}{keys}"
        case Function():
            return f"function {step.function}"
        case _:
            return type(step).__name__.lower()


def _replicas(topology: Topology, stage: str) -> tuple[str, ...]:
    replicas = topology.stages[stage].replicas
    lines = [
        f"{number} {replica.address}{f' on {replica.host}' if replica.host else ''}"
        for number, replica in enumerate(replicas[:MOST_REPLICAS], 1)
    ]
    if len(replicas) > MOST_REPLICAS:
        lines.append(f"and {len(replicas) - MOST_REPLICAS} more")
    return tuple(lines)
