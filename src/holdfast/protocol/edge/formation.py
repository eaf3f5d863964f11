"""Groups at the root: children are gathered until there are enough, intermediates in layers above.

A group is formed when the last child it needs registers, with the intermediates that have
registered by then; those that come later wait for the next group, and so do children beyond the
number, unless they say which group they want to join.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from holdfast.protocol.edge.joining import PaneMerge
from holdfast.protocol.edge.messages import (
    Guarantee,
    Query,
    Register,
    Registered,
    Roster,
    Sitting,
)
from holdfast.protocol.groups import Claim, Ownership

__all__ = ["Formation", "Group", "layers", "life_of", "name_of"]


def layers(nodes: Sequence[str], most: int) -> list[tuple[str, ...]]:
    """From the bottom: full layers, the rest on top."""
    return [tuple(nodes[at : at + most]) for at in range(0, len(nodes), most)]


REMEMBERED: Final = 600_000_000
"""Microseconds of event time that sensors are known after they have left: one may have been ahead
of all others."""


def name_of(sensor: str) -> str:
    """What a sensor is called in all its lives."""
    return sensor.partition("~")[0]


def life_of(sensor: str) -> int:
    """The number that it has after its name; 0 if it has none."""
    life = sensor.partition("~")[2]
    return int(life) if life.isdecimal() else 0


@dataclass
class Group:
    """A group as the root knows it. `freed`: by query, up to where it has all panes."""

    name: str
    members: tuple[str, ...]
    layers: list[tuple[str, ...]]
    home: tuple[Claim, ...]
    roster: Roster
    ownership: Ownership = field(init=False)
    merge: PaneMerge = field(init=False)
    freed: dict[str, int] = field(default_factory=dict)
    failed: tuple[str, ...] = ()
    homes: dict[int, str] = field(default_factory=dict)
    """To whom each partition goes back."""
    _joins: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ownership = Ownership(self.home)
        self.homes = {claim.partition: claim.node for claim in self.home} | self.homes
        self.merge = PaneMerge(claim.partition for claim in self.home)

    @property
    def nodes(self) -> tuple[str, ...]:
        return (*self.members, *(node for layer in self.layers for node in layer))

    @property
    def top(self) -> tuple[str, ...]:
        """Those who send to the root."""
        return self.layers[-1] if self.layers else self.members

    def admit(self, node: str) -> None:
        """A child joins: it gets its share of the partitions, each from one who has most of them.
        It claims them as one that comes back does, once it has a copy of them."""
        if node in self.members:
            return
        self.members = tuple(sorted((*self.members, node)))
        counts = Counter(self.homes.values())
        for _ in range(len(self.homes) // len(self.members)):
            richest = max(sorted(counts), key=lambda each: counts[each])
            moved = max(p for p, home in self.homes.items() if home == richest)
            self.homes[moved] = node
            counts[richest] -= 1
        self.ownership.rehome(self.homes)

    @property
    def present(self) -> list[Sitting]:
        """The sensors that take part now."""
        return [each for each in self.roster.sittings if each.end is None]

    def seat(self, *sittings: Sitting) -> None:
        """Sensors take part, or do so no longer. Those who left long before all that is still to
        come are forgotten."""
        floor = min(self.freed.values(), default=0)
        version = self.roster.version + 1
        origin = self.roster.origin if self.roster.sittings else sittings[0].start
        seated = {each.sensor: each for each in (*self.roster.sittings, *sittings)}
        kept = [e for e in seated.values() if e.end is None or e.end > floor - REMEMBERED]
        kept.sort(key=lambda each: each.sensor)
        self.roster = Roster(self.name, version, origin, tuple(kept))
        past = max((known for start, known in self._joins if start < floor), default=0)
        self._joins = [(floor - 1, past), *(each for each in self._joins if each[0] >= floor)]
        self._joins += [(each.start, version) for each in sittings if each.end is None]

    def least_roster(self, pane_end: int) -> int:
        """The version that knows all sensors that may have events in a pane."""
        return max((version for start, version in self._joins if start < pane_end), default=0)

    def place(
        self,
        node: str,
        root: str,
        queries: Mapping[str, Query],
        addresses: Mapping[str, str],
        guarantee: Guarantee,
    ) -> Registered:
        """What a node is told."""
        tiers = [self.members, *self.layers, (root,)]
        level = next(at for at, tier in enumerate(tiers) if node in tier)
        return Registered(
            self.name,
            tiers[level],
            self.home,
            tiers[level + 1],
            tiers[level - 1] if level else (),
            tuple(queries.values()),
            self.roster,
            dict(self.freed),
            {name: addresses[name] for name in (*self.nodes, root) if name in addresses},
            guarantee,
            self.ownership.claims,
            dict(self.homes),
        )


class Formation:
    def __init__(self, size: int, most_intermediates: int, spread: int) -> None:
        self._size = size
        self._most = most_intermediates
        self._spread = spread
        self._children: list[str] = []
        self._intermediates: list[str] = []
        self.groups: dict[str, Group] = {}
        self.addresses: dict[str, str] = {}

    def group_of(self, node: str) -> Group | None:
        return next((group for group in self.groups.values() if node in group.nodes), None)

    def register(self, message: Register) -> Group | None:
        """The group of the node, if there is one now."""
        self.addresses[message.node] = message.address
        group = self.group_of(message.node)
        if group is not None:
            return group
        if message.group in self.groups:
            group = self.groups[message.group]
            group.admit(message.node)
            return group
        waiting = self._children if message.role == "child" else self._intermediates
        if message.node not in waiting:
            waiting.append(message.node)
        if len(self._children) < self._size:
            return None
        return self._form()

    def _form(self) -> Group:
        members, self._children = tuple(sorted(self._children)), []
        above, self._intermediates = sorted(self._intermediates), []
        name = f"g{len(self.groups) + 1}"
        count = self._size * self._spread
        home = tuple(Claim(number, 1, members[number % self._size]) for number in range(count))
        empty = Roster(name, 0, 0, ())
        group = Group(name, members, layers(above, self._most), home, empty)
        self.groups[name] = group
        return group
