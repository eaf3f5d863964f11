"""What is in the stores of sinks, read by others than Holdfast."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet
from deltalake import DeltaTable

from holdfast.pipeline.topology import Delta, Parquet, SqlTable

__all__ = ["OUTPUTS", "values_in"]

OUTPUTS: dict[str, Any] = {
    "parquet": Parquet(path="out"),
    "delta": Delta(path="out"),
    "sql": SqlTable(url="sqlite:///out.db", table="rows"),
    "sql with keys": SqlTable(url="sqlite:///out.db", table="rows", keys=["n"]),
}


def _in_parquet(folder: Path) -> list[int]:
    if not any((folder / "out").glob("*.parquet")):
        return []
    return pa_numbers(pyarrow.parquet.read_table(folder / "out"))


def _in_delta(folder: Path) -> list[int]:
    if not DeltaTable.is_deltatable(str(folder / "out")):
        return []
    return pa_numbers(DeltaTable(folder / "out").to_pyarrow_table())


def _in_sql(folder: Path) -> list[int]:
    if not (folder / "out.db").exists():
        return []
    with closing(sqlite3.connect(folder / "out.db")) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'rows'").fetchall():
            return []
        return [n for (n,) in database.execute("SELECT n FROM rows")]


def pa_numbers(table: Any) -> list[int]:
    return list(table["n"].to_pylist())


READERS: dict[str, Callable[[Path], list[int]]] = {
    "parquet": _in_parquet,
    "delta": _in_delta,
    "sql": _in_sql,
    "sql with keys": _in_sql,
}


def values_in(kind: str, folder: Path) -> list[int]:
    """The column `n` of all rows in the store, in order of value."""
    return sorted(READERS[kind](folder))
