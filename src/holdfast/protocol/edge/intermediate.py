"""An intermediate: waits for all partitions of a pane, and passes their join on.

It sees no events and holds nothing that those below it do not hold until the root has it. All of a
layer are sent the same, so one of them is enough.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from holdfast.protocol.edge.joining import PaneMerge, ended_by, join, thawed, weigh
from holdfast.protocol.edge.messages import (
    Adopt,
    Adopted,
    Beat,
    Message,
    PaneClosed,
    PaneTaken,
    Register,
    Registered,
    Retire,
    Send,
    StopSending,
)
from holdfast.protocol.edge.outbox import Outbox
from holdfast.protocol.edge.presence import BeatOptions, Presence
from holdfast.protocol.edge.queries import Paned
from holdfast.protocol.groups import NodeFailed

__all__ = ["Intermediate", "IntermediateOptions"]


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
