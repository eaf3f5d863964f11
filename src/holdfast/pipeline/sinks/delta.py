"""Delta tables, written without Spark: one commit for each batch, with the position.

Delta keeps the newest version that an application has committed. Here that is the boundary up to
which the table has the stream, so a batch that is in the table is never put there again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import pyarrow as pa

from holdfast.runtime.extras import require
from holdfast.storage.atomic_file import make_folder, sync

UNFLUSHED: Final = 16
"""So many of the newest commits are flushed when the table is opened: whoever made the last of them
may have been killed before that, and others may have written since."""


class DeltaStore:
    """The table in a folder; made with the first rows."""

    def __init__(self, folder: Path, application: str, place: str) -> None:
        """`application`: under which name the position is kept. `place`: in the topology."""
        require("deltalake", f"{place}: delta", "delta")
        self._folder = folder
        self._application = application
        self._flushed: int | None = None
        """All commits up to this version are safe from a power failure."""
        self._position = self._committed()
        self._flush()

    @property
    def position(self) -> int:
        return self._position

    def write(self, rows: pa.Table | None, end: int) -> None:
        from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

        if rows is None:
            if not DeltaTable.is_deltatable(str(self._folder)):
                return
            rows = pa.schema(DeltaTable(self._folder).schema().to_arrow()).empty_table()
        # Whoever else has begun to write by now is refused by Delta itself.
        if self._committed() < end:
            write_deltalake(
                self._folder,
                rows,
                mode="append",
                commit_properties=CommitProperties(
                    app_transactions=[Transaction(self._application, end)]
                ),
            )
        self._flush()
        self._position = end

    def _flush(self) -> None:
        """Let what was committed be safe: Delta waits for no disk, and what is told of the position
        lets those who publish the stream forget it."""
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(str(self._folder)):
            return
        newest = DeltaTable(self._folder).version()
        first = newest - UNFLUSHED if self._flushed is None else self._flushed
        log = self._folder / "_delta_log"
        folders = {self._folder, log}
        for version in range(max(first + 1, 0), newest + 1):
            for path in _files_of(self._folder, log / f"{version:020d}.json"):
                # Others may compact and vacuum the table at any time.
                with suppress(FileNotFoundError):
                    sync(path)
                    folders.add(path.parent)
        with suppress(FileNotFoundError):
            sync(log / "_last_checkpoint")
        for folder in folders:
            sync(folder)
        if self._flushed is None:
            make_folder(self._folder)
        self._flushed = newest

    def close(self) -> None:
        """Nothing is left open."""

    def _committed(self) -> int:
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(str(self._folder)):
            return 0
        return DeltaTable(self._folder).transaction_version(self._application) or 0


def _files_of(folder: Path, commit: Path) -> Iterator[Path]:
    """The files of a commit: those with rows, its checkpoint if it has one, and its own."""
    if not commit.exists():
        # Whoever looks after the table has made a checkpoint of it, and vacuumed.
        return
    for line in commit.read_text().splitlines():
        added = json.loads(line).get("add")
        if added is not None:
            yield folder / unquote(added["path"])
    yield commit
    yield from commit.parent.glob(f"{commit.stem}.checkpoint*")
