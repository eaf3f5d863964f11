"""Closing of panes, and closed panes that are sent until the root has them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from holdfast.edge.machine.messages import PaneClosed, PanePartial, PaneTaken, Send
from holdfast.edge.machine.queries import Paned
from holdfast.edge.machine.slots import Slot, Slots
from holdfast.groups import Claim

AT_A_TIME: Final = 256
"""Panes of one query; after a long silence there may be many."""


class Closing:
    """For one child: which pane of each partition and query is to be closed next."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._next: dict[int, dict[str, int]] = {}
        self._ends: dict[int, int] = {}

    def open(self, partition: int) -> None:
        """The partition is ours now, or there are more sensors in it: close again whatever the root
        does not have."""
        queries = self._slots.queries.values()
        self._next[partition] = {query.id: self._slots.beginning(query) for query in queries}
        self._ends[partition] = 0

    def release(self, partition: int) -> None:
        self._next.pop(partition, None)
        self._ends.pop(partition, None)

    def adopt(self, query: Paned) -> None:
        for partition, panes in self._next.items():
            panes[query.id] = self._slots.beginning(query)
            self._ends[partition] = 0

    def through(self, partition: int, query: str) -> int:
        """Panes before this one are closed: events that come for them are not in them."""
        beginning = self._slots.beginning(self._slots.queries[query])
        return max(beginning, self._next.get(partition, {}).get(query, 0))

    def retire(self, query: str) -> None:
        for panes in self._next.values():
            panes.pop(query, None)

    def is_due(self, partition: int, boundary: int) -> bool:
        """Whether a slot that has come so far may be the last one that a pane waited for."""
        return boundary >= self._ends[partition]

    def close(self, claim: Claim) -> Iterator[tuple[str, int, PanePartial]]:
        """All panes of a partition that can be closed now: query, start and what is in them."""
        slots = self._slots
        panes = self._next[claim.partition]
        ready = slots.ready(claim.partition)
        own: list[Slot] | None = None
        for query in slots.queries.values():
            pane = max(panes[query.id], slots.beginning(query))
            for _ in range(AT_A_TIME):
                if pane + query.length > ready or not slots.sensors:
                    break
                own = slots.of(claim.partition) if own is None else own
                yield query.id, pane, self._partial(claim, query, pane, own)
                pane += query.length
            panes[query.id] = pane
        ends = (panes[query.id] + query.length for query in slots.queries.values())
        self._ends[claim.partition] = min(ends, default=0)

    def _partial(self, claim: Claim, query: Paned, pane: int, own: list[Slot]) -> PanePartial:
        whole, partial, newest, refused = True, None, 0, 0
        for slot in own:
            whole = whole and slot.since.get(query.id, 0) <= pane
            whole = whole and self._slots.is_whole(slot, pane, pane + query.length)
            held = slot.panes.get(query.id, {}).get(pane)
            if held is not None:
                partial = query.combine(partial, held.partial)
                newest = max(newest, held.newest)
                refused += held.refused
        return PanePartial(
            claim.partition,
            partial,
            newest,
            self._slots.roster.version,
            whole,
            sum(slot.missing(pane, pane + query.length) for slot in own) + refused,
            (claim,),
            sum(slot.told(pane, pane + query.length) for slot in own),
            *self._slots.counts(claim.partition, query.id),
        )


RARELY: Final = 8
"""A parent that has taken a pane may die before the root has it: it is sent once more, but only
after so many times the usual wait."""


@dataclass(slots=True)
class _Entry:
    partials: dict[int, PanePartial] = field(default_factory=dict)
    taken: dict[str, set[int]] = field(default_factory=dict)
    next_at: int = 0
    again_at: int = 0
    wait: int = 0
    """From the last time to the next: longer each time, for a root may stand still for hours."""


class Outbox:
    def __init__(self, group: str, resend: int) -> None:
        self._group = group
        self._resend = resend
        self._entries: dict[tuple[str, int], _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def due(self) -> int | None:
        return min((entry.next_at for entry in self._entries.values()), default=None)

    def put(self, query: str, pane: int, partial: PanePartial) -> None:
        """It goes out with the next `send`."""
        entry = self._entries.setdefault((query, pane), _Entry())
        entry.partials[partial.partition] = partial
        for taken in entry.taken.values():
            taken.discard(partial.partition)
        entry.next_at = entry.wait = 0

    def send(
        self, parents: Collection[str], down: Collection[str], failed: Iterable[str], now: int
    ) -> list[Send]:
        """What is due. Parents that are held for dead are sent to rarely."""
        sends = []
        for (query, pane), entry in self._entries.items():
            if entry.next_at > now:
                continue
            once_more = now >= entry.again_at
            if once_more:
                entry.again_at = now + RARELY * self._resend
            entry.wait = min(max(self._resend, 2 * entry.wait), RARELY * self._resend)
            entry.next_at = min(now + entry.wait, entry.again_at)
            messages: dict[tuple[int, ...], PaneClosed] = {}
            for parent in parents:
                taken = entry.taken.get(parent, set())
                if not once_more and (parent in down or taken >= entry.partials.keys()):
                    continue
                chosen = tuple(p for p in sorted(entry.partials) if once_more or p not in taken)
                if chosen not in messages:
                    partials = tuple(entry.partials[p] for p in chosen)
                    messages[chosen] = PaneClosed(self._group, query, pane, partials, tuple(failed))
                sends.append(Send(parent, messages[chosen]))
        return sends

    def taken(self, parent: str, message: PaneTaken) -> None:
        entry = self._entries.get((message.query, message.pane))
        if entry is not None:
            entry.taken.setdefault(parent, set()).update(message.partitions)

    def free(self, query: str, length: int, until: int) -> None:
        for key in [k for k in self._entries if k[0] == query and k[1] + length <= until]:
            del self._entries[key]
        if (query, until) in self._entries:
            # The next one: whoever had no room for it has now.
            entry = self._entries[query, until]
            entry.next_at = entry.wait = 0

    def retire(self, query: str) -> None:
        """Nobody asks for it any more."""
        for key in [key for key in self._entries if key[0] == query]:
            del self._entries[key]

    def drop(self, partition: int) -> None:
        """It is another's to send this one."""
        for key, entry in list(self._entries.items()):
            entry.partials.pop(partition, None)
            if not entry.partials:
                del self._entries[key]
