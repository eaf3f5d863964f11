"""A store on disk for windows: LMDB, one transaction for each batch, synced before it returns.

Pass a `DiskStore` to `holdfast.windows.open_window`. One process at a time has it open, with as
many windows and threads as it likes.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from threading import Condition, Lock
from typing import Any

import lmdb

from holdfast.errors import StoreCorruptError, StoreError, StoreUnavailableError
from holdfast.windows.stores.store import Key, KeyRange

__all__ = ["DiskStore"]

FIRST_MAP_SIZE = 64 << 20
"""LMDB maps the file into memory and wants to know how much of it; doubled whenever it is full."""

LONGEST_NAME = 254
"""In bytes; LMDB takes keys of up to 511. A longer name is replaced by its hash."""

_DAMAGE = (
    lmdb.CorruptedError,
    lmdb.InvalidError,
    lmdb.PageNotFoundError,
    lmdb.VersionMismatchError,
)


class DiskStore:
    """Keeps its records in a folder, which is made if it is not there. A context manager."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._writing = Lock()
        self._gate = Condition()
        self._readers = 0
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(self._path)
        except OSError as error:
            raise StoreError(
                f"{self._path}: {error.strerror}; give DiskStore a folder that it may write to"
            ) from error
        try:
            with self._errors_named():
                self._environment = lmdb.open(os.fspath(self._path), map_size=FIRST_MAP_SIZE)
        except StoreError:
            os.close(self._lock)
            raise

    def __enter__(self) -> DiskStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def count(self) -> int:
        """How many records there are."""
        with self._reading() as transaction:
            return int(transaction.stat()["entries"])

    def close(self) -> None:
        """Waits for reads and writes under way; closing again does nothing."""
        with self._writing, self._gate:
            self._gate.wait_for(lambda: not self._readers)
            if self._lock >= 0:
                self._environment.close()
                os.close(self._lock)
                self._lock = -1

    def read(self, keys: Sequence[Key]) -> list[bytes | None]:
        with self._reading() as transaction:
            return [transaction.get(_encode(key)) for key in keys]

    def write(self, puts: Mapping[Key, bytes], deletes: Sequence[KeyRange]) -> int:
        with self._writing, self._errors_named():
            while True:
                self._check_open()
                try:
                    with self._environment.begin(write=True) as transaction:
                        deleted = sum(_delete(transaction, keys) for keys in deletes)
                        for key, value in puts.items():
                            transaction.put(_encode(key), value)
                    return deleted
                except lmdb.MapFullError:
                    self._grow()

    def epochs(self, window: str) -> list[int]:
        found = []
        with self._reading() as transaction, transaction.cursor() as cursor:
            prefix = _encode_name(window)
            key = _encode(Key(window, 0, 0, 0))
            while cursor.set_range(key) and cursor.key().startswith(prefix):
                epoch = _decode_epoch(cursor.key(), prefix)
                found.append(epoch)
                key = _encode(Key(window, epoch + 1, 0, 0))
        return found

    def _grow(self) -> None:
        # Transactions must not see the map replaced.
        with self._gate:
            self._gate.wait_for(lambda: not self._readers)
            self._environment.set_mapsize(2 * self._environment.info()["map_size"])

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        with self._gate:
            self._check_open()
            self._readers += 1
        try:
            with self._errors_named(), self._environment.begin() as transaction:
                yield transaction
        finally:
            with self._gate:
                self._readers -= 1
                self._gate.notify_all()

    def _check_open(self) -> None:
        if self._lock < 0:
            raise StoreError(f"{self._path}: the store is closed; open a new DiskStore")

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        try:
            yield
        except _DAMAGE as error:
            raise StoreCorruptError(
                f"{self._path}: {error}; restore the folder from a copy or start with a new one"
            ) from error
        except lmdb.PanicError as error:
            raise StoreError(f"{self._path}: {error}; close the store and open it again") from error
        except (lmdb.Error, OSError) as error:
            raise StoreUnavailableError(
                f"{self._path}: {error}; see whether the disk is full or gone"
            ) from error


def _lock(folder: Path) -> int:
    """A lock on the folder that ends with the process, whatever ends it."""
    lock = os.open(folder / "holdfast.lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise StoreError(
            f"{folder}: the store is open already, here or in another process; "
            "close that one, share it, or use another folder"
        ) from None
    return lock


def _encode_name(window: str) -> bytes:
    """No name's bytes begin with another's, so that the records of a window lie together."""
    name = window.encode("utf-8", "surrogatepass")
    if len(name) > LONGEST_NAME:
        return b"\xff" + blake2b(name, digest_size=32).digest()
    return bytes([len(name)]) + name


def _encode(key: Key) -> bytes:
    """Bytes in the order of keys: big-endian, the root's epoch -1 before all others."""
    return (
        _encode_name(key.window)
        + (key.epoch + 1).to_bytes(8, "big")
        + key.level.to_bytes(1, "big")
        + key.position.to_bytes(8, "big")
    )


def _decode_epoch(key: bytes, prefix: bytes) -> int:
    return int.from_bytes(key[len(prefix) : len(prefix) + 8], "big") - 1


def _delete(transaction: Any, keys: KeyRange) -> int:
    deleted = 0
    stop = _encode(keys.stop)
    with transaction.cursor() as cursor:
        found = cursor.set_range(_encode(keys.first))
        while found and cursor.key() < stop:
            cursor.delete()
            deleted += 1
            found = bool(cursor.key())
    return deleted
