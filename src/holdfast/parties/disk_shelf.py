"""Rows that wait at the gate of a replica for an input that is away, in files.

Nothing here outlives the process: what was not processed is still kept upstream. So nothing is
flushed to the disk, and a folder of an earlier life is emptied.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree
from struct import Struct
from typing import Final

from holdfast.errors import StoreUnavailableError
from holdfast.tuples import Row
from holdfast.wire.chunks import Chunk

__all__ = ["DiskShelf"]

HEAD: Final = Struct(">II")
"""A checksum of all that follows, and the length of the header."""


class DiskShelf:
    """One file for each page, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._next = 0
        self.clear()

    def clear(self) -> None:
        """Forget all pages."""
        rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True, exist_ok=True)

    def put(self, rows: Sequence[Row]) -> int:
        chunks: list[Chunk] = [row.value for row in rows]
        header = json.dumps(
            [
                [row.stime, chunk.rows, chunk.size, chunk.digest.hex()]
                for row, chunk in zip(rows, chunks, strict=True)
            ]
        ).encode()
        body = b"".join([HEAD.pack(0, len(header))[4:], header, *(c.read() for c in chunks)])
        self._next += 1
        path = self._path(self._next)
        try:
            path.write_bytes(zlib.crc32(body).to_bytes(4, "big") + body)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise StoreUnavailableError(
                f"{path}: {error.strerror}; make room on the disk, or give another folder"
            ) from error
        return self._next

    def get(self, page: int) -> Sequence[Row]:
        path = self._path(page)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise StoreUnavailableError(
                f"{path}: {error.strerror}; start the replica again: it reads its inputs anew"
            ) from error
        if len(data) < HEAD.size or HEAD.unpack_from(data)[0] != zlib.crc32(data[4:]):
            raise StoreUnavailableError(
                f"{path}: is damaged; see to the disk and start the replica again: it reads its "
                "inputs anew"
            )
        start = HEAD.size + HEAD.unpack_from(data)[1]
        rows = []
        for stime, count, size, digest in json.loads(data[HEAD.size : start]):
            chunk = Chunk.kept(data[start : start + size], count, bytes.fromhex(digest))
            rows.append(Row(stime, None, chunk))
            start += size
        return rows

    def drop(self, page: int) -> None:
        self._path(page).unlink(missing_ok=True)

    def _path(self, page: int) -> Path:
        return self._folder / f"{page:09d}.page"
