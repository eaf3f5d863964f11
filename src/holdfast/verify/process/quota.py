"""Bounds on the disk space of a replica.

A replica that lies may change its folders while they are looked at. So nothing is followed or
removed by its path: each folder is opened within the one that it lies in.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

MOST_FILES: Final = 100_000
"""Files and folders of one replica. With more of them to look at them takes too long."""
MOST_DEPTH: Final = 64
"""Folders within each other. What lies deeper is as too many."""
_BLOCK: Final = 512
"""Bytes that `st_blocks` counts in."""


class _Room:
    def __init__(self) -> None:
        self.size = 0
        self.count = 0

    def add(self, folder: int, depth: int = 0) -> None:
        """All that is in an open folder, as long as it is not too much."""
        for name, found in _entries(folder):
            self.size += found.st_blocks * _BLOCK
            self.count += 1
            if self.count > MOST_FILES:
                return
            if not stat.S_ISDIR(found.st_mode):
                continue
            if depth == MOST_DEPTH:
                self.count = MOST_FILES + 1
                return
            with suppress(OSError):
                inner = _open(name, folder)
                try:
                    self.add(inner, depth + 1)
                finally:
                    os.close(inner)


def room_taken(folders: Sequence[Path]) -> tuple[int, int]:
    """Bytes on the disk, and files and folders; not all if these are more than MOST_FILES."""
    room = _Room()
    for folder in folders:
        with suppress(OSError):
            opened = _open(folder)
            try:
                room.add(opened)
            finally:
                os.close(opened)
    return room.size, room.count


def clear(folder: Path, kept: Container[Path]) -> None:
    """Remove all other files, and folders that have none of these."""
    with suppress(OSError):
        top = _open(folder)
        try:
            for _ in range(MOST_FILES // MOST_DEPTH):
                if not _clear(top, folder, kept, top):
                    break
        finally:
            os.close(top)


def _clear(folder: int, path: Path, kept: Container[Path], top: int, depth: int = 0) -> bool:
    """Whether it is to be done again: what lies too deep is moved to the top."""
    entries = list(islice(_entries(folder), MOST_FILES))
    is_more = len(entries) == MOST_FILES
    for name, found in entries:
        with suppress(OSError):
            if not stat.S_ISDIR(found.st_mode):
                if path / name not in kept:
                    os.unlink(name, dir_fd=folder)
            elif depth == MOST_DEPTH:
                os.rename(name, secrets.token_hex(8), src_dir_fd=folder, dst_dir_fd=top)
                is_more = True
            else:
                inner = _open(name, folder)
                try:
                    is_more |= _clear(inner, path / name, kept, top, depth + 1)
                finally:
                    os.close(inner)
                os.rmdir(name, dir_fd=folder)
    return is_more


def _open(name: str | Path, within: int | None = None) -> int:
    """A folder, and no link to one. Its owner may have taken its rights to it away."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=within)
    except PermissionError:
        there = os.open(name, flags | os.O_PATH, dir_fd=within)
        try:
            os.chmod(f"/proc/self/fd/{there}", stat.S_IRWXU)
        finally:
            os.close(there)
        return os.open(name, flags, dir_fd=within)


def _entries(folder: int) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                yield entry.name, entry.stat(follow_symlinks=False)
