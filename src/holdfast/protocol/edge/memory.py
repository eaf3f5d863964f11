"""What a root must remember to go on after a restart, as plain data.

Whoever runs a root writes this down, with the windows that came out, before the answers to what it
was told are sent: a pane that was acknowledged is then never asked for again, and one that was not
is sent once more. States of panes that are not complete are not part of it, for their senders keep
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.protocol.edge.formation import Group
from holdfast.protocol.edge.messages import PanePartial, Query, Roster
from holdfast.protocol.edge.queries import Paned
from holdfast.protocol.edge.root import Root
from holdfast.protocol.edge.windows import Windows
from holdfast.protocol.groups import Claim

__all__ = ["GroupMemory", "RootMemory", "WindowsMemory", "recall", "remember"]


@dataclass(frozen=True, slots=True)
class GroupMemory:
    name: str
    members: tuple[str, ...]
    layers: tuple[tuple[str, ...], ...]
    home: tuple[Claim, ...]
    claims: tuple[Claim, ...]
    roster: Roster
    freed: Mapping[str, int]
    joins: tuple[tuple[int, int], ...]
    homes: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WindowsMemory:
    begin: int | None
    next: int | None
    panes: Mapping[int, Mapping[str, PanePartial]]
    lost: int
    told: tuple[int, ...]
    totals: Mapping[str, tuple[int, ...]]
    """Counts of events sent again, late and refused; older roots did not write the last one."""


@dataclass(frozen=True, slots=True)
class RootMemory:
    queries: tuple[Query, ...] = ()
    groups: tuple[GroupMemory, ...] = ()
    windows: Mapping[str, WindowsMemory] = field(default_factory=dict)
    adopting: tuple[str, ...] = ()
    addresses: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)
    """By query, the start of the last window that is kept; for whoever writes this down, as is the
    next."""
    position: int = 0
    """How far windows were written when this was."""
    lives: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By node, the number that it gave to its last start, and the root's; older roots did not write
    them."""


def remember(root: Root) -> RootMemory:
    """What there is to be remembered now."""
    return RootMemory(
        tuple(root.queries.values()),
        tuple(
            GroupMemory(
                group.name,
                group.members,
                tuple(group.layers),
                group.home,
                group.ownership.claims,
                group.roster,
                dict(group.freed),
                tuple(group._joins),
                dict(group.homes),
            )
            for group in root.groups.values()
        ),
        {
            query: WindowsMemory(
                windows.begin,
                windows._next,
                windows._panes,
                windows._lost,
                tuple(windows._told),
                {group: tuple(counts) for group, counts in windows._totals.items()},
            )
            for query, windows in root._windows.items()
        },
        tuple(root._adoptions),
        dict(root.formation.addresses),
        lives=dict(root.formation.lives),
    )


def recall(root: Root, memory: RootMemory, now: int) -> None:
    """Let a root that has just been made go on from there. Queries that it has been given already
    and that are not in the memory are new."""
    for saved in memory.groups:
        group = Group(saved.name, saved.members, list(saved.layers), saved.home, saved.roster)
        for claim in saved.claims:
            group.ownership.offer(claim)
        group.freed = dict(saved.freed)
        group.homes |= saved.homes
        group.ownership.rehome(group.homes)
        group._joins = list(saved.joins)
        root.formation.groups[saved.name] = group
    root.formation.addresses.update(memory.addresses)
    root.formation.lives.update(memory.lives)
    root.resume(now)
    for query in memory.queries:
        if query.id in memory.adopting:
            # It is handed out anew: what is answered twice is the same.
            root.queries.pop(query.id, None)
            root.register_query(query, now)
        root.queries[query.id] = query
        kept = memory.windows[query.id]
        windows = root._windows[query.id] = Windows(Paned(query), kept.begin)
        windows._next = kept.next
        windows._panes = {pane: dict(states) for pane, states in kept.panes.items()}
        windows._lost = kept.lost
        windows._told = _three(kept.told)
        windows._totals = {group: _three(counts) for group, counts in kept.totals.items()}


def _three(counts: Sequence[int]) -> tuple[int, ...]:
    return (*counts, 0)[:3]
