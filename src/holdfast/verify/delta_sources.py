"""The files that a Delta table has in one version, to be read as Parquet."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from holdfast.errors import InvalidArgumentError
from holdfast.sources.extras import require

__all__ = ["LOG", "VERSION", "live_files"]

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
