"""Parquet files, each named by the event time of its rows.

Where the sink goes on is where the newest file ends, so rows and position cannot come apart. While
the stream is silent, the position is noted in a small file beside them. Files may be moved away,
but for the newest.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from holdfast.errors import StoreCorruptError
from holdfast.pipeline.machine.tuples import STIME
from holdfast.storage.atomic_file import make_folder, publish, write_whole

NOTE = "_position"
"""Readers of Parquet leave out names that begin so."""
FORM = "%Y-%m-%dT%H-%M-%S.%fZ"
ORIGIN = datetime(1970, 1, 1, tzinfo=UTC)


class ParquetStore:
    """The files of a folder. One process at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        make_folder(folder)
        for unfinished in folder.glob(".*.tmp"):
            unfinished.unlink()
        self._position = max(self._ends(), default=0)

    @property
    def position(self) -> int:
        return self._position

    def write(self, rows: pa.Table | None, end: int) -> None:
        if rows is None:
            write_whole(self._folder / NOTE, str(end).encode())
        else:
            start = rows[STIME][0].cast(pa.int64()).as_py()
            name = f"{_text(start)}_{_text(end)}.parquet"
            unfinished = self._folder / f".{name}.tmp"
            pa.parquet.write_table(rows, unfinished)
            publish(unfinished, self._folder / name)
        self._position = end

    def close(self) -> None:
        """Nothing is left open."""

    def _ends(self) -> list[int]:
        ends = []
        for path in self._folder.glob("*_*.parquet"):
            try:
                ends.append(_time(path.stem.rpartition("_")[2]))
            except ValueError:
                # It is not ours.
                continue
        note = self._folder / NOTE
        if note.exists():
            try:
                ends.append(int(note.read_text()))
            except ValueError:
                raise StoreCorruptError(
                    f"{note}: has no position; delete it, and what follows the newest file is "
                    "read again"
                ) from None
        return ends


def _text(time: int) -> str:
    return (ORIGIN + timedelta(microseconds=time)).strftime(FORM)


def _time(text: str) -> int:
    return (datetime.strptime(text, FORM).replace(tzinfo=UTC) - ORIGIN) // timedelta(microseconds=1)
