"""Files that a power failure would leave as they are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Flushes"]


class Flushes:
    """Notes what is flushed from now on. A file is safe if all of it was flushed, and its name with
    the folder."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._sizes: dict[int, int] = {}
        self._named: set[tuple[int, int, str]] = set()
        """Folder, file and name."""
        for name in ("fsync", "fdatasync"):
            patch.setattr(os, name, self._noting(getattr(os, name)))

    def _noting(self, flush: Any) -> Any:
        def note(file: Any) -> None:
            flush(file)
            about = os.fstat(file if isinstance(file, int) else file.fileno())
            self._sizes[about.st_ino] = about.st_size
            folder = Path(os.readlink(f"/proc/self/fd/{file}"))
            if folder.is_dir():
                self._named |= {
                    (about.st_ino, path.stat().st_ino, path.name) for path in folder.iterdir()
                }

        return note

    def is_whole(self, path: Path) -> bool:
        """Whether all that is in it was flushed, whatever its name."""
        about = path.stat()
        return self._sizes.get(about.st_ino) == about.st_size

    def is_safe(self, path: Path) -> bool:
        place = (path.parent.stat().st_ino, path.stat().st_ino, path.name)
        return place in self._named and self.is_whole(path)

    def are_safe(self, folder: Path, pattern: str) -> bool:
        """Whether all files of this pattern that have something in them are safe, at least one."""
        paths = [path for path in folder.rglob(pattern) if path.stat().st_size]
        return bool(paths) and all(map(self.is_safe, paths))
