"""The graph of a topology as plain mappings: order, cycles, layers, what lies downstream."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Final

__all__ = ["find_cycles", "layers_of", "most_after", "sort_stages"]

MOST_CYCLES: Final = 20
"""Nobody mends more of them at once."""

Inputs = Mapping[str, Sequence[str]]
"""The inputs of every stage; those that are no stages are where the graph begins."""


def sort_stages(inputs: Inputs) -> list[str]:
    """The stages, each after those it reads; those on or behind a cycle are left out."""
    waiting = {name: sum(each in inputs for each in read) for name, read in inputs.items()}
    readers = _readers(inputs)
    ready = deque(name for name, count in waiting.items() if count == 0)
    order = []
    while ready:
        name = ready.popleft()
        order.append(name)
        for reader in readers[name]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                ready.append(reader)
    return order


def find_cycles(inputs: Inputs) -> list[tuple[str, ...]]:
    """Some cycles that have no stage in common, each as it is read: a stage, its input, its input
    and so on."""
    left = {name: set(read) & set(inputs) for name, read in inputs.items()}
    for name in sort_stages(inputs):
        del left[name]
    cycles: list[tuple[str, ...]] = []
    while left and len(cycles) < MOST_CYCLES:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            # Given as predecessors, last equal to first.
            cycle = tuple(reversed(error.args[1][1:]))
            cycles.append(cycle)
            left = {name: read - set(cycle) for name, read in left.items() if name not in cycle}
        else:
            break
    return cycles


def layers_of(streams: Iterable[str], inputs: Inputs) -> list[list[str]]:
    """Streams first, then stages as early as all they read allows. Within a layer, those stand
    together that read the same."""
    depth = dict.fromkeys(streams, 0)
    for name in sort_stages(inputs):
        depth[name] = 1 + max((depth[each] for each in inputs[name]), default=0)
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name, level in depth.items():
        layers[level].append(name)
    place = {name: float(at) for at, name in enumerate(layers[0])} if layers else {}
    for layer in layers[1:]:
        middle = {
            name: sum(place[each] for each in inputs[name]) / len(inputs[name]) for name in layer
        }
        layer.sort(key=middle.__getitem__)
        place.update((name, float(at)) for at, name in enumerate(layer))
    return layers


def most_after(inputs: Inputs, through: Callable[[str, int], int]) -> dict[str, int]:
    """The most that lies downstream of every stream and stage, on any path.

    `through(stage, after)`: what a stage makes of the most that lies behind it.
    """
    most: dict[str, int] = defaultdict(int)
    for stage in reversed(sort_stages(inputs)):
        for each in inputs[stage]:
            most[each] = max(most[each], through(stage, most[stage]))
    return most


def _readers(inputs: Inputs) -> dict[str, list[str]]:
    readers: dict[str, list[str]] = defaultdict(list)
    for name, read in inputs.items():
        for each in read:
            readers[each].append(name)
    return readers
