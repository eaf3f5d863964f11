"""What is told of a stream, as lines: green is final, yellow is tentative, red is withdrawn."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from holdfast.parties.reader import Told
from holdfast.tuples import STIME, Kind

__all__ = ["Lines"]

STYLES = {Kind.INSERT: ("final", "green"), Kind.TENTATIVE: ("tentative", "yellow")}


class Lines:
    """Prints what a reader is told."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.rows = 0
        """How many were printed."""
        self.shaky = 0
        """How many of them are tentative and not withdrawn."""

    def show(self, told: Told, most: int | None = None) -> None:
        """Print it; of its rows the first `most` at most."""
        match told.kind:
            case Kind.INSERT | Kind.TENTATIVE if told.rows is not None:
                rows = told.rows if most is None else told.rows.slice(0, most)
                self._show_rows(told.kind, rows)
            case Kind.UNDO:
                self.undo(told.boundary)
            case Kind.REC_DONE:
                self._print(Text("corrected  all that was tentative", "green"))

    def undo(self, boundary: int) -> None:
        """All that is tentative is withdrawn."""
        many = "1 row is" if self.shaky == 1 else f"{self.shaky} rows are"
        self._print(Text(f"UNDO       {many} withdrawn, back to {_time(boundary)}", "bold red"))
        self.shaky = 0

    def skip(self, start: int, end: int) -> None:
        """There is nothing to show between two boundaries: it is not kept any more."""
        self._print(Text(f"gap        from {_time(start)} to {_time(end)}", "red"))

    def _show_rows(self, kind: Kind, rows: pa.Table) -> None:
        word, style = STYLES[kind]
        text = Text("\n").join(Text(f"{word:<9}  {line}", style) for line in _lines(rows))
        if len(rows):
            self._print(text)
        self.rows += len(rows)
        if kind is Kind.TENTATIVE:
            self.shaky += len(rows)

    def _print(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True)


def _lines(rows: pa.Table) -> Iterator[str]:
    names = rows.schema.names
    columns = [column.to_pylist() for column in rows.columns]
    for values in zip(*columns, strict=True):
        yield "  ".join(
            _value(value) if name == STIME else f"{name}={_value(value)}"
            for name, value in zip(names, values, strict=True)
        )


def _value(value: Any) -> str:
    match value:
        case None:
            return "null"
        case datetime():
            return _iso(value)
        case dict():
            return "{" + ", ".join(f"{name}={_value(each)}" for name, each in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_value, value)) + "]"
        case str():
            return value if value.isprintable() else repr(value)
    return str(value)


def _iso(value: datetime) -> str:
    return value.isoformat().replace("+00:00", "Z")


def _time(boundary: int) -> str:
    return _iso(pa.scalar(boundary, pa.timestamp("us", "UTC")).as_py())
