"""Closing panes: once all sensors are past its end, a pane is what the slots come to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.protocol.edge.messages import PanePartial
from holdfast.protocol.edge.queries import Paned
from holdfast.protocol.edge.slot import Slot
from holdfast.protocol.edge.slots import Slots
from holdfast.protocol.groups import Claim

__all__ = ["Closing"]

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
