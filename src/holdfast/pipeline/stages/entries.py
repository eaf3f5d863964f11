"""Journal of a replica: its decisions in order, and the rows they are about.

They come out of the journal's own file if this process sees it, else from the replica's server.
Either way they are checked against what was decided upon.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import IntEnum
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final, Self

import pyarrow as pa

from holdfast.errors import HoldfastError, InvalidArgumentError, StoreCorruptError
from holdfast.pipeline.gates.order import Stretch
from holdfast.storage.atomic_file import sync
from holdfast.storage.chunks import DIGEST_SIZE, Chunk, digest_of
from holdfast.transport.client import LogClient
from holdfast.transport.security import Security

# What a replica asks of its query, in the order it is to be done: the entries of its journal.
#
# The consistency manager decides, `journal` keeps the decision, the gate source hands it to Spark:
# rows to the steps, and the order itself to every shard of the stage's state.


class Order(IntEnum):
    """What an entry asks for. Numbers are written to disk."""

    WORK = 1
    """Process the rows, up to `end`."""
    FORK = 2
    """Fork the base."""
    DROP = 3
    """Drop the fork."""
    RESTART = 4
    """Let the base begin anew, empty."""
    INSTALL = 5
    """Make the copy in the folder that `state` names the state of the base."""
    COPY = 6
    """Write the state of the base into the folder that `state` names."""
    RERUN = 7
    """Process the rows up to `end` with a state of their own, which begins empty and is dropped."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of one input in one bucket."""

    input: int
    """Which of the stage's inputs."""
    bucket: int
    chunk: Chunk


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the journal; numbers count from 1."""

    number: int
    order: Order
    start: int = 0
    end: int = 0
    tentative: bool = False
    """Whether the fork is to do it."""
    pieces: tuple[Piece, ...] = ()
    """By bucket, then by input."""
    state: bytes = b""


def work_on(
    stretch: Stretch, inputs: Mapping[str, int], size: int, *, tentative: bool = False
) -> Entry:
    """What is asked of the query for a stretch. `inputs`: the number of the input that each of its
    streams is of. `size`: of a bucket."""
    pieces = [
        Piece(number, row.stime // size, row.value)
        for stream, number in inputs.items()
        for row in stretch.rows[stream]
    ]
    pieces.sort(key=lambda piece: (piece.bucket, piece.input))
    return Entry(0, Order.WORK, stretch.start, stretch.end, tentative, tuple(pieces))


# The journal of a replica: each decision in a file of its own, with the rows it is about.
#
# The node writes entries, the gate source reads them: in the driver's worker to plan a batch,
# through the node's server to get rows. A file appears whole or not at all. An entry is kept until
# Spark has committed the batch it was in, so a batch that is run again reads the same rows. It is
# safe from a power failure before Spark can see it, and dropped only when Spark's checkpoint is
# safe too: a checkpoint is never ahead of its journal, and what it has lost can be done again.

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


FEW_ROWS: Final = 2**15
"""So many are not worth another task."""
MANY_ROWS: Final = 2**20
"""More are not read by one."""


def journal_ticket(entry: int, piece: int) -> bytes:
    return f"journal {entry} {piece}".encode()


def read_journal_ticket(ticket: bytes) -> tuple[int, int] | None:
    """The entry and the piece that a ticket asks for, None if it is no ticket for a journal."""
    match ticket.split():
        case [b"journal", entry, piece] if entry.isdigit() and piece.isdigit():
            return int(entry[:18]), int(piece[:18])
    return None


def read_piece(journal: Journal, ticket: bytes) -> pa.Table | None:
    """The rows that a ticket asks for, None if it is no ticket for a journal."""
    wanted = read_journal_ticket(ticket)
    if wanted is None:
        return None
    entry, piece = wanted
    pieces = journal.read(entry).pieces
    if piece >= len(pieces):
        raise InvalidArgumentError(f"ticket: entry {entry} has {len(pieces)} pieces")
    return pieces[piece].chunk.table()


@dataclass(frozen=True)
class Wanted:
    """A piece of an entry."""

    entry: int
    at: int
    """Which piece of the entry."""
    piece: Piece


def divided(wanted: Sequence[Wanted], tasks: int) -> list[list[Wanted]]:
    """Parts of about as many rows each, one for each task that can run at a time: whole pieces, in
    their order. Every task costs, however little it reads. At least one part, be it empty."""
    rows = sum(each.piece.chunk.rows for each in wanted)
    most = min(MANY_ROWS, max(FEW_ROWS, -(-rows // tasks)))
    parts: list[list[Wanted]] = [[]]
    rows = 0
    for each in wanted:
        if rows >= most:
            parts.append([])
            rows = 0
        rows += each.piece.chunk.rows
        parts[-1].append(each)
    return parts


class PieceReader:
    """Connects to the server when it needs to. A context manager."""

    def __init__(self, address: tuple[str, int], security: Security | None) -> None:
        self._address = address
        self._security = security
        self._client: LogClient | None = None

    def read(self, wanted: Wanted) -> pa.Table:
        chunk = wanted.piece.chunk
        with suppress(HoldfastError):
            table = chunk.table()
            if digest_of(table) == chunk.digest:
                return table
        table = self._fetched(journal_ticket(wanted.entry, wanted.at))
        if digest_of(table) != chunk.digest:
            raise StoreCorruptError(
                f"piece {wanted.at} of journal entry {wanted.entry} is not what was decided "
                "upon; start the replica with an empty folder"
            )
        return table

    def _fetched(self, ticket: bytes) -> pa.Table:
        if self._client is None:
            self._client = LogClient(self._address, self._security)
        return self._client.fetch(ticket)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            self._client.close()
