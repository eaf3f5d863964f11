"""Boundaries in plain PySpark code: `verified(df, name)` and `verified_write`.

In a replica the DataFrame is computed, reported and read back: what the code goes on with is what
the replicas agree on, or what this one has made itself, as the mode allows. Where no replica runs
the code, it runs as it would without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

import msgspec

from holdfast.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


APPEND: Final = "append"
DELTA: Final = "delta"
IGNORE: Final = "ignore"
OVERWRITE: Final = "overwrite"
_ERROR: Final = ("errorifexists", "error", "default")


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of `verified_write`."""

    format: str
    mode: str
    path: str | None
    table: str | None
    partition_by: tuple[str, ...]
    options: dict[str, str]

    def __post_init__(self) -> None:
        if self.path is not None and self.table is not None:
            raise InvalidArgumentError(
                f"verified_write: path {self.path!r} and table {self.table!r} are two places; give "
                "one of them"
            )
        if self.mode not in (APPEND, IGNORE, OVERWRITE, *_ERROR):
            raise InvalidArgumentError(
                f"verified_write: mode {self.mode!r} is none; take append, overwrite, ignore or "
                f"{_ERROR[0]}"
            )
        dynamic = [each for each in self.options if each.lower() == "partitionoverwritemode"]
        if dynamic:
            raise InvalidArgumentError(
                f"verified_write: option {dynamic[0]} would replace a part of what is there; write "
                "the partitions one by one, each under its own path"
            )

    @property
    def folder(self) -> Path | None:
        """None if it is not of this machine's file systems."""
        if self.path is None:
            return None
        found = urlsplit(self.path)
        return (
            Path(found.path if found.scheme else self.path)
            if found.scheme
            in (
                "",
                "file",
            )
            else None
        )

    def encode(self) -> str:
        return msgspec.json.encode(self, order="deterministic").decode()

    @classmethod
    def decode(cls, text: str) -> Target:
        return msgspec.json.decode(text, type=cls)

    def __str__(self) -> str:
        return self.path or self.table or f"{self.format} {self.options}"


def target_of(name: str) -> str:
    """The stage that has the target of a write; its one row is the target."""
    return f"{name}.target"


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
        from holdfast.verify.process.writing import write

        write(df, target)
