"""Inlet of a stream as sources see it, and conversion of what they bring into columns.

Arrow's readers are strict about times: some want a zone, some refuse one. Here a time without a
zone is in UTC, and a date alone is its midnight.
"""

from __future__ import annotations

import re
from collections import Counter
from threading import Event
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.pipeline.process.source import FullError, StoppedError
from holdfast.pipeline.topology import Stream

# The way into a stream, as sources see it: rows that wait until they are safe.
#
# Kinds of sources differ in `Bringer.bring` only. Where a source is after a restart is the party's
# `place`, which is logged together with the rows.

FULL = 0.2
"""Seconds before it is tried again when the log is full."""


class Party(Protocol):
    """The party of a stream, as sources see it."""

    place: Any
    in_touch: bool

    def take(self, table: pa.Table, place: Any = None) -> None: ...

    def finish(self) -> None: ...


class Inlet:
    """What a source brings its rows to."""

    def __init__(self, party: Party) -> None:
        self._party = party
        self.stopping = Event()
        self.counts: Counter[str] = Counter()
        """`rows` taken in, and whatever else the source counts."""

    @property
    def place(self) -> Any:
        """How far the source had come with what is logged; None at the very beginning."""
        return self._party.place

    def say_in_touch(self, is_so: bool) -> None:
        """Whether rows would come if there were any. A source that never says so always is."""
        self._party.in_touch = is_so

    def take(self, table: pa.Table, place: Any = None) -> None:
        """Bring rows; waits until they are safe, and while the log is full."""
        while True:
            try:
                self._party.take(table, place)
            except FullError:
                self.pause(FULL)
                continue
            self.counts["rows"] += len(table)
            return

    def finish(self) -> None:
        """No more rows will come."""
        while True:
            try:
                return self._party.finish()
            except FullError:
                self.pause(FULL)

    def pause(self, seconds: float) -> None:
        """Wait, unless the source is to stop."""
        if self.stopping.wait(max(seconds, 0)):
            raise StoppedError


class Bringer(Protocol):
    """One kind of source."""

    def bring(self, inlet: Inlet) -> None:
        """Bring rows until there are no more, or `inlet.stopping` is set."""


_SIMPLE: Final = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_TOKEN: Final = re.compile(r"`(?:[^`]|``)+`|\w+|[<>(),:]")


def arrow_schema(stream: Stream) -> pa.Schema:
    """The columns of rows as they are brought: without `stime`."""
    return pa.schema([pa.field(name, arrow_type(kind)) for name, kind in stream.source.schema])


def arrow_type(ddl: str) -> pa.DataType:
    """The same type as Spark's own conversion gives. `ddl`: as a checked topology spells it."""
    tokens = _TOKEN.findall(ddl)
    tokens.reverse()
    return _read(tokens)


def _read(tokens: list[str]) -> pa.DataType:
    """One type; `tokens` are the rest of the text, the next one last."""
    word = tokens.pop()
    if word == "decimal":
        _, digits, _, places, _ = (tokens.pop() for _ in range(5))
        return pa.decimal128(int(digits), int(places))
    if word == "array":
        tokens.pop()
        element = _read(tokens)
        tokens.pop()
        return pa.list_(pa.field("element", element))
    if word == "struct":
        fields = []
        while tokens.pop() != ">":
            name = tokens.pop()
            if name.startswith("`"):
                name = name[1:-1].replace("``", "`")
            tokens.pop()
            fields.append(pa.field(name, _read(tokens)))
        return pa.struct(fields)
    return _SIMPLE[word]


UTC = pa.timestamp("us", "UTC")
DATE = r"^\d{4}-\d{2}-\d{2}$"
ZONE = r":\d{2}(\.\d+)?(Z|[+-]\d{2}(:?\d{2})?)$"


def as_read(schema: pa.Schema) -> pa.Schema:
    """The columns as a reader is to read them."""
    return pa.schema(
        [field.with_type(pa.string()) if _is_text(field.type) else field for field in schema]
    )


def parsed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows that were read so, as they are; raises ArrowInvalid for what cannot be."""
    table.validate(full=True)
    columns = [
        _parsed(table[field.name], field.type) if _is_text(field.type) else table[field.name]
        for field in schema
    ]
    return pa.table(columns, names=schema.names).cast(schema)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) or pa.types.is_date(kind)


def _parsed(texts: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    texts = pc.utf8_trim_whitespace(texts)
    if pa.types.is_date(kind):
        return texts.cast(kind)
    is_date = pc.match_substring_regex(texts, DATE)
    ending = pc.if_else(
        is_date,
        "T00:00:00Z",
        pc.if_else(pc.match_substring_regex(texts, ZONE), "", "Z"),
    )
    return pc.binary_join_element_wise(texts, ending, "").cast(UTC)
