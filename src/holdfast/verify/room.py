"""Room that a replica takes on disks that others need too."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["MOST_FILES", "clear", "room_taken"]

MOST_FILES: Final = 100_000
"""Of one replica. With more of them to look at them takes too long."""
_BLOCK: Final = 512
"""Bytes that `st_blocks` counts in."""


def room_taken(folders: Sequence[Path]) -> tuple[int, int]:
    """Bytes on the disk, and files; not all of them if these are more than MOST_FILES."""
    size = count = 0
    for folder in folders:
        for entry in _walk(folder):
            with suppress(OSError):
                size += entry.stat(follow_symlinks=False).st_blocks * _BLOCK
                count += 1
            if count > MOST_FILES:
                return size, count
    return size, count


def clear(folder: Path, kept: Container[Path]) -> None:
    """Remove all other files."""
    for entry in _walk(folder):
        if Path(entry.path) not in kept:
            with suppress(OSError):
                os.unlink(entry.path)


def _walk(folder: Path) -> Iterator[os.DirEntry[str]]:
    """What is no folder. What cannot be read is left out."""
    waiting = [str(folder)]
    while waiting:
        try:
            entries = os.scandir(waiting.pop())
        except OSError:
            continue
        with entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    yield entry
