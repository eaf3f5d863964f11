"""Output log of a replica on disk, and the progress of its query's base.

The log says with each record which entry of the journal it came of and from where on the output is
right. So a replica that is started again finds here whether it has a state, and what of its stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from holdfast.pipeline.machine.tuples import Segment
from holdfast.pipeline.process.segment_log import Damage, DiskLog


class History:
    """The log of a replica. Only its loop writes."""

    def __init__(self, folder: Path) -> None:
        self._log = DiskLog(folder, durable=True)
        self._older = DiskLog(folder / "older", durable=True)
        """What a peer has published before its state was taken over; the newest comes first."""
        self.base = 0
        """Where the base of the query stands: the end of the last stretch it has done."""
        self.done = 0
        """The newest entry whose result is in the log."""
        self.consistent_from = 0
        """From where on what an earlier life has published is right."""
        self.has_state = False
        """Whether an earlier life has left any."""
        self.is_whole = True
        """False while a peer is asked for what it has published before its state was taken over."""
        self.damage: list[Damage] = []
        """Records that could not be read; later ones are kept."""
        self._restored: list[Segment] = []
        self._read()

    def _leave_out_damage(self) -> None:
        """Keep what follows it. All before was published, so the state has it, and a peer may have
        its rows."""
        newest = self._log.records[-1]
        end, facts = newest.segment.end, newest.facts
        noted = {**_facts(facts["entry"], facts["consistent_from"]), "copied": 1}
        self._log.append(Segment(end, end, ()), noted)
        self._older.clear()
        if self._log.damage:
            self._log.leave_out_damage()

    def _read(self) -> None:
        damage = [*self._log.damage, *self._older.damage]
        if damage and self._log.records and not any(each.is_last for each in self._log.damage):
            self.damage = damage
            self._leave_out_damage()
        records = self._log.take()
        if records and "unfinished" in records[-1].facts:
            # The life before, of an earlier version, ended while it took over what a peer had.
            self._log.clear()
            self._older.clear()
            return
        older = self._older.take()
        self._restored = sorted((each.segment for each in older), key=lambda each: each.start)
        has_all = any("whole" in each.facts for each in older)
        self.is_whole = has_all or not any("copied" in each.facts for each in records)
        for record in records:
            self.has_state = True
            self._restored.append(record.segment)
            self.base = record.segment.end
            self.done = max(self.done, record.facts["entry"])
            self.consistent_from = record.facts["consistent_from"]

    @property
    def size(self) -> int:
        """In bytes."""
        return self._log.size + self._older.size

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

    def replace(self, boundary: int, entry: int, consistent_from: int) -> None:
        """The state of a peer at this boundary takes the place of all there is."""
        self._log.clear()
        self._older.clear()
        facts = {**_facts(entry, consistent_from), "copied": 1}
        self._log.append(Segment(boundary, boundary, ()), facts)
        self.done = entry
        self.is_whole = False

    def add_older(self, segments: Sequence[Segment]) -> tuple[Segment, ...]:
        """Log what a peer has published before all that is here, without a hole; answers it with
        its rows on disk."""
        if not segments:
            return ()
        # One record, so that the disk is waited for once.
        rows = tuple(row for segment in segments for row in segment.rows)
        stored = iter(
            self._older.append(Segment(segments[0].start, segments[-1].end, rows), {}).rows
        )
        return tuple(
            Segment(each.start, each.end, tuple(islice(stored, len(each.rows))))
            for each in segments
        )

    def end_older(self, start: int) -> None:
        """No peer has anything that was published before this boundary."""
        self._older.append(Segment(start, start, ()), {"whole": 1})
        self.is_whole = True

    def forget(self) -> None:
        """There is no state, and nothing that was published."""
        self.has_state = False
        # Entries may be numbered anew.
        self.base = self.done = self.consistent_from = 0
        self.is_whole = True
        self._restored = []
        self._log.clear()
        self._older.clear()

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
        self._older.drop_before(boundary)

    def close(self) -> None:
        self._log.close()
        self._older.close()


def _facts(entry: int, consistent_from: int) -> dict[str, int]:
    return {"entry": entry, "consistent_from": consistent_from}
