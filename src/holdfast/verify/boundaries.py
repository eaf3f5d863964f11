"""Boundaries in plain PySpark code: `verified(df, "name")` makes a stage of what comes before it.

In a replica the DataFrame is computed, reported and read back: what the code goes on with is what
the replicas agree on, or what this one has made itself, as the mode allows. Where no replica runs
the code, it runs as it would without.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Marker", "marking", "verified"]


class Marker(Protocol):
    """A replica that runs a program."""

    def mark(self, df: DataFrame, name: str) -> DataFrame:
        """What the program is to go on with."""


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
