"""What streams of tenants must come to, in plain Python: no queue, no ranks, no expressions.

Written before and apart from `holdfast.tenants.machine`: everything is recalculated, who may
run is found by looking at all ways through the graph, and operations are Python functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Row = tuple[int, dict[str, Any]]
"""Timestamp and values."""


@dataclass
class Stream:
    """`operation` is given the inputs' values by name, with None for those that have brought
    nothing, and answers values, or None if the filter held it back; it may raise."""

    inputs: dict[str, list[str]] = field(default_factory=dict)
    """By name: one stream, or all members of a query."""
    queries: set[str] = field(default_factory=set)
    optional: set[str] = field(default_factory=set)
    operation: Callable[[dict[str, Any]], dict[str, Any] | None] = lambda inputs: {}
    group: Callable[[dict[str, Any]], str] | None = None


@dataclass
class Emitted:
    stream: str
    key: str
    timestamp: int
    values: dict[str, Any]
    position: int


class Reference:
    def __init__(self, most_runs: int = 100) -> None:
        self.streams: dict[str, Stream] = {}
        self.emitted: list[Emitted] = []
        self.late: list[tuple[str, int]] = []
        self.failed: list[tuple[str, int]] = []
        self.starved: list[tuple[str, int]] = []
        self.position = 0
        self.most_runs = most_runs
        self._ways: dict[str, set[str]] = {}

    def last(self, stream: str, key: str | None) -> Emitted | None:
        """Of one partition, or of all of them."""
        found = [e for e in self.emitted if e.stream == stream and (key is None or e.key == key)]
        return found[-1] if found else None

    def seen_by(self, source: str, key: str) -> Emitted | None:
        """The partition that the calculation is about; of a stream without partitions, the one."""
        if key == "":
            return self.last(source, None)
        return self.last(source, key) or self.last(source, "")

    def publish(self, stream: str, timestamp: int, values: dict[str, Any], key: str = "") -> None:
        self.position += 1
        before = self.last(stream, key)
        if before is not None and timestamp <= before.timestamp:
            self.late.append((stream, self.position))
            return
        self.emitted.append(Emitted(stream, key, timestamp, values, self.position))
        runs: dict[str, int] = {}
        # What is to be calculated: stream, key, member of a query; with the hops inside its cycle
        # and the newest timestamp that asks for it.
        due: dict[tuple[str, str, str], tuple[int, int]] = {}
        self._ask(due, stream, key, timestamp, 0)
        while due:
            unit = self._next(due)
            hops, asked = due.pop(unit)
            name = unit[0]
            runs[name] = runs.get(name, 0) + 1
            if runs[name] > self.most_runs:
                if runs[name] == self.most_runs + 1:
                    self.failed.append((name, self.position))
                continue
            made = self._calculate(unit, asked)
            if made is not None:
                self.emitted.append(made)
                self._ask(due, name, made.key, made.timestamp, hops + 1)

    def _ask(self, due: dict, source: str, key: str, timestamp: int, hops: int) -> None:
        for name, stream in self.streams.items():
            if name == source:
                continue
            for alias, members in stream.inputs.items():
                if source in members:
                    unit = (name, key, source if alias in stream.queries else "")
                    same = self._in_one_cycle(source, name)
                    old = due.get(unit, (10**9, -(10**18)))
                    due[unit] = (min(old[0], hops if same else 0), max(old[1], timestamp))

    def _ways_from(self, start: str) -> set[str]:
        if start not in self._ways:
            self._ways[start] = self._find_ways_from(start)
        return self._ways[start]

    def _find_ways_from(self, start: str) -> set[str]:
        found: set[str] = set()
        front = {start}
        while front:
            front = {
                name
                for name, stream in self.streams.items()
                if any(set(members) & front for members in stream.inputs.values())
            } - found
            found |= front
        return found

    def _in_one_cycle(self, one: str, other: str) -> bool:
        return other in self._ways_from(one) and one in self._ways_from(other)

    def _next(self, due: dict) -> tuple[str, str, str]:
        """One that no other may still change, but those of its own cycle."""
        free = [
            unit
            for unit in due
            if not any(
                unit[0] in self._ways_from(other[0]) and not self._in_one_cycle(unit[0], other[0])
                for other in due
                if other[0] != unit[0]
            )
        ]
        return min(free, key=lambda unit: (due[unit][0], unit))

    def _calculate(self, unit: tuple[str, str, str], asked: int) -> Emitted | None:
        name, key, member = unit
        stream = self.streams[name]
        seen: dict[str, Emitted | None] = {}
        for alias, members in stream.inputs.items():
            if alias in stream.queries and member in members:
                seen[alias] = self.seen_by(member, key)
            else:
                found = [e for e in (self.seen_by(each, key) for each in members) if e]
                seen[alias] = max(found, key=lambda e: (e.timestamp, e.stream), default=None)
        own = {alias for alias, members in stream.inputs.items() if members == [name]}
        missing = [
            alias
            for alias in seen
            if seen[alias] is None and alias not in stream.optional and alias not in own
        ]
        if stream.group is None and self._is_old(name, key, asked):
            return None
        if missing:
            return None
        values = {alias: None if e is None else e.values for alias, e in seen.items()}
        try:
            out_key = key if stream.group is None else stream.group(values)
            if self._is_old(name, out_key, asked):
                return None
            result = stream.operation(values)
        except ArithmeticError:
            self.failed.append((name, self.position))
            return None
        if result is None:
            return None
        newest = max([e.timestamp for e in seen.values() if e] + [asked])
        return Emitted(name, out_key, newest, result, self.position)

    def _is_old(self, name: str, key: str, asked: int) -> bool:
        before = self.last(name, key)
        if before is None or asked > before.timestamp:
            return False
        if before.position < self.position:
            self.starved.append((name, self.position))
        return True
