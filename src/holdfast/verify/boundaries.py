"""Boundaries in plain PySpark code: `verified(df, "name")` makes a stage of what comes before it.

In a replica the DataFrame is computed, reported and read back: what the code goes on with is what
the replicas agree on, or what this one has made itself, as the mode allows. Where no replica runs
the code, it runs as it would without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from holdfast.verify.targets import Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Marker", "marking", "verified", "verified_write"]


class Marker(Protocol):
    """A replica that runs a program."""

    def mark(self, df: DataFrame, name: str) -> DataFrame:
        """What the program is to go on with."""

    def write(self, df: DataFrame, name: str, target: Target) -> None:
        """Have it written when it is agreed upon."""


_markers: list[Marker] = []
"""The replica that this process is, if it is one. All threads of the program must find it."""


@contextmanager
def marking(marker: Marker) -> Iterator[None]:
    """Let boundaries be marked by this replica."""
    _markers.append(marker)
    try:
        yield
    finally:
        _markers.remove(marker)


def verified(df: DataFrame, name: str) -> DataFrame:
    """Mark a boundary. Go on with what it returns, and leave `df` behind.

    Names are written out and used once; `holdfast verify` finds them in the file.
    """
    return _markers[-1].mark(df, name) if _markers else df


def verified_write(
    df: DataFrame,
    name: str,
    *,
    path: str | None = None,
    table: str | None = None,
    format: str = "parquet",
    mode: str = "errorifexists",
    partition_by: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
) -> None:
    """Write a DataFrame, as `df.write` does: under a path, as a table, or where the options say.

    Under `holdfast verify` it is written once, by the coordinator, when replicas agree on its rows
    and on all that is given here; the call marks a boundary like `verified`, with a name of its
    own. Options lie in the storage, so leave out passwords. Run by itself, it is written at once.

    A Delta table under a path is written with the package deltalake.
    """
    target = Target(format, mode, path, table, tuple(partition_by), dict(options or {}))
    if _markers:
        _markers[-1].write(df, name, target)
    else:
        from holdfast.verify.writing import write

        write(df, target)
