"""Files that a job reads; every replica reads them itself.

Which files there are, and what is in them, is looked up once, when the job is submitted: see
`pinned_files`. So no replica reads a file more, or other bytes, than the others.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from holdfast.errors import InvalidArgumentError
from holdfast.runtime.extras import require

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


LOG: Final = "_delta_log"
"""The folder that makes a Delta table of the one that it is in."""
VERSION: Final = "versionAsOf"
_PLAIN: Final = {"timestampNtz"}
"""What readers may have to know of, and Parquet has by itself."""


def live_files(place: str, table: Path, options: Mapping[str, str]) -> list[Path]:
    """Those of the version that the options name, or of the latest. `place`: what errors say."""
    require("deltalake", f"{place}: {table} is a Delta table", "delta")
    from deltalake import DeltaTable

    version = options.get(VERSION)
    found = DeltaTable(table, version=None if version is None else int(version))
    protocol = found.protocol()
    features = set(protocol.reader_features or ())
    if protocol.min_reader_version == 2 or features - _PLAIN:
        named = ", ".join(sorted(features - _PLAIN)) or "columnMapping"
        raise InvalidArgumentError(
            f"{place}: the Delta table {table} has {named}, so that its files do not hold its rows "
            "as they are; write it to Parquet, and name that"
        )
    columns = found.metadata().partition_columns
    return [_checked(place, table, Path(uri), columns) for uri in found.file_uris()]


def _checked(place: str, table: Path, path: Path, columns: list[str]) -> Path:
    path = path if path.exists() else Path(unquote(str(path)))
    names = [part.partition("=")[0] for part in path.relative_to(table).parts[:-1]]
    if [each for each in names if each in columns] != columns:
        raise InvalidArgumentError(
            f"{place}: {path} does not say in its path what it has in {', '.join(columns)}; write "
            f"the Delta table {table} to Parquet, and name that"
        )
    return path


_FORMATS: Final = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".orc": "orc",
    ".txt": "text",
}
DELTA: Final = "a Delta"
_HIDDEN: Final = (".", "_")


@dataclass(frozen=True)
class Source:
    name: str
    path: str
    """A file, a pattern or a folder; relative to that of the job."""
    format: str | None
    """None: what the files' names end in."""
    schema: str | None
    options: tuple[tuple[str, str], ...]

    def find(self, folder: Path) -> tuple[str, ...]:
        """The files that there are now, in order of their names."""
        found = [path for place in _places(folder, self.path) for path in self._files_in(place)]
        if not found:
            raise InvalidArgumentError(
                f"source {self.name}: there is no file {folder / self.path}; "
                "paths are relative to the folder of the job's file"
            )
        return tuple(str(path) for path in sorted(set(found)))

    def _files_in(self, place: Path) -> list[Path]:
        says = f"source {self.name}"
        if (place / LOG).is_dir():
            if self.schema is None:
                raise InvalidArgumentError(
                    f"{says}: {place} is a Delta table, of which files may lack columns; give its "
                    "schema"
                )
            return live_files(says, place.absolute(), dict(self.options))
        files = _files_in(place)
        for parent in sorted({parent for file in files for parent in file.absolute().parents}):
            kind = _table_in(parent)
            if kind:
                raise InvalidArgumentError(
                    f"{says}: {parent} is {kind} table, whose folder has files of older versions "
                    "too; " + ("name that folder" if kind == DELTA else "write it to Parquet")
                )
        return files

    def open(self, spark: SparkSession, paths: Sequence[str]) -> DataFrame:
        """The rows of these files."""
        format_ = "parquet" if self.format == "delta" else self.format
        format_ = format_ or self._format_of(paths)
        reader = spark.read.format(format_)
        if self.schema is not None:
            reader = reader.schema(self.schema)
        # Columns that are names of folders, as in `day=3/part.parquet`.
        common = os.path.commonpath([os.path.dirname(path) for path in paths])
        base = common.partition("=")[0].rpartition("/")[0] if "=" in common else common
        given = {"basePath": base} | dict(self.options)
        return reader.options(**given).load(list(paths))

    def _format_of(self, paths: Sequence[str]) -> str:
        formats = {_FORMATS.get(Path(path).suffix, "") for path in paths}
        if len(formats) > 1 or "" in formats:
            raise InvalidArgumentError(
                f"source {self.name}: the names of its files do not tell what they are; give its "
                f"format, or files that end in {', '.join(_FORMATS)}"
            )
        return formats.pop()


def make_source(
    name: str, path: str, format: str | None, schema: str | None, options: Mapping[str, str]
) -> Source:
    if "://" in path:
        raise InvalidArgumentError(
            f"source {name}: {path} is no path of a file system, and only of files there it can be "
            "seen that they stay as they are; mount it on all hosts, or copy the files"
        )
    for option in options:
        if option.lower() in ("path", "basepath", "pathglobfilter", "recursivefilelookup"):
            raise InvalidArgumentError(
                f"source {name}: option {option} chooses files; let the path do so"
            )
    return Source(name, path, format, schema, tuple(sorted(options.items())))


def _table_in(folder: Path) -> str:
    if (folder / LOG).is_dir():
        return DELTA
    if (folder / ".hoodie").is_dir():
        return "a Hudi"
    if any(folder.glob("metadata/*.metadata.json")):
        return "an Iceberg"
    return ""


def _places(folder: Path, path: str) -> list[Path]:
    place = Path(folder / path)
    if not any(sign in path for sign in "*?["):
        return [place] if place.exists() else []
    fixed = Path(place.anchor)
    parts = list(place.parts[1:] if place.anchor else place.parts)
    while parts and not any(sign in parts[0] for sign in "*?["):
        fixed /= parts.pop(0)
    found = fixed.glob("/".join(parts))
    return [each for each in found if not any(map(_is_hidden, each.relative_to(fixed).parts))]


def _files_in(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    return [
        path
        for path in place.rglob("*")
        if path.is_file() and not any(map(_is_hidden, path.relative_to(place).parts))
    ]


def _is_hidden(name: str) -> bool:
    """As Spark has it; names like `_day=3` are columns."""
    return name.startswith(_HIDDEN) and "=" not in name
