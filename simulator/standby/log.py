"""The log of one proxy, as it is known to be written, and how much of it is final."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.pipeline.machine.tuples import Segment
from simulator.standby.messages import Entry


class Log:
    """Entries from the beginning of the stream on; the first `shown` of them are final."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = list(entries)
        # All before an entry is in both logs when the entry is proposed.
        is_last_shown = bool(entries) and entries[-1].alone
        self.shown = len(entries) if is_last_shown else max(len(entries) - 1, 0)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: int) -> Entry:
        return self._entries[index]

    def since(self, index: int) -> list[Entry]:
        return self._entries[index:]

    @property
    def newest(self) -> Entry | None:
        return self._entries[-1] if self._entries else None

    @property
    def end(self) -> int:
        """Up to where it holds the stream."""
        return self._entries[-1].segment.end if self._entries else 0

    @property
    def last(self) -> int:
        """The number of the newest reading in it."""
        return self._entries[-1].last if self._entries else 0

    @property
    def shown_end(self) -> int:
        """Up to where the stream is final."""
        return self._entries[self.shown - 1].segment.end if self.shown else 0

    @property
    def settled(self) -> int:
        """The number of the newest reading that is final."""
        return self._entries[self.shown - 1].last if self.shown else 0

    @property
    def epoch(self) -> int:
        return max((entry.epoch for entry in self._entries), default=0)

    def put(self, index: int, entry: Entry) -> list[Entry]:
        """Write it there; what it replaces."""
        replaced = self._entries[index:]
        self._entries[index:] = [entry]
        return replaced

    def show(self, count: int) -> list[Segment]:
        """So many entries are final, if it has so many; those that were not before."""
        count = min(count, len(self._entries))
        new = self._entries[self.shown : count]
        self.shown = max(self.shown, count)
        return [entry.segment for entry in new]
