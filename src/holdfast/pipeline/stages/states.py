"""State of a stage as files: the copy that a peer gives a replica without state.

Each step with state writes one file for each of its shards into a folder, record by record, and
reports its size and a digest of each piece. So no process ever holds a whole state. Tasks of Spark
run on the replica's machine and see its folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO, Final, Self

from holdfast.errors import InvalidValueError, StoreCorruptError
from holdfast.windows.stores.codec import StateCodec

PIECE: Final = 512 << 10
"""Bytes of a piece; the last one of a file may have fewer."""
NO_COPY: Final[tuple[int, tuple[str, ...]]] = (-1, ())
"""The report of a step that could not write its file."""
_MARK: Final = b"HFSTATE1"
_HEAD: Final = Struct(">III")
"""Lengths of the shelf's name, of a record's key and of the record; all 0 at the end."""
_NAME: Final = re.compile(r"\d{1,4}-\d{1,6}")
_CODEC: Final = StateCodec()


def file_name(step: int, shard: int) -> str:
    return f"{step}-{shard}"


@dataclass(frozen=True, slots=True)
class StateFile:
    """One file of a copied state."""

    name: str
    size: int
    digests: tuple[str, ...]
    """SHA-256 of each piece, in hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class StateFiles:
    """All files of a copied state; their pieces are numbered through, file by file."""

    files: tuple[StateFile, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def pieces(self) -> int:
        return sum(len(file.digests) for file in self.files)

    def place(self, number: int) -> tuple[StateFile, int]:
        """The file of a piece, and which of the file's pieces it is."""
        for file in self.files:
            if number < len(file.digests):
                return file, number
            number -= len(file.digests)
        raise InvalidValueError(f"a copied state has no piece {number}")

    def write(self) -> bytes:
        return json.dumps([[each.name, each.size, each.digests] for each in self.files]).encode()

    @classmethod
    def read(cls, data: bytes) -> Self:
        """From anybody: raises InvalidValueError for what no copy can have."""
        try:
            files = tuple(
                StateFile(name, size, tuple(digests)) for name, size, digests in json.loads(data)
            )
            names = [file.name for file in files]
            for file in files:
                if not _NAME.fullmatch(file.name) or type(file.size) is not int or file.size < 0:
                    raise ValueError(f"a file {file.name!r} of {file.size!r} bytes")
                if len(file.digests) != -(-file.size // PIECE):
                    raise ValueError(f"{file.name} has {len(file.digests)} pieces")
                if not all(type(d) is str and len(d) == 64 for d in file.digests):
                    raise ValueError(f"{file.name} has pieces without a digest")
            if len(set(names)) < len(names):
                raise ValueError("a file is there twice")
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidValueError(f"a copied state is described wrongly: {error}") from None
        return cls(files)

    @classmethod
    def of(cls, reports: Mapping[int, Sequence[tuple[int, Sequence[str]]]]) -> Self:
        """What the steps have reported for each shard."""
        return cls(
            tuple(
                StateFile(file_name(step, shard), size, tuple(digests))
                for shard in sorted(reports)
                for step, (size, digests) in enumerate(reports[shard])
            )
        )


class StateWriter:
    """Writes one file; a context manager. What it has written is in `report` afterwards."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._unfinished = path.with_suffix(".unfinished")
        self._file = self._unfinished.open("wb")
        self._hash = sha256()
        self._size = 0
        self._digests: list[str] = []
        self.report: tuple[int, tuple[str, ...]] = (0, ())

    def write(self, data: bytes) -> None:
        self._file.write(data)
        view = memoryview(data)
        while view:
            part = view[: PIECE - self._size % PIECE]
            self._hash.update(part)
            self._size += len(part)
            if self._size % PIECE == 0:
                self._digests.append(self._hash.hexdigest())
                self._hash = sha256()
            view = view[len(part) :]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        try:
            self._file.close()
        except OSError:
            self._unfinished.unlink()
            raise
        if failed is not None:
            self._unfinished.unlink()
            return
        if self._size % PIECE:
            self._digests.append(self._hash.hexdigest())
        self._unfinished.rename(self._path)
        self.report = (self._size, tuple(self._digests))


def write_records(
    path: Path, records: Iterable[tuple[str, Any, int, bytes]]
) -> tuple[int, tuple[str, ...]]:
    """Write the records of a shard: shelf, name, number and encoded record each. Answers the size
    of the file and the digests of its pieces."""
    with StateWriter(path) as file:
        file.write(_MARK)
        for shelf, name, number, record in records:
            key = _CODEC.encode((name, number))
            file.write(_HEAD.pack(len(shelf), len(key), len(record)) + shelf.encode() + key)
            file.write(record)
        file.write(_HEAD.pack(0, 0, 0))
    return file.report


def read_records(path: Path) -> Iterator[tuple[str, Any, int, bytes]]:
    """The records of a shard, one after the other."""
    try:
        with path.open("rb") as file:
            if file.read(len(_MARK)) != _MARK:
                raise StoreCorruptError(f"{path}: is no state of a stage; {_REMEDY}")
            while True:
                shelf, key, size = _HEAD.unpack(_exactly(file, _HEAD.size, path))
                if not shelf:
                    return
                name = _exactly(file, shelf, path).decode()
                at = _CODEC.decode(_exactly(file, key, path))
                yield name, at[0], at[1], _exactly(file, size, path)
    except OSError as error:
        raise StoreCorruptError(f"{path}: {error.strerror}; {_REMEDY}") from error


_REMEDY: Final = "start the replica with an empty folder, it gets its state from a peer"


def _exactly(file: BinaryIO, size: int, path: Path) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise StoreCorruptError(f"{path}: is cut short; {_REMEDY}")
    return data
