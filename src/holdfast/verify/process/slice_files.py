"""Files of slices, in a storage that is not trusted.

A file is a row of **pieces**, each an Arrow table of a fixed number of rows, and an index with
their digests at the end. The digest of the slice is taken over those of the pieces. So a slice is
written and read with one piece in memory, and no piece leaves a reader that is not part of what was
agreed: who finds a bad one goes on with the same piece of another copy. How much is read before
that is known follows from what was agreed, not from what the file says.
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import stat
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import BinaryIO, Final

import pyarrow as pa

from holdfast.errors import (
    InvalidArgumentError,
    StoreCorruptError,
    StoreUnavailableError,
    WireError,
)
from holdfast.storage.chunks import DIGEST_SIZE, Chunk
from holdfast.verify.machine import Holder

PIECE_ROWS: Final = 2**14
"""Rows of each piece but the last. Part of the digest: all replicas must have the same."""
PIECE_BYTES: Final = 2**29
"""The most that a piece may have: so much may somebody make others read who holds something else
than he should."""
PAUSES: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds between the times that a copy is tried which cannot be read."""

_ENTRY: Final = struct.Struct(f"<q{DIGEST_SIZE}s")
"""Of the index: bytes of a piece, and its digest."""
_END: Final = struct.Struct("<qq")
"""The last bytes: rows of the slice, and how many pieces it has."""
_MAKERS_FAULT: Final = {
    errno.ENOENT,
    errno.ENOTDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENXIO,
    errno.ENODEV,
}
"""What is said of a path where no plain file lies. Anything else may be wrong with the storage."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Written:
    """A slice as it was written."""

    path: str
    """In the storage."""
    digest: bytes
    rows: int


@dataclass(frozen=True)
class Storage:
    """Where the copies of replicas lie."""

    common: Path
    own: Mapping[str, Path] = field(default_factory=dict)
    """Of the pools that have one of their own, by host."""

    def of(self, holder: Holder) -> Path:
        return self.own.get(holder.host, self.common)


Tell = Callable[[Holder, str], None]
"""Told of each copy that is not what it should be: whose it is, and why."""


class UnreadableError(StoreUnavailableError):
    """No copy is right, and of some nobody can tell: the storage does not give them out."""


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
        if chunk.size > PIECE_BYTES:
            raise InvalidArgumentError(
                f"{self._path}: {chunk.rows} rows have {chunk.size >> 20} MiB, of which "
                f"{PIECE_BYTES >> 20} may be; let the stage give smaller rows, as by explode(...)"
            )
        self._file.write(chunk.read())
        self._pieces.append((chunk.size, chunk.digest))
        self._rows += chunk.rows


def read_slice(
    storage: Path | Storage,
    digest: bytes,
    rows: int,
    holders: Sequence[Holder],
    tell: Tell,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[pa.Table]:
    """The pieces of the slice with this digest and these rows, each checked before it is given out.

    It is read from the first holder, as far as its copy is right, then from the others. Copies that
    the storage does not give out are tried again if there is no other, and nobody is told of them.
    Raises StoreUnavailableError when no copy is right: UnreadableError if there is one of these.
    """
    given = 0
    unread: Sequence[Holder] = holders
    for seconds in (0.0, *PAUSES):
        if not unread:
            break
        if seconds:
            pause(seconds)
        trying, unread = unread, []
        for holder in trying:
            try:
                with _Opened(_folder(storage, holder), holder.path, digest, rows) as opened:
                    for piece in opened.pieces(given):
                        yield piece
                        given += 1
                    return
            except StoreCorruptError as error:
                tell(holder, str(error))
            except StoreUnavailableError as error:
                logger.warning("the copy of replica %d cannot be read: %s", holder.replica, error)
                unread.append(holder)
    kind = UnreadableError if unread else StoreUnavailableError
    asked = ", ".join(f"{holder.replica} ({holder.path})" for holder in holders)
    what = "none of its copies can be read" if unread else "none of its copies is right"
    raise kind(
        f"the slice with digest {digest.hex()}: {what}; asked replicas: "
        f"{asked or 'none'}; see whether the storage is there, or run the job again"
    )


def is_broken(storage: Path | Storage, digest: bytes, rows: int, holder: Holder) -> bool:
    """Whether the copy of a holder is found not to be what was agreed on, or not to be there.

    Of one that cannot be read nobody knows. It is tried once: who asks has others to look after.
    """
    try:
        with _Opened(_folder(storage, holder), holder.path, digest, rows) as opened:
            for _ in opened.pieces(0):
                pass
    except StoreCorruptError:
        return True
    except StoreUnavailableError as error:
        logger.warning("the copy of replica %d cannot be read: %s", holder.replica, error)
    return False


class _Opened:
    """A file whose index has been found to be the agreed one."""

    def __init__(self, storage: Path, path: str, digest: bytes, rows: int) -> None:
        self._path = path
        self._rows = rows
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
        pieces = max(1, -(-self._rows // PIECE_ROWS))
        start = self._file.seek(0, os.SEEK_END) - _END.size - pieces * _ENTRY.size
        if start < 0:
            raise StoreCorruptError(f"{self._path}: is too short for {self._rows} rows")
        self._file.seek(start)
        index = self._file.read(pieces * _ENTRY.size)
        if self._file.read(_END.size) != _END.pack(self._rows, pieces):
            raise StoreCorruptError(f"{self._path}: is no slice of {self._rows} rows")
        self._entries = list(_ENTRY.iter_unpack(index))
        if _digest_of_slice(self._rows, [each for _, each in self._entries]) != digest:
            raise StoreCorruptError(f"{self._path}: does not have the digest that was agreed on")
        lengths = [length for length, _ in self._entries]
        if sum(lengths) != start or not all(0 <= each <= PIECE_BYTES for each in lengths):
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
    """Only a plain file in the storage, with no link on the way: who names the path may want us to
    read something else, or to follow links for ever."""
    folder = os.open(storage, os.O_RDONLY | os.O_DIRECTORY)
    try:
        *folders, name = PurePosixPath(path).parts or (".",)
        if PurePosixPath(path).is_absolute() or ".." in (*folders, name):
            raise StoreCorruptError(f"{path}: lies outside of the storage")
        for depth, each in enumerate(folders):
            if depth == 0 and not os.path.lexists(storage / each):
                # All of the job's files are gone: it is the storage that is not there.
                raise OSError(errno.ESTALE, "the storage has no files of this job")
            inner = os.open(each, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        handle = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=folder)
    except ValueError as error:
        raise StoreCorruptError(f"{path!r}: is no path: {error}") from None
    except OSError as error:
        if error.errno in _MAKERS_FAULT:
            raise StoreCorruptError(f"{path}: {error.strerror}") from None
        raise
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise StoreCorruptError(f"{path}: is no plain file")
    return os.fdopen(handle, "rb")


def _folder(storage: Path | Storage, holder: Holder) -> Path:
    return storage.of(holder) if isinstance(storage, Storage) else storage


def _digest_of_slice(rows: int, pieces: Sequence[bytes]) -> bytes:
    hashed = sha256(_END.pack(rows, len(pieces)))
    for digest in pieces:
        hashed.update(digest)
    return hashed.digest()
