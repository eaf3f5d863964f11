"""Sinks of a topology."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from holdfast.config.durations import Span
from holdfast.config.fields import FLAG, HOST, NAME, TEXT, Interval, inline
from holdfast.config.settings import Setting, optional, setting, table
from holdfast.pipeline.topology import policies as gates
from holdfast.pipeline.topology.fields import COLUMNS, FUNCTION, URL


@table
class Parquet:
    """Parquet files, final rows only."""

    path: Setting[str, str] = setting(
        TEXT, "The folder for them, relative to the topology.", example='"archive"'
    )


@table
class Delta:
    """A Delta table, final rows only, each once."""

    path: Setting[str, str] = setting(
        TEXT, "The folder of the table, relative to the topology.", example='"archive"'
    )


@table
class SqlTable:
    """A table of a database, final rows only, each once."""

    url: Setting[str, str] = setting(URL, "The database.", example='"sqlite:///fleet.db"')
    table: Setting[str, str] = setting(TEXT, "The table in it.", example='"minutes"')
    keys: Setting[Iterable[str], tuple[str, ...]] = setting(
        COLUMNS,
        "Columns that name a row: a later row with the same values replaces it.",
        example='["sensor"]',
        default=(),
    )


@table
class Console:
    """Rows printed, coloured by their kind."""


@table
class Callback:
    """Rows given to a Python function."""

    function: Setting[str, str] = setting(
        FUNCTION, "What is called with them.", example='"mymodule:handle"'
    )


Output = Parquet | Delta | SqlTable | Console | Callback

SINKS: Final[Mapping[str, type[Output]]] = {
    "parquet": Parquet,
    "delta": Delta,
    "sql": SqlTable,
    "console": Console,
    "callback": Callback,
}


@table
class Sink:
    """Takes the rows of one stream to the outside."""

    stream: Setting[str, str] = setting(
        NAME, "The stream or stage whose rows it takes.", example='"clean"'
    )
    sink: Setting[Output, Output] = setting(
        inline("sink", SINKS), "Where it takes them.", example='"parquet"'
    )
    policy: Setting[str, str] = gates.policy(
        "How it reads the replicas of its stage.",
        *(word for word in gates.POLICIES if word not in ("order", gates.SHARE, gates.MERGE)),
    )
    faults: Setting[int, int] = gates.faults()
    every: Setting[int, int] = gates.every()
    barrier: Setting[Interval, Span] = gates.barrier()
    proofs: Setting[int, int] = gates.proofs()
    room: Setting[int, int] = gates.room()
    rest: Setting[str, str] = gates.rest()
    tentative: Setting[bool, bool] = setting(
        FLAG,
        "With `console` and `callback`: whether tentative rows are wanted too.",
        example="true",
        default=False,
    )
    host: Setting[str | None, str | None] = optional(
        HOST,
        "On which machine it runs, for `holdfast run --only`.",
        example='"edge-1"',
        default="that of the first replica of its stream",
    )
