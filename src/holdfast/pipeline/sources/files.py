"""Rows of files: Parquet, CSV with a header line, JSON lines.

Files are read in the order of their names, and the place is the name of the last one with the
number of its rows that were brought. So names must grow: one that comes before those that have been
read is left out. A file that cannot be read is reported, counted and left where it broke.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.sources.inlets import Inlet, as_read, parsed

LOOK = 0.25
"""Seconds between two looks for new files."""
AT_ONCE = 65_536
"""Rows."""
HIDDEN = (".", "_")
UNFINISHED = (".tmp", ".part")
ARROW_ERRORS = (pa.ArrowException, OSError, UnicodeError, ValueError, KeyError)

logger = logging.getLogger(__name__)

Read = Callable[[Path, pa.Schema], Iterator[pa.Table]]


class FilesBringer:
    """Reads a file, or the files of a folder."""

    def __init__(
        self,
        stream: str,
        path: Path,
        format_: str,
        schema: pa.Schema,
        *,
        pace: float | None = None,
        follow: bool = True,
        bounded_time: bool = False,
    ) -> None:
        """`pace`: rows a second. `follow`: watch for new files. `bounded_time`: say that it is the
        end when it is."""
        self._stream = stream
        self._path = path
        self._schema = schema
        self._pace = pace
        self._follow = follow
        self._bounded_time = bounded_time
        self._read = READERS[format_]
        if format_ == "csv" and any(pa.types.is_nested(field.type) for field in schema):
            raise InvalidArgumentError(
                f"streams.{stream}.schema: CSV has no arrays and structs; take 'jsonl' or 'parquet'"
            )

    def bring(self, inlet: Inlet) -> None:
        name, rows = inlet.place or ("", 0)
        self._begun, self._brought = time.monotonic(), 0
        seen = {path.name for path in self._found() if path.name < name}
        while True:
            for path in self._found():
                if path.name in seen:
                    continue
                seen.add(path.name)
                if path.name < name:
                    self._leave_out(path, name, inlet)
                    continue
                self._bring_file(path, rows if path.name == name else 0, inlet)
                name = path.name
            if not self._follow:
                break
            inlet.pause(LOOK)
        if self._bounded_time:
            inlet.finish()

    def _found(self) -> list[Path]:
        """The files that are complete, in order."""
        if self._path.is_dir():
            return sorted(
                (
                    path
                    for path in self._path.iterdir()
                    if not path.name.startswith(HIDDEN)
                    and not path.name.endswith(UNFINISHED)
                    and path.is_file()
                ),
                key=lambda path: path.name,
            )
        if self._path.is_file():
            return [self._path]
        if self._follow:
            return []
        raise InvalidArgumentError(
            f"streams.{self._stream}.path: there is no {self._path}; name a file or a folder, "
            "or wait for it with follow = true"
        )

    def _leave_out(self, path: Path, name: str, inlet: Inlet) -> None:
        logger.warning(
            "%s: %s comes before %s, which has been read; left out, give it a later name",
            self._stream,
            path,
            name,
        )
        inlet.counts["late_files"] += 1

    def _bring_file(self, path: Path, done: int, inlet: Inlet) -> None:
        skip = done
        try:
            for table in self._read(path, self._schema):
                if skip >= len(table):
                    skip -= len(table)
                    continue
                for piece in self._pieces(table.slice(skip)):
                    self._keep_pace(inlet)
                    inlet.take(piece, [path.name, done + len(piece)])
                    done += len(piece)
                    self._brought += len(piece)
                skip = 0
        except ARROW_ERRORS as error:
            if isinstance(error, InvalidArgumentError):
                raise
            logger.warning(
                "%s: %s cannot be read after %d rows: %s; left there, mend it and give it a new "
                "name",
                self._stream,
                path,
                done,
                error,
            )
            inlet.counts["malformed_files"] += 1
        else:
            inlet.counts["files"] += 1

    def _pieces(self, table: pa.Table) -> Iterator[pa.Table]:
        size = AT_ONCE if self._pace is None else min(max(int(self._pace / 10), 1), AT_ONCE)
        for start in range(0, len(table), size):
            yield table.slice(start, size)

    def _keep_pace(self, inlet: Inlet) -> None:
        if self._pace is None:
            inlet.pause(0)
        else:
            inlet.pause(self._begun + self._brought / self._pace - time.monotonic())


def _read_parquet(path: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    with pa.parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(AT_ONCE, columns=schema.names):
            yield pa.table(batch).select(schema.names).cast(schema)


def _read_csv(path: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    read = as_read(schema)
    options = pa.csv.ConvertOptions(
        column_types=read,
        include_columns=schema.names,
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    with pa.csv.open_csv(path, convert_options=options) as batches:
        for batch in batches:
            yield parsed(pa.table(batch), schema)


def _read_jsonl(path: Path, schema: pa.Schema) -> Iterator[pa.Table]:
    options = pa.json.ParseOptions(
        explicit_schema=as_read(schema), unexpected_field_behavior="ignore"
    )
    if not path.stat().st_size:
        return
    with pa.json.open_json(path, parse_options=options) as batches:
        for batch in batches:
            yield parsed(pa.table(batch), schema)


READERS: dict[str, Read] = {"parquet": _read_parquet, "csv": _read_csv, "jsonl": _read_jsonl}
