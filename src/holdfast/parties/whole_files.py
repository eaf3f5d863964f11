"""Files that are there whole or not at all, and are still there after a power failure."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["publish", "sync", "write_whole"]


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
