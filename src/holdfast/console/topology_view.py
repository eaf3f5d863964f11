"""Shape of a topology for the page: its parties, and who reads whom."""

from __future__ import annotations

import math
from typing import Any

from holdfast.pipeline.topology import Party, PartyKind, Topology
from holdfast.pipeline.topology.drawing import boxes_of


def outline_of(topology: Topology) -> dict[str, Any]:
    """Boxes from left to right, with their parties and what they read."""
    boxes = boxes_of(topology)
    parties = topology.parties()
    members: dict[str, list[str]] = {}
    for party in parties.values():
        members.setdefault(party.table, []).append(party.name)
    return {
        "name": topology.name,
        "bucket_ms": int(topology.bucket) / 1000,
        "layers": topology.layers(),
        "boxes": {
            name: {
                "kind": box.kind.value,
                "inputs": box.inputs,
                "facts": box.facts,
                "parties": members[name],
                "gate": box.facts[0] if box.kind is PartyKind.REPLICA else None,
                "max_delay_ms": _max_delay(topology, name),
            }
            for name, box in boxes.items()
        },
        "parties": {
            party.name: {
                "box": party.table,
                "kind": party.kind.value,
                "host": party.host,
                "reads": _reads(topology, party),
            }
            for party in parties.values()
        },
        "streams": [*topology.streams, *topology.stages],
        "leaves": leaves(topology),
    }


def leaves(topology: Topology) -> list[str]:
    """The streams that no stage reads: what the topology is for. Those with most before them come
    first."""
    read = {each for stage in topology.stages.values() for each in stage.inputs}
    layers = [[name for name in layer if name not in topology.sinks] for layer in topology.layers()]
    return [name for layer in reversed(layers) for name in layer if name not in read]


def _reads(topology: Topology, party: Party) -> dict[str, tuple[str, ...]]:
    """The streams that it reads, and who publishes each."""
    match party.kind:
        case PartyKind.REPLICA:
            inputs = topology.stages[party.table].inputs
        case PartyKind.SINK:
            inputs = (topology.sinks[party.table].stream,)
        case PartyKind.SOURCE:
            inputs = ()
    return {stream: topology.publishers(stream) for stream in inputs}


def _max_delay(topology: Topology, name: str) -> float | None:
    stage = topology.stages.get(name)
    if stage is None or stage.policy != "switch" or stage.max_delay == math.inf:
        return None
    return float(stage.max_delay) / 1000
