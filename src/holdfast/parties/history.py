"""What a replica has published for good, and how far the base of its query has come with that.

The log says with each record which entry of the journal it came of and from where on the output is
right. So a replica that is started again finds here whether it has a state, and what of its stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from holdfast.parties.disk_log import DiskLog
from holdfast.tuples import Segment

__all__ = ["History"]


class History:
    """The log of a replica. Only its loop writes."""

    def __init__(self, folder: Path) -> None:
        self._log = DiskLog(folder, durable=True)
        self.base = 0
        """Where the base of the query stands: the end of the last stretch it has done."""
        self.done = 0
        """The newest entry whose result is in the log."""
        self.consistent_from = 0
        """From where on what an earlier life has published is right."""
        self.has_state = False
        """Whether an earlier life has left any."""
        self._restored: list[Segment] = []
        self._read()

    def _read(self) -> None:
        records = self._log.take()
        if records and "unfinished" in records[-1].facts:
            # The life before has ended while it took over what a peer had.
            self._log.clear()
            return
        for record in records:
            self.has_state = True
            self._restored.append(record.segment)
            self.base = record.segment.end
            self.done = max(self.done, record.facts["entry"])
            self.consistent_from = record.facts["consistent_from"]

    @property
    def size(self) -> int:
        """In bytes."""
        return self._log.size

    def add(self, segment: Segment, entry: int, consistent_from: int) -> Segment:
        """Log what came of an entry; answers it with its rows on disk."""
        stored = self._log.append(segment, _facts(entry, consistent_from))
        self.base, self.done = segment.end, entry
        return stored

    def recall(self, segment: Segment) -> None:
        """This belongs to the life before, which could not log it any more."""
        self.has_state = True
        self._restored.append(segment)

    def restart(self, boundary: int, entry: int, consistent_from: int) -> None:
        """The base is empty at this boundary: let the next life find that, whatever was logged
        before."""
        self.has_state, self.consistent_from = True, consistent_from
        self.add(Segment(boundary, boundary, ()), entry, consistent_from)

    def replace(
        self, segments: Iterable[Segment], boundary: int, entry: int, consistent_from: int
    ) -> None:
        """What a peer has published up to the boundary takes the place of all there is. To the next
        life half of it is as good as nothing."""
        self._log.clear()
        for segment in segments:
            self._log.append(segment, {**_facts(entry, consistent_from), "unfinished": 1})
        self._log.append(Segment(boundary, boundary, ()), _facts(entry, consistent_from))
        self.done = entry

    def forget(self) -> None:
        """There is no state, and nothing that was published."""
        self.has_state = False
        # Entries may be numbered anew.
        self.base = self.done = self.consistent_from = 0
        self._restored = []
        self._log.clear()

    def take_published(self, size: int) -> list[Segment]:
        """What an earlier life has published and is right, bucket by bucket, up to where it has no
        hole; it is forgotten here."""
        pieces: list[Segment] = []
        for segment in self._restored:
            if segment.end <= self.consistent_from:
                continue
            if pieces and segment.start > pieces[-1].end:
                pieces.clear()
            pieces += segment.after(self.consistent_from).by_bucket(size)
        self._restored = []
        return pieces

    def drop_before(self, boundary: int) -> None:
        self._log.drop_before(boundary)

    def close(self) -> None:
        self._log.close()


def _facts(entry: int, consistent_from: int) -> dict[str, int]:
    return {"entry": entry, "consistent_from": consistent_from}
