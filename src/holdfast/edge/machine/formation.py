"""Formation of groups at the root.

Children beyond the plan join a group that is formed, if they say which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from holdfast.edge.machine.intermediate import PaneMerge, weigh
from holdfast.edge.machine.messages import (
    Guarantee,
    Query,
    Register,
    Registered,
    Roster,
    Sitting,
)
from holdfast.groups import Claim, Ownership

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
        self.merge = PaneMerge((claim.partition for claim in self.home), weigh)

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
        life: tuple[int, int],
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
            *life,
        )


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A group as it is to be: its children, and the layers of intermediates above them, the lowest
    first."""

    name: str
    members: tuple[str, ...]
    layers: tuple[tuple[str, ...], ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        return (*self.members, *(node for layer in self.layers for node in layer))


class Formation:
    """Forms the groups of a plan. One is formed when all of its nodes have registered; or, `gather`
    after there were `least` children and one intermediate of each layer, without the others: they
    are held for dead until they come."""

    def __init__(self, plan: Sequence[GroupPlan], least: int, spread: int, gather: int) -> None:
        self._plans = {each.name: each for each in plan}
        self._least = least
        self._spread = spread
        self._gather = gather
        self._there: set[str] = set()
        self._enough_at: dict[str, int] = {}
        """By group that is not formed: since when there are enough."""
        self.groups: dict[str, Group] = {}
        self.addresses: dict[str, str] = {}
        self.lives: dict[str, tuple[int, int]] = {}
        """By node: the number that it gave to its last start, and the root's number for it."""

    def group_of(self, node: str) -> Group | None:
        return next((group for group in self.groups.values() if node in group.nodes), None)

    @property
    def awaited(self) -> dict[str, tuple[str, ...]]:
        """By group that is not formed: the nodes that have not registered."""
        return {
            plan.name: tuple(node for node in plan.nodes if node not in self._there)
            for plan in self._plans.values()
            if plan.name not in self.groups
        }

    @property
    def due(self) -> int | None:
        waiting = [at for name, at in self._enough_at.items() if name not in self.groups]
        return min(waiting) + self._gather if waiting else None

    def register(self, message: Register, now: int) -> Group | None:
        """The group of the node, if there is one now."""
        if message.address:
            self.addresses[message.node] = message.address
        start, life = self.lives.get(message.node, (None, 0))
        if start != message.life:
            # Larger than any number before, also if what is known of those was lost.
            self.lives[message.node] = message.life, max(life + 1, now)
        group = self.group_of(message.node)
        if group is not None:
            return group
        if message.group in self.groups:
            group = self.groups[message.group]
            group.admit(message.node)
            return group
        plan = next((each for each in self._plans.values() if message.node in each.nodes), None)
        if plan is None:
            # It asks again, and joins when the group it names is formed.
            return None
        self._there.add(message.node)
        if self._there >= {*plan.nodes}:
            return self._form(plan)
        if self._is_enough(plan):
            self._enough_at.setdefault(plan.name, now)
        return None

    def wake(self, now: int) -> list[Group]:
        """The groups that are formed now, without those who have not come."""
        late = [name for name, at in self._enough_at.items() if at + self._gather <= now]
        return [self._form(self._plans[name]) for name in late if name not in self.groups]

    def _is_enough(self, plan: GroupPlan) -> bool:
        children = len(self._there.intersection(plan.members))
        return children >= min(self._least, len(plan.members)) and all(
            self._there.intersection(layer) for layer in plan.layers
        )

    def _form(self, plan: GroupPlan) -> Group:
        members = tuple(sorted(plan.members))
        count = len(members) * self._spread
        home = tuple(Claim(number, 1, members[number % len(members)]) for number in range(count))
        empty = Roster(plan.name, 0, 0, ())
        group = Group(plan.name, members, list(plan.layers), home, empty)
        self.groups[plan.name] = group
        self._enough_at.pop(plan.name, None)
        return group
