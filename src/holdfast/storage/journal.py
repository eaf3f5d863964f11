"""Journal of a process on disk, read back at its next start.

Load managers of a federation keep theirs the same way. Each entry is safe when `append` returns.
What a crash cut off at the end was never answered, and is cut off when the journal is opened again.
"""

from __future__ import annotations

import fcntl
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Final, Generic, Self, TypeVar

import msgspec

from holdfast.errors import StoreCorruptError, StoreUnavailableError
from holdfast.storage.atomic_file import make_folder

HEAD: Final = Struct(">II")
"""The length of an entry, and its checksum."""
NAME: Final = "journal"


E = TypeVar("E")


class Journal(Generic[E]):
    """In a folder of its own. One process at a time. A context manager."""

    def __init__(self, folder: Path, entry: type[E]) -> None:
        """`entry`: what it is made of, a type that msgspec knows."""
        self._entry = entry
        path = folder / NAME
        try:
            make_folder(folder)
            self._file = path.open("a+b", buffering=0)
        except OSError as error:
            raise StoreUnavailableError(
                f"{path}: {error.strerror}; give a folder that may be written to"
            ) from error
        self._path = path
        try:
            self._lock()
            self.found = tuple(self._read())
            """What was told before."""
        except BaseException:
            self._file.close()
            raise

    def append(self, entries: Sequence[E]) -> None:
        """Raises StoreUnavailableError if they could not be written; then nothing was."""
        data = b"".join(map(_pack, entries))
        end = None
        try:
            end = os.fstat(self._file.fileno()).st_size
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fdatasync(self._file.fileno())
        except OSError as error:
            # On a disk that fails this may fail too; whoever reads it next finds what is torn.
            with suppress(OSError):
                if end is not None:
                    os.ftruncate(self._file.fileno(), end)
            raise StoreUnavailableError(
                f"{self._path}: {error.strerror}; make room on the disk, or give another folder"
            ) from error

    def rewrite(self, entries: Sequence[E]) -> None:
        """Let these stand for all that was written so far; a crash leaves the one or the other.
        Raises StoreUnavailableError if they could not be written; then all is as it was."""
        fresh = self._path.with_suffix(".new")
        try:
            file = fresh.open("a+b", buffering=0)
            try:
                # It is ours before it has its name.
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.ftruncate(file.fileno(), 0)
                rest = memoryview(b"".join(map(_pack, entries)))
                while rest:
                    rest = rest[file.write(rest) :]
                os.fsync(file.fileno())
                fresh.rename(self._path)
            except BaseException:
                file.close()
                raise
        except OSError as error:
            raise StoreUnavailableError(
                f"{fresh}: {error.strerror}; make room on the disk, or give another folder"
            ) from error
        self._file.close()
        self._file = file
        _sync(self._path.parent)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(self._file.fileno()), self._path.stat()):
                raise BlockingIOError("it was just written anew")
        except OSError:
            raise StoreUnavailableError(
                f"{self._path}: another process has it; stop that one first"
            ) from None

    def _read(self) -> Iterator[E]:
        """The whole entries; what follows the last one is cut off."""
        data = self._path.read_bytes()
        good = 0
        while (text := _entry_at(data, good)) is not None:
            yield msgspec.msgpack.decode(text, type=self._entry)
            good += HEAD.size + len(text)
        # No crash leaves something whole behind what is not. Where that would begin is not known
        # if it is the length that is damaged.
        if any(_entry_at(data, start) for start in range(good + 1, len(data))):
            raise StoreCorruptError(
                f"{self._path}: damaged at byte {good}; restore it from a copy, or submit the "
                "job again"
            )
        os.ftruncate(self._file.fileno(), good)


def _entry_at(data: bytes, start: int) -> bytes | None:
    """None if no whole entry starts there."""
    if start + HEAD.size > len(data):
        return None
    size, check = HEAD.unpack_from(data, start)
    if not 0 < size <= len(data) - start - HEAD.size:
        return None
    text = data[start + HEAD.size : start + HEAD.size + size]
    return text if zlib.crc32(text) == check else None


def _pack(entry: object) -> bytes:
    text = msgspec.msgpack.encode(entry)
    return HEAD.pack(len(text), zlib.crc32(text)) + text


def _sync(folder: Path) -> None:
    """Let the name of a new file be safe too."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
