"""Random pipelines as the founding document makes them (§3.5.1): how many streams, how many of them
composite, how many operands, and how those are spread over the streams."""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass

__all__ = ["SIZES", "Topology", "generate", "in_degree", "length", "out_degree"]

Inputs = dict[str, list[str]]


@dataclass(frozen=True)
class Topology:
    """Simple streams, and composite ones with their inputs, each after what it takes."""

    name: str
    sources: list[str]
    composites: Inputs

    @property
    def edges(self) -> int:
        return sum(len(inputs) for inputs in self.composites.values())

    def degrees(self) -> dict[str, float]:
        """As Table 3.1 has them: over all streams."""
        nodes = [*self.sources, *self.composites]
        into = [len(self.composites.get(node, [])) for node in nodes]
        taken = [name for inputs in self.composites.values() for name in inputs]
        out = [taken.count(node) for node in nodes]
        return {
            "nodes": len(nodes),
            "edges": self.edges,
            "sources": len(self.sources),
            "sinks": out.count(0),
            "mean in": self.edges / len(nodes),
            "max in": max(into),
            "sd in": statistics.pstdev(into),
            "max out": max(out),
            "sd out": statistics.pstdev(out),
        }

    def depth(self) -> int:
        depth: dict[str, int] = {}
        for name, inputs in self.composites.items():
            depth[name] = 1 + max(depth.get(each, 0) for each in inputs)
        return max(depth.values(), default=0)


SIZES = {
    # Nodes, sources and edges of Table 3.1; the rest follows from the seed.
    "1 small": (21, 11, 30),
    "2 small": (19, 9, 37),
    "3 medium": (42, 17, 149),
    "4 medium": (43, 18, 151),
    "5 big": (80, 30, 423),
    "6 big": (74, 24, 458),
}


def generate(name: str, nodes: int, sources: int, edges: int, seed: int) -> Topology:
    """Every composite stream has at least one input, and every source is taken by someone."""
    rng = random.Random(f"{name}/{seed}")
    simple = [f"s{n}" for n in range(sources)]
    made = [f"c{n}" for n in range(nodes - sources)]
    composites: Inputs = {}
    for at, each in enumerate(made):
        before = simple + made[:at]
        composites[each] = (
            [rng.choice(made[at - 1 : at] or simple)] if at % 3 else [rng.choice(before)]
        )
    for source in simple:
        if not any(source in inputs for inputs in composites.values()):
            composites[rng.choice(made)].append(source)
    # A few streams have many operands, most have few.
    weights = [rng.paretovariate(1.0) for _ in made]
    while sum(map(len, composites.values())) < edges:
        at = rng.choices(range(len(made)), weights)[0]
        free = [x for x in simple + made[:at] if x not in composites[made[at]]]
        if free:
            composites[made[at]].append(rng.choice(free))
    return Topology(name, simple, composites)


def length(streams: int) -> Topology:
    names = ["s0", *(f"c{n}" for n in range(streams - 1))]
    chain = {names[at]: [names[at - 1]] for at in range(1, streams)}
    return Topology(f"length {streams}", ["s0"], chain)


def in_degree(streams: int) -> Topology:
    sources = [f"s{n}" for n in range(streams - 1)]
    return Topology(f"in-degree {streams - 1}", sources, {"c0": sources})


def out_degree(streams: int) -> Topology:
    composites = {f"c{n}": ["s0"] for n in range(streams - 1)}
    return Topology(f"out-degree {streams - 1}", ["s0"], composites)
