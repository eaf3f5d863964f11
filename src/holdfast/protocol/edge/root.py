"""The root: forms groups, hands out queries, merges panes, emits windows.

It is assumed to stay. Windows are taken out with `drain`; each comes once, in the order of time for
each query.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.edge.formation import Formation, Group, life_of, name_of
from holdfast.protocol.edge.joining import ended_by, join, thawed
from holdfast.protocol.edge.messages import (
    Adopt,
    Adopted,
    Guarantee,
    Message,
    PaneClosed,
    PaneTaken,
    Query,
    Register,
    Retire,
    Send,
    SensorHello,
    Sitting,
)
from holdfast.protocol.edge.queries import Paned, ceil_to, floor_to
from holdfast.protocol.edge.windows import Window, Windows

__all__ = ["Root", "RootOptions"]


@dataclass(frozen=True, slots=True)
class RootOptions:
    """`replication`: children in a group. `spread`: partitions of a child. `most_intermediates`: in
    a layer. `patience`: how long a child may take to adopt a query before it begins without it."""

    replication: int = 3
    spread: int = 1
    most_intermediates: int = 3
    guarantee: Guarantee = "exactly-once"
    resend: int = 300_000
    patience: int = 2_000_000


@dataclass(slots=True)
class _Adoption:
    """A query that is being handed out while running."""

    query: Query
    waiting: set[str]
    first: int
    until: int
    next_at: int


class Root:
    def __init__(self, name: str, options: RootOptions | None = None, *, address: str = "") -> None:
        self.name = name
        self.options = options or RootOptions()
        if self.options.replication < 1 or self.options.spread < 1:
            raise InvalidArgumentError("root: replication and spread must be at least 1")
        self.formation = Formation(
            self.options.replication, self.options.most_intermediates, self.options.spread
        )
        self.formation.addresses[name] = address
        self.queries: dict[str, Query] = {}
        self._windows: dict[str, Windows] = {}
        self._adoptions: dict[str, _Adoption] = {}
        self._out: list[Window] = []
        self._reminded: dict[str, int] = {}

    @property
    def groups(self) -> dict[str, Group]:
        return self.formation.groups

    def drain(self) -> list[Window]:
        """The windows since the last call."""
        out, self._out = self._out, []
        return out

    def register_query(self, query: Query, now: int) -> list[Send]:
        """Before the groups are formed, or while they work."""
        if query.id in self.queries:
            raise InvalidArgumentError(
                f"query {query.id!r} is registered already; choose another id"
            )
        paned = Paned(query)
        self.queries[query.id] = query
        nodes = {node for group in self.groups.values() for node in group.nodes}
        if not nodes:
            self._windows[query.id] = Windows(paned)
            return []
        patience, resend = self.options.patience, self.options.resend
        self._windows[query.id] = Windows(paned)
        # No pane of it can be whole that was open for others before.
        self._begin_at(query.id, 0)
        adoption = _Adoption(query, nodes, 0, now + patience, now + resend)
        self._adoptions[query.id] = adoption
        return self._hand_out(adoption)

    def remove_query(self, query: str) -> list[Send]:
        """No more windows of it; nothing of it is remembered. A later query needs another id, or
        states of this one that are on their way would be taken for its own."""
        del self.queries[query], self._windows[query]
        self._adoptions.pop(query, None)
        sends = []
        for group in self.groups.values():
            group.freed.pop(query, None)
            group.merge.forget(lambda pane: pane[0] == query)
            sends += [Send(node, Retire(group.name, query)) for node in group.nodes]
        return sends

    def receive(self, sender: str, message: Message, now: int) -> list[Send]:
        match message:
            case Register():
                return self._register(message)
            case SensorHello():
                return self._hello(sender, message)
            case PaneClosed() if message.group in self.groups and message.query in self.queries:
                return self._take(sender, message, now)
            case PaneClosed() if message.group in self.groups:
                return [Send(sender, Retire(message.group, message.query))]
            case Adopted():
                return self._adopted(message, now)
        return []

    def wake(self, now: int) -> list[Send]:
        sends = []
        for adoption in list(self._adoptions.values()):
            if now >= adoption.next_at:
                adoption.next_at = now + self.options.resend
                sends += self._hand_out(adoption)
            sends += self._begin(adoption, now)
        return sends

    def due(self, now: int) -> int | None:
        return min((each.next_at for each in self._adoptions.values()), default=None)

    def dismiss(self, sensor: str) -> list[Send]:
        """Do not wait for this sensor any longer; what it said is counted."""
        for group in self.groups.values():
            here = [each for each in group.present if name_of(each.sensor) == name_of(sensor)]
            if here:
                end = max(group.freed.values(), default=group.roster.origin)
                group.seat(*(replace(sitting, end=end) for sitting in here))
                return self._tell_roster(group)
        return []

    # Registration.

    def _register(self, message: Register) -> list[Send]:
        known = self.formation.group_of(message.node)
        group = self.formation.register(message)
        if group is None:
            return []
        nodes = group.nodes if known is None else (message.node,)
        return [Send(node, self._place(group, node)) for node in nodes]

    def _place(self, group: Group, node: str) -> Message:
        options, addresses = self.options, self.formation.addresses
        return group.place(node, self.name, self.queries, addresses, options.guarantee)

    def _hello(self, sender: str, message: SensorHello) -> list[Send]:
        group = self.formation.group_of(sender)
        if group is None:
            return []
        same = [each for each in group.present if name_of(each.sensor) == name_of(message.sensor)]
        if any(life_of(each.sensor) >= life_of(message.sensor) for each in same):
            # It takes part already; or another process of its name does, that was started later.
            return [Send(sender, group.roster)]
        if not group.roster.sittings:
            # All groups end at the same windows: the first pane of this one has not been emitted.
            others = (each for g in self.groups.values() for each in g.freed.values())
            start = max((message.time, *others))
            for query in self.queries:
                length = self._windows[query].paned.length
                group.freed[query] = max(group.freed.get(query, 0), floor_to(start, length))
        else:
            start = max((message.time, *group.freed.values()))
        # Nobody knows what an earlier life of it has taken in and not sent.
        ended = [replace(each, end=max(start, each.start)) for each in same]
        group.seat(*ended, Sitting(message.sensor, start))
        lengths = {query: self._windows[query].paned.length for query in self.queries}
        group.merge.refuse(group.roster.version, lambda pane: pane[1] + lengths[pane[0]] > start)
        return self._tell_roster(group)

    def _tell_roster(self, group: Group) -> list[Send]:
        return [Send(member, group.roster) for member in group.members]

    # Queries.

    def _hand_out(self, adoption: _Adoption) -> list[Send]:
        return [
            Send(node, Adopt(group.name, adoption.query, group.freed[adoption.query.id]))
            for group in self.groups.values()
            for node in group.nodes
            if node in adoption.waiting
        ]

    def _adopted(self, message: Adopted, now: int) -> list[Send]:
        adoption = self._adoptions.get(message.query)
        if adoption is None:
            return []
        adoption.waiting.discard(message.node)
        adoption.first = max(adoption.first, message.first)
        return self._begin(adoption, now)

    def _begin(self, adoption: _Adoption, now: int) -> list[Send]:
        """All have the query, or all that are there: windows begin where it has all events."""
        windows = self._windows[adoption.query.id]
        if windows.begin is None and (not adoption.waiting or now >= adoption.until):
            windows.begin = self._begin_at(adoption.query.id, adoption.first)
        if not adoption.waiting:
            self._adoptions.pop(adoption.query.id, None)
        return []

    def _begin_at(self, query: str, first: int) -> int:
        """Where all groups begin with a query."""
        starts = [each for group in self.groups.values() for each in group.freed.values()]
        begin = ceil_to(max((first, *starts)), self._windows[query].paned.length)
        for group in self.groups.values():
            group.freed[query] = begin
        return begin

    # Panes.

    def _take(self, sender: str, message: PaneClosed, now: int) -> list[Send]:
        group, windows = self.groups[message.group], self._windows[message.query]
        paned, pane, end = windows.paned, message.pane, message.pane + windows.paned.length
        freed = group.freed.get(paned.id)
        if freed is not None and end <= freed:
            held = tuple(state.partition for state in message.partials)
            return [Send(sender, PaneTaken(group.name, paned.id, pane, held, freed))]
        least = group.least_roster(end)
        sends: list[Send] = []
        for state in message.partials:
            for claim in state.claims:
                group.ownership.offer(claim)
            if state.roster < least:
                # It lacks the events of a sensor that its sender does not know of.
                sends += self._remind(group, now)
                continue
            group.merge.offer((paned.id, pane), state.partition, state.roster, thawed(state))
        group.failed = message.failed
        held = group.merge.held((paned.id, pane))
        is_begun = message.query not in self._adoptions or windows.begin is not None
        if freed is not None and is_begun and self._advance(group, windows):
            freed = group.freed[paned.id]
            self._emit(windows)
            sends += self._pass_on_time(paned.id)
            word = PaneTaken(group.name, paned.id, pane, (), freed)
            sends += [Send(node, word) for node in group.top if node != sender]
        return [*sends, Send(sender, PaneTaken(group.name, paned.id, pane, held, freed or 0))]

    def _remind(self, group: Group, now: int) -> list[Send]:
        """Somebody does not know of a sensor."""
        if now < self._reminded.get(group.name, 0):
            return []
        self._reminded[group.name] = now + self.options.resend
        return self._tell_roster(group)

    def _advance(self, group: Group, windows: Windows) -> bool:
        """Take the panes that are complete, in order; whether there are any."""
        query, length = windows.paned, windows.paned.length
        pane = begin = group.freed[query.id]
        while group.merge.is_complete((query.id, pane)):
            windows.put(group.name, pane, join(query, group.merge.release((query.id, pane))))
            pane += length
        if pane == begin:
            return False
        group.freed[query.id] = pane
        group.merge.forget(ended_by(query.id, length, pane))
        return True

    def _pass_on_time(self, query: str) -> list[Send]:
        """Groups that all sensors have left go on with the others, or windows would wait."""
        speaking = [group.freed[query] for group in self.groups.values() if group.present]
        through = min(speaking, default=0)
        sends = []
        for group in self.groups.values():
            roster = group.roster
            if roster.sittings and not group.present and roster.through < through:
                group.roster = replace(roster, version=roster.version + 1, through=through)
                sends += self._tell_roster(group)
        return sends

    def _emit(self, windows: Windows) -> None:
        taking_part = [group for group in self.groups.values() if group.roster.sittings]
        through = min(group.freed[windows.paned.id] for group in taking_part)
        origin = min(group.roster.origin for group in taking_part)
        failed = dict.fromkeys(node for group in taking_part for node in group.failed)
        self._out += windows.emit(origin, through, failed)
