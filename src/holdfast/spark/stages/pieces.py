"""The rows of a journal where Spark works on them.

They come out of the journal's own file if this process sees it, else from the replica's server.
Either way they are checked against what was decided upon.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa

from holdfast.errors import HoldfastError, InvalidArgumentError, StoreCorruptError
from holdfast.spark.stages.entries import Piece
from holdfast.spark.stages.journal import Journal
from holdfast.wire.chunks import digest_of
from holdfast.wire.client import LogClient
from holdfast.wire.security import Security

__all__ = [
    "PieceReader",
    "Wanted",
    "divided",
    "journal_ticket",
    "read_journal_ticket",
    "read_piece",
]

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
