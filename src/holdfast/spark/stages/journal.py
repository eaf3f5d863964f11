"""The journal of a replica: each decision in a file of its own, with the rows it is about.

The node writes entries, the gate source reads them: in the driver's worker to plan a batch, through
the node's server to get rows. A file appears whole or not at all. An entry is kept until Spark has
committed the batch it was in, so a batch that is run again reads the same rows. It is safe from a
power failure before Spark can see it, and dropped only when Spark's checkpoint is safe too: a
checkpoint is never ahead of its journal, and what it has lost can be done again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final

from holdfast.errors import StoreCorruptError
from holdfast.parties.whole_files import sync
from holdfast.spark.stages.entries import Entry, Order, Piece
from holdfast.wire.chunks import DIGEST_SIZE, Chunk

__all__ = ["Journal"]

SUFFIX: Final = ".entry"
LENGTH: Final = 8
"""Bytes that say how long the header is."""


class Journal:
    """The entries in a folder; one process writes, others may read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._next = self.last + 1

    @property
    def last(self) -> int:
        """The number of the newest entry, 0 without any."""
        return max(self._numbers(), default=0)

    def append(self, entry: Entry) -> Entry:
        """Write an entry; it gets its number here."""
        entry = replace(entry, number=self._next)
        pieces = [
            [each.input, each.bucket, each.chunk.rows, each.chunk.size, each.chunk.digest.hex()]
            for each in entry.pieces
        ]
        header = json.dumps(
            {
                "order": entry.order,
                "start": entry.start,
                "end": entry.end,
                "tentative": entry.tentative,
                "pieces": pieces,
                "state": [len(entry.state), sha256(entry.state).hexdigest()],
            }
        ).encode()
        path = self._path(entry.number)
        unfinished = path.with_suffix(".unfinished")
        with unfinished.open("wb") as file:
            file.write(len(header).to_bytes(LENGTH, "big"))
            file.write(sha256(header).digest())
            file.write(header)
            for piece in entry.pieces:
                file.write(piece.chunk.read())
            file.write(entry.state)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(path)
        sync(self.folder)
        self._next += 1
        return entry

    def read(self, number: int) -> Entry:
        """An entry whose rows stay on disk until they are asked for."""
        path = self._path(number)
        try:
            with path.open("rb") as file:
                return _read(file, path, number)
        except (OSError, _DamageError) as error:
            raise StoreCorruptError(
                f"{path}: entry {number} of the journal cannot be read ({error}); start the "
                "replica with an empty folder, it gets its state from a peer or its inputs"
            ) from error

    def has(self, number: int) -> bool:
        """Whether the entry is there, so that its batch may be run again."""
        return self._path(number).exists()

    def since(self, number: int) -> Iterator[Entry]:
        """The entries after this one."""
        return (self.read(each) for each in sorted(self._numbers()) if each > number)

    def drop_to(self, number: int) -> None:
        """Forget the entries up to this one, but for the newest, whose number is needed."""
        newest = self.last
        for each in self._numbers():
            if each <= number and each != newest:
                self._path(each).unlink(missing_ok=True)

    def _numbers(self) -> list[int]:
        stems = (name.removesuffix(SUFFIX) for name in os.listdir(self.folder) if SUFFIX in name)
        return [int(stem) for stem in stems if stem.isdecimal()]

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:012d}{SUFFIX}"


class _DamageError(Exception):
    """The defect of a file."""


def _read(file: BinaryIO, path: Path, number: int) -> Entry:
    length = int.from_bytes(file.read(LENGTH), "big")
    size = os.fstat(file.fileno()).st_size
    offset = LENGTH + DIGEST_SIZE + length
    if offset > size:
        raise _DamageError("it is cut short")
    digest, text = file.read(DIGEST_SIZE), file.read(length)
    if sha256(text).digest() != digest:
        raise _DamageError("its header is damaged")
    header = json.loads(text)
    pieces = []
    for which, bucket, rows, length, hashed in header["pieces"]:
        chunk = Chunk.stored(path, offset, length, rows, bytes.fromhex(hashed))
        pieces.append(Piece(which, bucket, chunk))
        offset += length
    length, hashed = header["state"]
    if offset + length != size:
        raise _DamageError(f"it has {size} bytes, not {offset + length}")
    file.seek(offset)
    state = file.read(length)
    if sha256(state).hexdigest() != hashed:
        raise _DamageError("its state is damaged")
    order = Order(header["order"])
    tentative = header["tentative"]
    return Entry(number, order, header["start"], header["end"], tentative, tuple(pieces), state)
