"""What a party has published or taken in, on disk: records that are there whole or not at all.

A record has a few facts and the rows of some buckets. The log is a row of files; old ones go when
all in them is dropped. What a crash cut off at the end is cut off when the log is opened again.
"""

from __future__ import annotations

import json
import os
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from struct import Struct
from typing import Any, Final

from holdfast.errors import StoreUnavailableError
from holdfast.parties.whole_files import sync
from holdfast.tuples import Row, Segment
from holdfast.wire.chunks import Chunk

__all__ = ["DiskLog", "Record"]

HEAD: Final = Struct(">4sIII")
"""A mark, the length of the header, its checksum, and that of the chunks' bytes."""
MARK: Final = b"HFL1"
FILE_SIZE: Final = 2**26
"""After so many bytes a new file is begun."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record."""

    segment: Segment
    """Its rows are chunks that lie on disk."""
    facts: Mapping[str, Any]


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
        folder.mkdir(parents=True, exist_ok=True)
        self.records: list[Record] = []
        """What was found when the log was opened; take it with `take`."""
        self._files: deque[_File] = deque()
        for path in sorted(folder.glob("*.log")):
            found = list(_read(path))
            self.records += found
            end = max((record.segment.end for record in found), default=0)
            self._files.append(_File(path, path.stat().st_size, end))
        self._number = int(self._files[-1].path.stem) + 1 if self._files else 0
        self._file = self._begin_file()

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(file.size for file in list(self._files))

    def take(self) -> list[Record]:
        """What was found when the log was opened; it is forgotten here."""
        found, self.records = self.records, []
        return found

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
        head = HEAD.pack(MARK, len(header), zlib.crc32(header), check) + header
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


def _read(path: Path) -> Iterator[Record]:
    """The whole records of a file; what follows the last one is cut off."""
    good = 0
    with path.open("rb") as file:
        length = os.fstat(file.fileno()).st_size
        while good + HEAD.size <= length:
            mark, size, check, check_data = HEAD.unpack(file.read(HEAD.size))
            header = file.read(size)
            if mark != MARK or len(header) < size or zlib.crc32(header) != check:
                break
            said = json.loads(header)
            offset = good + HEAD.size + size
            data = sum(each[2] for each in said["rows"])
            if offset + data > length or zlib.crc32(file.read(data)) != check_data:
                break
            yield Record(_segment(path, offset, said), said["facts"])
            good = offset + data
    if good < length:
        os.truncate(path, good)


def _segment(path: Path, offset: int, said: Mapping[str, Any]) -> Segment:
    rows = []
    for stime, count, size, digest in said["rows"]:
        chunk = Chunk.stored(path, offset, size, count, bytes.fromhex(digest))
        rows.append(Row(stime, None, chunk))
        offset += size
    return Segment(said["start"], said["end"], tuple(rows))
