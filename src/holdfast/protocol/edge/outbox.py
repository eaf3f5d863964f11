"""Panes that are closed, and are sent upward until the root has them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from holdfast.protocol.edge.messages import PaneClosed, PanePartial, PaneTaken, Send

__all__ = ["Outbox"]

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
