"""Append-only log of segments on disk: records that are there whole or not at all.

A record has a few facts and the rows of some buckets. The log is a row of files; old ones go when
all in them is dropped.

A torn tail and damage are two things. A record that a crash has left unfinished at the end of the
newest file was never acknowledged: it is cut off when the log is opened again. Any other record
that cannot be read is damage: it stays where it is, the records after it are kept, and `take`
raises an error that names the file and the offset.
"""

from __future__ import annotations

import json
import logging
import os
import zlib
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from mmap import ACCESS_READ, mmap
from pathlib import Path
from shutil import copyfileobj
from struct import Struct
from typing import Any, Final

from holdfast.errors import StoreCorruptError, StoreUnavailableError
from holdfast.pipeline.machine.tuples import Row, Segment
from holdfast.storage.atomic_file import make_folder, publish, sync
from holdfast.storage.chunks import Chunk

logger = logging.getLogger(__name__)

HEAD: Final = Struct(">4sIIQII")
"""A mark, length and checksum of the header, length and checksum of the chunks' bytes, and the
checksum of these."""
UNCHECKED: Final = HEAD.size - 4
"""The bytes of a head that its own checksum is of."""
MARK: Final = b"HFL2"
FORMER_MARK: Final = b"HFL1"
ZEROS: Final = 16
"""A file that ends with so many zeros was made longer, and then not written: no record does."""
FILE_SIZE: Final = 2**26
"""After so many bytes a new file is begun."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record."""

    segment: Segment
    """Its rows are chunks that lie on disk."""
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a log that cannot be read."""

    path: Path
    offset: int
    size: int
    is_last: bool
    """Whether no record follows."""

    def __str__(self) -> str:
        place = "the last record" if self.is_last else "a record"
        return f"{self.path}: {place}, at byte {self.offset}, is damaged ({self.size} bytes)"


@dataclass(slots=True)
class _File:
    path: Path
    size: int
    """In bytes."""
    end: int
    """Of the event time in it."""


class DiskLog:
    """The records in a folder. One process at a time."""

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        """`durable`: a record is safe from a power failure when it has been appended."""
        self.folder = folder
        self._durable = durable
        if durable:
            make_folder(folder)
        else:
            folder.mkdir(parents=True, exist_ok=True)
        self._open()

    def _open(self) -> None:
        self.records: list[Record] = []
        """Records found when the log was opened; take them with `take`."""
        self.damage: list[Damage] = []
        """Bytes that could not be read when the log was opened."""
        self._files: deque[_File] = deque()
        paths = sorted(self.folder.glob("*.log"))
        newest = next((path for path in reversed(paths) if path.stat().st_size), None)
        for path in paths:
            found, damage = _read(path, is_newest=path == newest)
            self.records += found
            self.damage += damage
            end = max((record.segment.end for record in found), default=0)
            self._files.append(_File(path, path.stat().st_size, end))
        if self._durable and newest is not None:
            # What is found is told on, and whoever wrote it may have been killed before that.
            sync(newest)
        self._number = int(self._files[-1].path.stem) + 1 if self._files else 0
        self._file = self._begin_file()

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(file.size for file in list(self._files))

    def take(self, *, damaged: bool = False) -> list[Record]:
        """Records found when the log was opened; they are forgotten here. `damaged`: answer those
        that can be read of a log that is damaged; else that is an error."""
        if self.damage and not damaged:
            raise StoreCorruptError(
                f"{self.damage[0]}; restore the file from a copy, or delete {self.folder}"
            )
        found, self.records = self.records, []
        return found

    def leave_out_damage(self) -> None:
        """Delete what cannot be read, and all before it; what follows is found again."""
        last = self.damage[-1]
        self._file.close()
        # In this order, so that the damage is still there if this ends half-way.
        for file in self._files:
            if file.path < last.path:
                file.path.unlink()
        sync(self.folder)
        unfinished = last.path.with_suffix(".unfinished")
        with last.path.open("rb") as damaged, unfinished.open("wb") as rest:
            damaged.seek(last.offset + last.size)
            copyfileobj(damaged, rest)
        publish(unfinished, last.path)
        self._open()

    def append(self, segment: Segment, facts: Mapping[str, Any]) -> Segment:
        """Write a record; answers the segment with its rows on disk."""
        if self._files[-1].size > FILE_SIZE:
            self._file.close()
            self._file = self._begin_file()
        chunks: list[Chunk] = [row.value for row in segment.rows]
        header = json.dumps(
            {
                "start": segment.start,
                "end": segment.end,
                "rows": [
                    [row.stime, chunk.rows, chunk.size, chunk.digest.hex()]
                    for row, chunk in zip(segment.rows, chunks, strict=True)
                ],
                "facts": facts,
            }
        ).encode()
        data = [chunk.read() for chunk in chunks]
        check = 0
        for each in data:
            check = zlib.crc32(each, check)
        path, start = self._files[-1].path, self._files[-1].size
        lengths = sum(map(len, data))
        head = HEAD.pack(MARK, len(header), zlib.crc32(header), lengths, check, 0)[:UNCHECKED]
        head += zlib.crc32(head).to_bytes(4, "big") + header
        try:
            for each in (head, *data):
                self._write(each)
            if self._durable:
                os.fdatasync(self._file.fileno())
        except OSError as error:
            # What follows half a record could never be read again.
            with suppress(OSError):
                os.ftruncate(self._file.fileno(), start)
            raise StoreUnavailableError(
                f"{path}: {error.strerror}; make room on the disk, or give another folder"
            ) from error
        offset = start + len(head)
        self._files[-1].size = offset + sum(map(len, data))
        self._files[-1].end = max(self._files[-1].end, segment.end)
        rows = []
        for row, chunk in zip(segment.rows, chunks, strict=True):
            rows.append(row._replace(value=chunk.moved(path, offset)))
            offset += chunk.size
        return Segment(segment.start, segment.end, tuple(rows))

    def drop_before(self, boundary: int) -> None:
        """Delete the files in which all is before the boundary; the newest record stays, for it
        says where to go on."""
        while (
            len(self._files) > 1
            and self._files[0].end <= boundary
            and any(file.size for file in islice(self._files, 1, None))
        ):
            self._files.popleft().path.unlink(missing_ok=True)

    def clear(self) -> None:
        """Delete everything."""
        self._file.close()
        for file in self._files:
            file.path.unlink(missing_ok=True)
        self._files.clear()
        self.records, self.damage = [], []
        self._file = self._begin_file()

    def close(self) -> None:
        self._file.close()

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]

    def _begin_file(self) -> Any:
        path = self.folder / f"{self._number:09d}.log"
        self._number += 1
        self._files.append(_File(path, 0, 0))
        file = path.open("ab", buffering=0)
        if self._durable:
            sync(self.folder)
        return file


def _read(path: Path, *, is_newest: bool) -> tuple[list[Record], list[Damage]]:
    """The records of a file, and what of it cannot be read; a torn tail is cut off."""
    records: list[Record] = []
    damage: list[Damage] = []
    with path.open("rb") as file, suppress(ValueError):
        # An empty file cannot be mapped.
        with mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            end, torn = _go_through(path, data, records, damage, is_newest=is_newest)
        if torn:
            logger.warning("%s: cut off at byte %d, for its last record is unfinished", path, end)
            os.truncate(path, end)
            # Before anything follows in another file: after a power failure it would be damage.
            sync(path)
    return records, damage


def _go_through(
    path: Path, data: mmap, records: list[Record], damage: list[Damage], *, is_newest: bool
) -> tuple[int, bool]:
    """Answers where the last record ends, and whether an unfinished one follows it."""
    at, length = 0, len(data)
    while at < length:
        read = _record(path, data, at)
        if read is not None:
            record, at = read
            records.append(record)
            continue
        if data[at : at + len(FORMER_MARK)] == FORMER_MARK:
            raise StoreCorruptError(
                f"{path}: was written by an earlier version of Holdfast; delete the folder of the "
                "party to begin anew"
            )
        following = _following(path, data, at)
        if following is None and is_newest and _is_torn(data, at):
            break
        stop = length if following is None else following
        damage.append(Damage(path, at, stop - at, is_last=False))
        at = stop
    if is_newest and damage and damage[-1].offset + damage[-1].size == at:
        damage[-1] = replace(damage[-1], is_last=True)
    return at, at < length


def _following(path: Path, data: mmap, at: int) -> int | None:
    """Where something follows that was written after what begins here and cannot be read."""
    lengths = _lengths(data, at)
    if lengths is not None:
        end = at + HEAD.size + lengths[0] + lengths[2]
        return end if data[end:].strip(b"\0") else None
    following = data.find(MARK, at + 1)
    while following >= 0 and _record(path, data, following) is None:
        following = data.find(MARK, following + 1)
    return following if following >= 0 else None


def _record(path: Path, data: mmap, at: int) -> tuple[Record, int] | None:
    """The record that begins here, and where it ends; None if it cannot be read."""
    lengths = _lengths(data, at)
    if lengths is None:
        return None
    header_length, header_check, size, check = lengths
    begin = at + HEAD.size + header_length
    if begin + size > len(data):
        return None
    header = data[at + HEAD.size : begin]
    if zlib.crc32(header) != header_check:
        return None
    with memoryview(data) as view, view[begin : begin + size] as chunks:
        if zlib.crc32(chunks) != check:
            return None
    said = json.loads(header)
    return Record(_segment(path, begin, said), said["facts"]), begin + size


def _lengths(data: mmap, at: int) -> tuple[int, int, int, int] | None:
    """What a head says of its record; None if it is no head."""
    head = data[at : at + HEAD.size]
    if len(head) < HEAD.size:
        return None
    mark, header, header_check, size, check, own = HEAD.unpack(head)
    if mark != MARK or zlib.crc32(head[:UNCHECKED]) != own:
        return None
    return header, header_check, size, check


def _is_torn(data: mmap, at: int) -> bool:
    """Whether what follows is a record that was never written to its end: it goes on after the end
    of the file, or the disk has not written its end. Who appends waits until the disk
    has written all of a record, so nobody was told that it is safe."""
    length = len(data)
    if length - at < HEAD.size:
        return True
    lengths = _lengths(data, at)
    if lengths is not None and at + HEAD.size + lengths[0] + lengths[2] > length:
        return True
    # A head that cannot be read and has its end was written, and then damaged.
    has_end = lengths is None and data[at + HEAD.size - 1]
    return not has_end and not any(data[max(at, length - ZEROS) : length])


def _segment(path: Path, offset: int, said: Mapping[str, Any]) -> Segment:
    rows = []
    for stime, count, size, digest in said["rows"]:
        chunk = Chunk.stored(path, offset, size, count, bytes.fromhex(digest))
        rows.append(Row(stime, None, chunk))
        offset += size
    return Segment(said["start"], said["end"], tuple(rows))
