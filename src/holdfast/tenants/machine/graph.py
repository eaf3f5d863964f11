"""Graph of streams: cycles, order, depth, novelty, independent parts.

Edges run from a stream to those that take it as an input. All orders are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

N = TypeVar("N", bound=Hashable)

Edges = Mapping[N, Iterable[N]]


def components(nodes: Sequence[N], edges: Edges[N]) -> list[list[N]]:
    """Cycles as one, those before others first (Tarjan, without recursion)."""
    index: dict[N, int] = {}
    low: dict[N, int] = {}
    on_path: set[N] = set()
    path: list[N] = []
    found: list[list[N]] = []
    for start in nodes:
        if start in index:
            continue
        work = [(start, iter(tuple(edges.get(start, ()))))]
        index[start] = low[start] = len(index)
        path.append(start)
        on_path.add(start)
        while work:
            node, others = work[-1]
            for other in others:
                if other not in index:
                    index[other] = low[other] = len(index)
                    path.append(other)
                    on_path.add(other)
                    work.append((other, iter(tuple(edges.get(other, ())))))
                    break
                if other in on_path:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = _last_index(path, node)
                    found.append(path[at:])
                    on_path.difference_update(path[at:])
                    del path[at:]
    found.reverse()
    return found


def _last_index(path: Sequence[N], node: N) -> int:
    at = len(path) - 1
    while path[at] != node:
        at -= 1
    return at


def depths(nodes: Sequence[N], edges: Edges[N]) -> dict[N, int]:
    """How many streams stand before each on the longest way to it; a cycle counts once for each of
    its members."""
    depth: dict[N, int] = {}
    before: dict[N, int] = {}
    for cycle in components(nodes, edges):
        entry = max((before.get(node, 0) for node in cycle), default=0)
        reached = entry + len(cycle) - 1
        for node in cycle:
            depth[node] = reached
            for other in edges.get(node, ()):
                before[other] = max(before.get(other, 0), reached + 1)
    return depth


def sources_of(nodes: Sequence[N], edges: Edges[N]) -> dict[N, frozenset[N]]:
    """For each stream the simple streams whose data are in it; a simple one has itself."""
    into: dict[N, list[N]] = {node: [] for node in nodes}
    for node in nodes:
        for other in edges.get(node, ()):
            if other in into and other != node:
                into[other].append(node)
    found: dict[N, frozenset[N]] = {}
    for cycle in components(nodes, edges):
        inside = set(cycle)
        before = [other for node in cycle for other in into[node] if other not in inside]
        union = frozenset().union(*(found[other] for other in before))
        for node in cycle:
            found[node] = union if before or len(cycle) > 1 else frozenset([node])
    return found


def novelty(nodes: Sequence[N], edges: Edges[N]) -> dict[N, int]:
    """How far a stream is from the last new source on the way to it; 0 where it brings one itself.

    A stream brings a new source if it has several inputs, one of them with a source that no other
    has; an edge that closes a cycle brings none. The larger the number, the more a stream tells
    what others tell.
    """
    sources = sources_of(nodes, edges)
    into: dict[N, list[N]] = {node: [] for node in nodes}
    for node in nodes:
        for other in edges.get(node, ()):
            if other in into and other != node:
                into[other].append(node)
    distance: dict[N, int] = {}
    for cycle in components(nodes, edges):
        inside = set(cycle)
        for _ in cycle:
            for node in cycle:
                before = [other for other in into[node] if other not in inside]
                distance[node] = _distance(before or into[node], sources, distance)
    return distance


def _distance(
    inputs: Sequence[N], sources: Mapping[N, frozenset[N]], distance: Mapping[N, int]
) -> int:
    if not inputs:
        return 0
    for each in inputs:
        others = frozenset().union(*(sources[other] for other in inputs if other != each))
        if len(inputs) > 1 and sources[each] - others:
            return 0
    known = [distance[each] for each in inputs if each in distance]
    return 1 + min(known, default=0)


def parts(groups: Iterable[Iterable[N]]) -> list[list[N]]:
    """Groups that share a member made one; in the order in which they began."""
    parent: dict[N, N] = {}

    def root(node: N) -> N:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for group in groups:
        first: N | None = None
        for node in group:
            parent.setdefault(node, node)
            if first is None:
                first = node
            else:
                here, there = root(first), root(node)
                if here != there:
                    parent[there] = here
    found: dict[N, list[N]] = {}
    for node in parent:
        found.setdefault(root(node), []).append(node)
    return list(found.values())
