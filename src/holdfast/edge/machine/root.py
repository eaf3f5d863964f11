"""The root: forms groups, hands out queries, merges panes, emits windows.

It is assumed to stay. Windows are taken out with `drain`; each comes once, in the order of time for
each query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast.edge.machine.formation import Formation, Group, GroupPlan, life_of, name_of
from holdfast.edge.machine.intermediate import ended_by, join, thawed
from holdfast.edge.machine.messages import (
    Adopt,
    Adopted,
    Guarantee,
    Message,
    PaneClosed,
    PanePartial,
    PaneTaken,
    Probe,
    Query,
    Register,
    Relayed,
    Retire,
    RootTime,
    Roster,
    Send,
    SensorHello,
    Sitting,
)
from holdfast.edge.machine.queries import Paned, Window, Windows, ceil_to, floor_to
from holdfast.errors import InvalidArgumentError
from holdfast.groups import Claim


@dataclass(frozen=True, slots=True)
class RootOptions:
    """`plan`: the groups there are to be. `expected`: sensors, by name.
    `replication`: as many children of a group must be there before it is formed. `gather`: how long
    a group with so many waits for the others, and the first window for sensors. `spread`:
    partitions of a child.
    `patience`: how long a child may take to adopt a query before it begins without it. `linger`:
    how long windows wait for a sensor when the last one has left. `history`: how old the first
    event of a sensor may be; None: any age. `ahead`: how far its time may be ahead of the root's
    clock; None: any time. `absence`: a sensor that has not been heard for so long may be replaced
    by any process of its name, and is named to whoever asks why windows stand. `most_held`: about
    so many bytes of panes wait in a group for those before them; children keep the others."""

    plan: tuple[GroupPlan, ...] = ()
    expected: tuple[str, ...] = ()
    replication: int = 2
    gather: int = 5_000_000
    spread: int = 1
    guarantee: Guarantee = "exactly-once"
    resend: int = 300_000
    patience: int = 2_000_000
    linger: int = 2_000_000
    history: int | None = None
    ahead: int | None = None
    absence: int = 15_000_000
    most_held: int = 256 << 20


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
            self.options.plan, self.options.replication, self.options.spread, self.options.gather
        )
        self.formation.addresses[name] = address
        self.queries: dict[str, Query] = {}
        self._windows: dict[str, Windows] = {}
        self._adoptions: dict[str, _Adoption] = {}
        self._out: list[Window] = []
        self._reminded: dict[str, int] = {}
        self._guests: dict[str, tuple[str, int]] = {}
        """Sensors that want to take part and wait for others: the group, and their start."""
        self._gather_until: int | None = None
        self._last_words_at: int | None = None
        """When the windows of sensors that have all left are to end."""
        self._heard: dict[str, int] = {}
        """When sensors were last heard."""

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
                return self._register(message, now)
            case SensorHello():
                return self._hello(sender, message, now)
            case Probe() if self._are_of_one_group(sender, message.node):
                return [Send(message.node, message)]
            case Relayed() if self._are_of_one_group(sender, message.to):
                return [Send(message.to, message)]
            case PaneClosed() if message.group in self.groups and message.query in self.queries:
                return self._take(sender, message, now)
            case PaneClosed() if message.group in self.groups:
                return [Send(sender, Retire(message.group, message.query))]
            case Adopted():
                return self._adopted(message, now)
        return []

    def _are_of_one_group(self, one: str, other: str) -> bool:
        group = self.formation.group_of(one)
        return group is not None and other in group.members

    def wake(self, now: int) -> list[Send]:
        sends = [
            Send(node, self._place(group, node))
            for group in self.formation.wake(now)
            for node in group.nodes
        ]
        if self._gather_until is not None and now >= self._gather_until:
            sends += self._seat_guests()
        if self._last_words_at is not None and now >= self._last_words_at:
            sends += self._end_windows()
        for adoption in list(self._adoptions.values()):
            if now >= adoption.next_at:
                adoption.next_at = now + self.options.resend
                sends += self._hand_out(adoption)
            sends += self._begin(adoption, now)
        return sends

    def due(self, now: int) -> int | None:
        adoptions = (each.next_at for each in self._adoptions.values())
        times = (self.formation.due, self._gather_until, self._last_words_at, *adoptions)
        return min((time for time in times if time is not None), default=None)

    @property
    def awaited(self) -> dict[str, tuple[str, ...]]:
        """Who is to come before windows do: by group that is not formed its nodes, and sensors."""
        sensors = self._awaited_sensors if self._gather_until is not None else ()
        return self.formation.awaited | ({"sensors": sensors} if sensors else {})

    def unheard(self, now: int) -> tuple[str, ...]:
        """The sensors that windows wait for and that have not been heard for `absence`."""
        since = now - self.options.absence
        return tuple(
            name_of(each.sensor)
            for group in self.groups.values()
            for each in group.present
            if self._heard.setdefault(each.sensor, now) <= since
        )

    @property
    def lacking(self) -> tuple[str, ...]:
        """The children whose states alone are missing from the panes to come next."""
        nodes: set[str] = set()
        for group in self.groups.values():
            for query, pane in group.freed.items():
                held = group.merge.held((query, pane))
                if held and not group.merge.is_complete((query, pane)):
                    missing = [c for c in group.ownership.claims if c.partition not in held]
                    nodes.update(claim.node for claim in missing)
        return tuple(sorted(nodes))

    def dismiss(self, sensor: str, now: int) -> list[Send]:
        """Do not wait for this sensor any longer; what it said is counted."""
        for group in self.groups.values():
            here = [each for each in group.present if name_of(each.sensor) == name_of(sensor)]
            if here:
                end = max(group.freed.values(), default=group.roster.origin)
                group.seat(*(replace(sitting, end=end) for sitting in here))
                return self._left(group, now)
        return []

    def resume(self, now: int) -> None:
        """After a restart: sensors may all have left before it."""
        if not any(group.present for group in self.groups.values()):
            self._last_words_at = now + self.options.linger

    # Registration.

    def _register(self, message: Register, now: int) -> list[Send]:
        known = self.formation.group_of(message.node)
        address = self.formation.addresses.get(message.node)
        group = self.formation.register(message, now)
        if group is None:
            return []
        is_news = known is None or address != self.formation.addresses.get(message.node)
        nodes = group.nodes if is_news else (message.node,)
        return [Send(node, self._place(group, node)) for node in nodes]

    def _place(self, group: Group, node: str) -> Message:
        options, addresses = self.options, self.formation.addresses
        life = self.formation.lives.get(node, (0, 0))
        return group.place(node, self.name, self.queries, addresses, options.guarantee, life)

    def _hello(self, sender: str, message: SensorHello, now: int) -> list[Send]:
        group = self.formation.group_of(sender)
        if group is None:
            return []
        sends = []
        if message.clock is not None:
            sends.append(Send(sender, RootTime(message.sensor, message.clock, now)))
        same = [each for each in group.present if name_of(each.sensor) == name_of(message.sensor)]
        is_present = any(each.sensor == message.sensor for each in same)
        if is_present:
            self._heard[message.sensor] = now
            if message.end is not None:
                return sends + self._leave(group, message.sensor, message.end, now)
        has_left = message.end is not None or any(
            each.said and each.sensor == message.sensor for each in group.roster.sittings
        )
        outranked = any(self._outranks(each.sensor, message.sensor, now) for each in same)
        if is_present or has_left or outranked:
            return [*sends, Send(sender, group.roster)]
        known = self._guests.get(message.sensor)
        start = self._start(message, now) if known is None else known[1]
        self._guests[message.sensor] = group.name, start
        self._heard[message.sensor] = now
        if self._gather_until is None and not any(g.roster.sittings for g in self.groups.values()):
            self._gather_until = now + self.options.gather
        if self._gather_until is not None and self._awaited_sensors and now < self._gather_until:
            return sends
        return sends + self._seat_guests()

    def _outranks(self, present: str, other: str, now: int) -> bool:
        """Whether a sensor stays in its place though another process of its name asks for it: one
        that was started earlier, by its clock. The clock may be wrong; but one that lives is
        heard."""
        since = now - self._heard.setdefault(present, now)
        return life_of(present) > life_of(other) and since < self.options.absence

    @property
    def _awaited_sensors(self) -> tuple[str, ...]:
        """Those that are expected and have not asked to take part."""
        there = {name_of(guest) for guest in self._guests}
        return tuple(name for name in self.options.expected if name not in there)

    def _start(self, message: SensorHello, now: int) -> int:
        """From when on a sensor takes part, by the clock of the root: that of its first event, if
        it is neither of a future that cannot be nor older than is wanted."""
        ahead, history = self.options.ahead, self.options.history
        if message.clock is None:
            return message.time
        if message.stamps or (ahead is not None and message.time > now + ahead):
            return now
        if history is not None and message.time < now - history:
            return now
        return message.time

    def _seat_guests(self) -> list[Send]:
        """Those who have asked take part from now on."""
        self._gather_until = None
        guests, self._guests = self._guests, {}
        asked = sorted((start, sensor, name) for sensor, (name, start) in guests.items())
        sends = [send for start, sensor, name in asked for send in self._seat(name, sensor, start)]
        return list({send.to: send for send in sends}.values())

    def _seat(self, name: str, sensor: str, time: int) -> list[Send]:
        group = self.groups[name]
        same = [each for each in group.present if name_of(each.sensor) == name_of(sensor)]
        if not group.roster.sittings:
            # All groups end at the same windows: the first pane of this one has not been emitted.
            others = (each for g in self.groups.values() for each in g.freed.values())
            start = max((time, *others))
            for query in self.queries:
                length = self._windows[query].paned.length
                group.freed[query] = max(group.freed.get(query, 0), floor_to(start, length))
        else:
            start = max((time, *group.freed.values()))
        # Nobody knows what an earlier life of it has taken in and not sent.
        ended = [replace(each, end=max(start, each.start)) for each in same]
        for each in same:
            self._heard.pop(each.sensor, None)
        group.seat(*ended, Sitting(sensor, start))
        lengths = {query: self._windows[query].paned.length for query in self.queries}
        group.merge.refuse(group.roster.version, lambda pane: pane[1] + lengths[pane[0]] > start)
        return self._tell_roster(group)

    def _leave(self, group: Group, sensor: str, end: int, now: int) -> list[Send]:
        """A sensor has no more events, and has said so."""
        here = [each for each in group.present if each.sensor == sensor]
        group.seat(*(replace(each, end=max(end, each.start), said=True) for each in here))
        return self._left(group, now)

    def _left(self, group: Group, now: int) -> list[Send]:
        if not any(each.present for each in self.groups.values()):
            self._last_words_at = now + self.options.linger
        return self._tell_roster(group)

    def _end_windows(self) -> list[Send]:
        """All sensors have left: end the windows that their events are in."""
        self._last_words_at = None
        groups = [group for group in self.groups.values() if group.roster.sittings]
        if any(group.present for group in groups):
            return []
        last = max((each.end or 0 for g in groups for each in g.roster.sittings), default=0) - 1
        through = max((each.through(last) for each in self._windows.values()), default=0)
        sends = []
        for group in groups:
            roster = group.roster
            if roster.through < through:
                group.roster = replace(roster, version=roster.version + 1, through=through)
                sends += self._tell_roster(group)
        return sends

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
            if freed is not None and pane > freed and group.merge.weight > self.options.most_held:
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


# What a root must remember to go on after a restart, as plain data.
#
# Whoever runs a root writes this down, with the windows that came out, before the answers to what
# it was told are sent: a pane that was acknowledged is then never asked for again, and one that was
# not is sent once more. States of panes that are not complete are not part of it, for their senders
# keep them.


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
