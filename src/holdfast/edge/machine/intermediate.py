"""An intermediate: waits for all partitions of a pane, and passes their join on.

It sees no events and holds nothing that those below it do not hold until the root has it. All of a
layer are sent the same, so one of them is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, TypeVar

from holdfast.edge.machine.aggregates import decode_partial
from holdfast.edge.machine.closing import Outbox
from holdfast.edge.machine.heartbeats import BeatOptions, Presence
from holdfast.edge.machine.messages import (
    Adopt,
    Adopted,
    Beat,
    Message,
    PaneClosed,
    PanePartial,
    PaneTaken,
    Register,
    Registered,
    Retire,
    Send,
    StopSending,
)
from holdfast.edge.machine.queries import Paned
from holdfast.groups import NodeFailed

# `merge`: releases a pane when the states of all partitions of a group are in.
#
# It waits for a set of partitions, never for a number of messages: whoever owns a partition now,
# and however often its state comes, it counts once. Used by the root and the intermediates of the
# edge, who join what it releases.

ALL: Final = -1
"""The partition of a state that is the join of all partitions already."""

K = TypeVar("K", bound=Hashable)
S = TypeVar("S")


class Merge(Generic[K, S]):
    """By pane `K`, states `S` with a version: of two states of a partition the one of the larger
    version stands, of the same version the first. `weigh`: about how much memory a state takes."""

    def __init__(self, partitions: Iterable[int], weigh: Callable[[S], int] = lambda _: 1) -> None:
        self._partitions = frozenset(partitions)
        self._weigh = weigh
        self.weight = 0
        """Of all states that are held."""
        self._panes: dict[K, dict[int, tuple[int, S]]] = {}

    def __len__(self) -> int:
        return len(self._panes)

    def offer(self, pane: K, partition: int, version: int, state: S) -> bool:
        """Whether it is taken."""
        if partition != ALL and partition not in self._partitions:
            return False
        states = self._panes.setdefault(pane, {})
        if partition in states and states[partition][0] >= version:
            return False
        self._drop(states, partition)
        states[partition] = version, state
        self.weight += self._weigh(state)
        return True

    def _drop(self, states: dict[int, tuple[int, S]], partition: int) -> None:
        if partition in states:
            self.weight -= self._weigh(states.pop(partition)[1])

    def held(self, pane: K) -> tuple[int, ...]:
        """The partitions whose states are in."""
        return tuple(sorted(self._panes.get(pane, ())))

    def is_complete(self, pane: K) -> bool:
        states = self._panes.get(pane, {})
        return ALL in states or states.keys() >= self._partitions

    def release(self, pane: K) -> list[S]:
        """The states of a pane that is complete, always in the order of the partitions, so that
        whoever joins them comes to the same."""
        states = self._panes[pane]
        chosen = [ALL] if ALL in states else sorted(self._partitions)
        return [states[partition][1] for partition in chosen]

    def refuse(self, least: int, concerns: Callable[[K], bool]) -> None:
        """States of an older version do not count any more for these panes."""
        for pane, states in self._panes.items():
            if concerns(pane):
                for partition in [p for p, (version, _) in states.items() if version < least]:
                    self._drop(states, partition)

    def forget(self, concerns: Callable[[K], bool]) -> None:
        """These panes are not needed any more."""
        for pane in [each for each in self._panes if concerns(each)]:
            for _, state in self._panes.pop(pane).values():
                self.weight -= self._weigh(state)


PaneMerge = Merge[tuple[str, int], PanePartial]
"""By query and start of the pane; the version is that of the roster."""


def join(query: Paned, states: Sequence[PanePartial]) -> PanePartial:
    """One state of several, in their order."""
    if len(states) == 1 and states[0].partition == ALL:
        return states[0]
    partial = None
    for state in states:
        partial = query.combine(partial, state.partial)
    return PanePartial(
        ALL,
        partial,
        max(state.newest for state in states),
        min(state.roster for state in states),
        all(state.whole for state in states),
        sum(state.missing for state in states),
        tuple(claim for state in states for claim in state.claims),
        sum(state.lost for state in states),
        sum(state.replayed for state in states),
        sum(state.late for state in states),
        sum(state.refused for state in states),
    )


def weigh(state: PanePartial) -> int:
    """About how many bytes of memory a state takes, at no cost: all keys count as the first."""
    return 500 + _size(state.partial)


def _size(partial: Any) -> int:
    match partial:
        case dict():
            return len(partial) * (200 + _size(next(iter(partial.values()), None)))
        case bytes():
            return len(partial)
        case list() | tuple():
            return 100 + len(partial) * (50 + _size(partial[0] if partial else None))
    return 0


def thawed(state: PanePartial) -> PanePartial:
    """As it was before it went over a wire."""
    return replace(state, partial=decode_partial(state.partial))


def ended_by(query: str, length: int, until: int) -> Callable[[tuple[str, int]], bool]:
    """Which panes of a query end by then."""
    return lambda pane: pane[0] == query and pane[1] + length <= until


@dataclass(frozen=True, slots=True)
class IntermediateOptions:
    """`most_held`: as that of the root."""

    beat: BeatOptions = field(default_factory=BeatOptions)
    resend: int = 300_000
    most_held: int = 256 << 20


class Intermediate:
    def __init__(
        self,
        name: str,
        root: str,
        options: IntermediateOptions | None = None,
        *,
        life: int = 1,
        address: str = "",
        now: int = 0,
    ) -> None:
        self.name = name
        self.options = options or IntermediateOptions()
        self.place: Registered | None = None
        self._root = root
        self._register = Register(name, "intermediate", address, life)
        self._register_at = now

    def receive(self, sender: str, message: Message, now: int) -> list[Send]:
        if isinstance(message, Registered):
            if self.place is None:
                if message.start == self._register.life:
                    self._enter(message, now)
            elif {*message.below} > {*self.place.below}:
                self.place = message
            return []
        if self.place is None:
            return []
        match message:
            case PaneClosed():
                return self._take(sender, message, now)
            case PaneTaken():
                self._parents_down.discard(sender)
                self.outbox.taken(sender, message)
                return self._free(message)
            case Beat():
                self.presence.heard(sender, message.life, now)
            case NodeFailed():
                self.presence.told(message, now)
            case Retire():
                return self._retire(message)
            case StopSending():
                self._parents_down.add(message.failed)
            case Adopt():
                query = message.query
                self.queries.setdefault(query.id, Paned(query))
                return [Send(self._root, Adopted(message.group, query.id, self.name, 0))]
        return []

    def wake(self, now: int) -> list[Send]:
        if self.place is None:
            if now < self._register_at:
                return []
            self._register_at = now + self.options.resend
            return [Send(self._root, self._register)]
        sends = self.presence.beat((), now)
        found, words = self.presence.check(now)
        sends += words
        for failed in found:
            stop = StopSending(failed, self.presence.members.life(failed))
            sends += [Send(below, stop) for below in self.place.below]
        return sends + self._send_up(now)

    def due(self, now: int) -> int | None:
        if self.place is None:
            return self._register_at
        times = [
            self.presence.due,
            self.presence.members.next_check(now) if self.options.beat.period else None,
            self.outbox.due,
        ]
        return min((time for time in times if time is not None), default=None)

    def _enter(self, place: Registered, now: int) -> None:
        self.place = place
        others = [member for member in place.members if member != self.name]
        self.presence = Presence(self.name, place.life, others, self.options.beat, now)
        self.queries = {query.id: Paned(query) for query in place.queries}
        self.freed = dict(place.freed)
        self.merge = PaneMerge((claim.partition for claim in place.home), weigh)
        self.outbox = Outbox(place.group, self.options.resend)
        self._failed: set[str] = set()
        self._parents_down: set[str] = set()

    def _take(self, sender: str, message: PaneClosed, now: int) -> list[Send]:
        query = self.queries.get(message.query)
        if query is None:
            # It is new, or is removed: the root knows.
            return [Send(self._root, replace(message, partials=()))]
        name, pane = message.query, message.pane
        freed = self.freed.get(name, 0)
        if pane + query.length <= freed:
            held = tuple(state.partition for state in message.partials)
            return [Send(sender, PaneTaken(message.group, name, pane, held, freed))]
        self._failed = set(message.failed)
        if pane > freed and self.merge.weight > self.options.most_held:
            # Those below keep it. It may be the next one by now: the root knows.
            return [Send(self._root, replace(message, partials=()))]
        news = [
            self.merge.offer((name, pane), state.partition, state.roster, thawed(state))
            for state in message.partials
        ]
        held = self.merge.held((name, pane))
        taken = Send(sender, PaneTaken(message.group, name, pane, held, freed))
        if any(news) and self.merge.is_complete((name, pane)):
            self.outbox.put(name, pane, join(query, self.merge.release((name, pane))))
            return [taken, *self._send_up(now)]
        return [taken]

    def _retire(self, message: Retire) -> list[Send]:
        assert self.place is not None
        self.queries.pop(message.query, None)
        self.freed.pop(message.query, None)
        self.merge.forget(lambda pane: pane[0] == message.query)
        self.outbox.retire(message.query)
        return [Send(below, message) for below in self.place.below]

    def _send_up(self, now: int) -> list[Send]:
        assert self.place is not None
        failed = sorted(self._failed | set(self.presence.members.down))
        return self.outbox.send(self.place.parents, self._parents_down, failed, now)

    def _free(self, message: PaneTaken) -> list[Send]:
        """The word of the root goes on to those below, once."""
        assert self.place is not None
        query = self.queries.get(message.query)
        if query is None or message.freed <= self.freed.get(query.id, 0):
            return []
        self.freed[query.id] = message.freed
        self.merge.forget(ended_by(query.id, query.length, message.freed))
        self.outbox.free(query.id, query.length, message.freed)
        word = PaneTaken(message.group, query.id, message.pane, (), message.freed)
        return [Send(below, word) for below in self.place.below]
