"""Files that are there whole or not at all, and survive a power failure."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def make_folder(folder: Path) -> None:
    """Make a folder, if it is not there. The names in it are safe then, and those of the folders
    that it is in: whoever made them may have been killed before that."""
    folder.mkdir(parents=True, exist_ok=True)
    device = folder.stat().st_dev
    place = folder.resolve()
    for each in (place, *place.parents):
        if each.stat().st_dev != device:
            break
        # Who may not list it has not made anything in it.
        with suppress(PermissionError):
            sync(each)


def publish(unfinished: Path, path: Path) -> None:
    """Give a file that is complete its name."""
    sync(unfinished)
    unfinished.rename(path)
    sync(path.parent)


def write_whole(path: Path, data: bytes) -> None:
    """Write a small file, in place of the one of this name."""
    unfinished = path.with_name(f".{path.name}.tmp")
    unfinished.write_bytes(data)
    publish(unfinished, path)


def sync(path: Path) -> None:
    """Let what is in a file, or the names in a folder, be safe."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
