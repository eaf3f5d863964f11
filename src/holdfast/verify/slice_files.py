"""Files that hold one slice of a stage's output each, in a storage that nobody trusts.

A file is a row of **pieces**, each an Arrow table of a fixed number of rows, and an index with
their digests at the end. The digest of the slice is taken over those of the pieces. So a slice is
written and read with one piece in memory, and no piece leaves a reader that is not part of what was
agreed: who finds a bad one goes on with the same piece of another copy.
"""

from __future__ import annotations

import os
import secrets
import stat
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import BinaryIO, Final

import pyarrow as pa

from holdfast.errors import StoreCorruptError, StoreUnavailableError
from holdfast.protocol.verification import Holder
from holdfast.wire.chunks import DIGEST_SIZE, Chunk
from holdfast.wire.errors import WireError

__all__ = ["PIECE_ROWS", "SliceWriter", "Tell", "Written", "is_right", "read_slice"]

PIECE_ROWS: Final = 2**14
"""Rows of each piece but the last. Part of the digest: all replicas must have the same."""

_ENTRY: Final = struct.Struct(f"<q{DIGEST_SIZE}s")
"""Of the index: bytes of a piece, and its digest."""
_END: Final = struct.Struct("<qq")
"""The last bytes: rows of the slice, and how many pieces it has."""


@dataclass(frozen=True)
class Written:
    """A slice as it was written."""

    path: str
    """In the storage."""
    digest: bytes
    rows: int


Tell = Callable[[Holder, str], None]
"""Told of each copy that is not what it should be: whose it is, and why."""


class SliceWriter:
    """Writes one slice; a context manager. Nothing is seen under the file's name before `finish`.

    The bytes are not forced to the disk: who reads them checks them, and there are other copies.
    """

    def __init__(
        self, storage: Path, folder: PurePosixPath, number: int, schema: pa.Schema
    ) -> None:
        """`folder` is one in the storage."""
        self._storage = storage
        self._path = folder / f"{number}-{secrets.token_hex(8)}.slice"
        self._schema = schema
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._rows = 0
        self._pieces: list[tuple[int, bytes]] = []
        self._part = storage / folder / f".{self._path.name}.part"
        self._part.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._part.open("xb")

    def __enter__(self) -> SliceWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()
        self._part.unlink(missing_ok=True)

    def add(self, table: pa.Table) -> None:
        """The next rows, in canonical order; cut in any way."""
        self._waiting.append(table)
        self._waiting_rows += table.num_rows
        if self._waiting_rows < PIECE_ROWS:
            return
        rows = pa.concat_tables(self._waiting)
        whole = self._waiting_rows - self._waiting_rows % PIECE_ROWS
        for start in range(0, whole, PIECE_ROWS):
            self._write(rows.slice(start, PIECE_ROWS))
        self._waiting = [rows.slice(whole)]
        self._waiting_rows -= whole

    def finish(self) -> Written:
        """A slice without rows has one piece without rows, so that its columns are known."""
        if self._waiting_rows or not self._pieces:
            self._write(pa.concat_tables(self._waiting or [self._schema.empty_table()]))
        for size, digest in self._pieces:
            self._file.write(_ENTRY.pack(size, digest))
        self._file.write(_END.pack(self._rows, len(self._pieces)))
        self._file.close()
        self._part.rename(self._storage / self._path)
        digests = [digest for _, digest in self._pieces]
        return Written(str(self._path), _digest_of_slice(self._rows, digests), self._rows)

    def _write(self, rows: pa.Table) -> None:
        chunk = Chunk.of(rows.combine_chunks())
        self._file.write(chunk.read())
        self._pieces.append((chunk.size, chunk.digest))
        self._rows += chunk.rows


def read_slice(
    storage: Path, digest: bytes, holders: Sequence[Holder], tell: Tell
) -> Iterator[pa.Table]:
    """The pieces of the slice with this digest, each checked before it is given out.

    It is read from the first holder, as far as its copy is right, then from the others. Raises
    StoreUnavailableError when none is.
    """
    given = 0
    for holder in holders:
        try:
            with _Opened(storage, holder.path, digest) as opened:
                for piece in opened.pieces(given):
                    yield piece
                    given += 1
                return
        except (StoreCorruptError, StoreUnavailableError) as error:
            tell(holder, str(error))
    asked = ", ".join(f"{holder.replica} ({holder.path})" for holder in holders)
    raise StoreUnavailableError(
        f"the slice with digest {digest.hex()}: none of its copies is right; asked replicas: "
        f"{asked or 'none'}; see whether the storage is there, or run the job again"
    )


def is_right(storage: Path, digest: bytes, holder: Holder) -> bool:
    """Whether the whole copy of a holder has this digest."""
    try:
        for _ in read_slice(storage, digest, [holder], lambda *_: None):
            pass
    except StoreUnavailableError:
        return False
    return True


class _Opened:
    """A file whose index has been found to be the agreed one."""

    def __init__(self, storage: Path, path: str, digest: bytes) -> None:
        self._path = path
        try:
            self._file = _open(storage, path)
            try:
                self._index(digest)
            except BaseException:
                self._file.close()
                raise
        except OSError as error:
            raise StoreUnavailableError(f"{path}: {error.strerror}") from None

    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _index(self, digest: bytes) -> None:
        size = self._file.seek(0, os.SEEK_END)
        if size < _END.size:
            raise StoreCorruptError(f"{self._path}: is no slice")
        self._file.seek(size - _END.size)
        self._rows, pieces = _END.unpack(self._file.read(_END.size))
        start = size - _END.size - pieces * _ENTRY.size
        if not 0 < pieces <= size or start < 0:
            raise StoreCorruptError(f"{self._path}: is no slice")
        self._file.seek(start)
        index = self._file.read(pieces * _ENTRY.size)
        self._entries = list(_ENTRY.iter_unpack(index))
        if _digest_of_slice(self._rows, [each for _, each in self._entries]) != digest:
            raise StoreCorruptError(f"{self._path}: does not have the digest that was agreed on")
        if any(length < 0 for length, _ in self._entries) or start != sum(
            length for length, _ in self._entries
        ):
            raise StoreCorruptError(f"{self._path}: its pieces do not lie where its index says")

    def pieces(self, first: int) -> Iterator[pa.Table]:
        at = sum(length for length, _ in self._entries[:first])
        for number, (length, digest) in enumerate(self._entries[first:], first):
            try:
                self._file.seek(at)
                data = self._file.read(length)
            except OSError as error:
                raise StoreUnavailableError(f"{self._path}: {error.strerror}") from None
            rows = min(PIECE_ROWS, self._rows - number * PIECE_ROWS)
            try:
                yield Chunk.received(data, rows, digest).table()
            except WireError as error:
                raise StoreCorruptError(f"{self._path}: piece {number}: {error}") from None
            at += length


def _open(storage: Path, path: str) -> BinaryIO:
    """Only a plain file in the storage: who names the path may want us to read something else."""
    root = storage.resolve()
    place = (root / path).resolve()
    if not place.is_relative_to(root):
        raise StoreCorruptError(f"{path}: lies outside of the storage")
    handle = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise StoreCorruptError(f"{path}: is no plain file")
    return os.fdopen(handle, "rb")


def _digest_of_slice(rows: int, pieces: Sequence[bytes]) -> bytes:
    hashed = sha256(_END.pack(rows, len(pieces)))
    for digest in pieces:
        hashed.update(digest)
    return hashed.digest()
