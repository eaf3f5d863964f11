"""Copies of a replica's state on disk, and rows that wait there for an absent input.

Nothing here outlives the process: what was not processed is still kept upstream. So nothing is
flushed to the disk, and a folder of an earlier life is emptied.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import zlib
from collections.abc import Collection, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from struct import Struct
from typing import Final

from holdfast.errors import InvalidValueError, StoreUnavailableError
from holdfast.pipeline.machine.messages import StateOffer, StatePiece
from holdfast.pipeline.machine.tuples import Row
from holdfast.pipeline.stages.states import PIECE, StateFiles
from holdfast.storage.atomic_file import sync
from holdfast.storage.chunks import Chunk

# Copies of a replica's state on its disk: those it makes for peers, and the one it takes.
#
# A copy is a folder with files (`StateFiles`). One that was made is whole once `contents.json` says
# what it is; it outlives a restart, so a peer goes on taking it. Of one that is taken the pieces
# are written where they belong as they come; each is checked before it counts.

CONTENTS: Final = "contents.json"

logger = logging.getLogger(__name__)


class Copies:
    """Copies that peers are given."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[int, StateFiles] = {}

    def folder(self, copy: int) -> Path:
        return self._folder / str(copy)

    def made(self, copy: int) -> int:
        """Bytes of a copy that are there."""
        size = 0
        with suppress(OSError):
            for entry in os.scandir(self.folder(copy)):
                size += entry.stat().st_size
        return size

    def finish(self, copy: int, contents: bytes, bucket: int, consistent_from: int) -> StateOffer:
        """All files of it are there."""
        self._files[copy] = files = StateFiles.read(contents)
        folder = self.folder(copy)
        folder.mkdir(parents=True, exist_ok=True)
        said = [bucket, consistent_from, contents.decode()]
        (folder / CONTENTS).write_text(json.dumps(said))
        return StateOffer(copy, files.pieces, files.size, bucket, consistent_from, contents)

    def resume(self) -> StateOffer | None:
        """The newest copy that an earlier life has made, if any; others are deleted."""
        offer: StateOffer | None = None
        found = [path for path in self._folder.glob("*") if path.name.isdecimal()]
        for path in sorted(found, key=lambda path: int(path.name), reverse=True):
            if offer is None:
                with suppress(OSError, ValueError, TypeError, InvalidValueError):
                    bucket, since, contents = json.loads((path / CONTENTS).read_text())
                    offer = self.finish(int(path.name), contents.encode(), bucket, since)
            if offer is None or str(offer.copy) != path.name:
                shutil.rmtree(path, ignore_errors=True)
        return offer

    def piece(self, copy: int, number: int) -> StatePiece | None:
        """None if it cannot be read: who asks begins anew then."""
        if copy not in self._files:
            return None
        file, at = self._files[copy].place(number)
        try:
            with (self.folder(copy) / file.name).open("rb") as opened:
                opened.seek(at * PIECE)
                data = opened.read(PIECE)
        except OSError as error:
            logger.error("%s: %s; a peer cannot take the state", self.folder(copy), error.strerror)
            return None
        if sha256(data).hexdigest() != file.digests[at]:
            logger.error("%s: piece %d of a copied state is damaged", self.folder(copy), number)
            return None
        return StatePiece(copy, number, data)

    def drop(self, copy: int) -> None:
        self._files.pop(copy, None)
        shutil.rmtree(self.folder(copy), ignore_errors=True)


class Taking:
    """The copy that this replica takes from a peer."""

    def __init__(self, folder: Path, shards: Collection[int]) -> None:
        """`shards`: of the stage; every step has a file for each of them."""
        self._folder = folder
        self._shards = set(shards)
        self._offer: StateOffer | None = None
        self._files = StateFiles(())
        self.taken = 0
        """Bytes that have come."""

    def folder(self, copy: int) -> Path:
        return self._folder / str(copy)

    @property
    def size(self) -> int:
        """Bytes of the whole copy."""
        return self._files.size

    def check(self, offer: StateOffer) -> None:
        """Raises an error for an offer that cannot be taken."""
        if offer.pieces < 0 or offer == self._offer:
            return
        files = StateFiles.read(offer.contents or b"")
        if (files.pieces, files.size) != (offer.pieces, offer.size):
            raise InvalidValueError("a copied state has other pieces than are offered")
        steps: dict[str, set[int]] = {}
        for file in files.files:
            step, _, shard = file.name.partition("-")
            steps.setdefault(step, set()).add(int(shard))
        if any(shards != self._shards for shards in steps.values()):
            raise InvalidValueError("a copied state has other shards than the stage")
        self._folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self._folder).free
        if files.size > free:
            raise StoreUnavailableError(
                f"{self._folder}: the state of a peer has {files.size} bytes and the disk room for "
                f"{free}; make room"
            )

    def begin(self, offer: StateOffer) -> None:
        """Take this one, which has been checked; what there is of one that is not whole goes."""
        if self._offer is not None:
            shutil.rmtree(self.folder(self._offer.copy), ignore_errors=True)
        self.taken = 0
        self._offer, self._files = offer, StateFiles.read(offer.contents or b"")
        self.folder(offer.copy).mkdir(parents=True, exist_ok=True)
        for file in self._files.files:
            # Those without a piece too.
            (self.folder(offer.copy) / file.name).touch()

    def is_right(self, piece: StatePiece) -> bool:
        """Whether a piece of this copy is as it was made; one of another is nobody's business."""
        if self._offer is None or piece.copy != self._offer.copy:
            return True
        if piece.number >= self._offer.pieces:
            return False
        file, at = self._files.place(piece.number)
        return sha256(piece.data).hexdigest() == file.digests[at]

    def take(self, piece: StatePiece) -> None:
        """Write a piece that is right."""
        file, at = self._files.place(piece.number)
        path = self.folder(piece.copy) / file.name
        try:
            with path.open("r+b") as opened:
                opened.seek(at * PIECE)
                opened.write(piece.data)
        except OSError as error:
            raise StoreUnavailableError(
                f"{path}: {error.strerror}; make room on the disk, or give another folder"
            ) from error
        self.taken += len(piece.data)

    def installed(self, copy: int) -> Path:
        """It is whole, and safe from a power failure: where its files lie, until they are swept
        away."""
        self._offer = None
        folder = self.folder(copy)
        for path in (*folder.iterdir(), folder, self._folder):
            sync(path)
        return folder

    def sweep(self) -> None:
        """Delete all but what is being taken."""
        keep = None if self._offer is None else str(self._offer.copy)
        for path in self._folder.glob("*"):
            if path.name != keep:
                shutil.rmtree(path, ignore_errors=True)


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
