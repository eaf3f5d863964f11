"""Trying an approximation out on a column of a CSV file: what `holdfast shadow` runs."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from holdfast.errors import HoldfastError, InvalidArgumentError
from holdfast.windows import Monoid, monoids, policies
from holdfast.windows.approximation import (
    Method,
    Shadow,
    ShadowReport,
    block_maxima,
    hops,
    max_error,
    max_leaves,
)

__all__ = ["AGGREGATES", "parse_method", "print_report", "read_column", "try_out"]

AGGREGATES: Final[dict[str, Monoid[Any, Any, Any]]] = {
    "mean": monoids.mean,
    "sum": monoids.sum,
    "max": monoids.max,
    "min": monoids.min,
    "count": monoids.count,
}
METHODS: Final = "max_error=0.1%, max_leaves=1000, block_maxima=1000 or hops"


def try_out(
    path: Path, column: str, size: int, approximate: Sequence[str], aggregate: str = "mean"
) -> Shadow:
    """Run the newest `size` rows of a column through a shadow, row by row."""
    if aggregate not in AGGREGATES:
        raise InvalidArgumentError(
            f"aggregate: there is no {aggregate!r}; take one of {', '.join(AGGREGATES)}"
        )
    methods = [parse_method(text) for text in approximate]
    shadow = Shadow(AGGREGATES[aggregate], methods, policies.last(size))
    values = read_column(path, column)
    if len(values) <= size:
        raise InvalidArgumentError(
            f"{path}: has {len(values):,} rows, so a window of the last {size:,} never slides; "
            f"give a file with at least {2 * size:,} rows, or a smaller --last"
        )
    shadow.feed(values)
    return shadow


def print_report(report: ShadowReport, console: Console) -> None:
    title = f"{report.monoid} with {report.methods}, beside the exact window"
    table = Table(title=title, title_justify="left", show_header=False)
    for what, much in report.lines():
        table.add_row(what, much)
    console.print(table)


def parse_method(text: str) -> Method:
    """A method as it is written on the command line: `name=value`, or just `hops`."""
    name, given, value = (part.strip() for part in text.partition("="))
    if name == "hops" and not given:
        return hops()
    makers: dict[str, Callable[[str], Method]] = {
        "max_error": _max_error,
        "max_leaves": lambda value: max_leaves(_whole(text, value)),
        "block_maxima": lambda value: block_maxima(_whole(text, value)),
    }
    if name not in makers or not value:
        raise InvalidArgumentError(f"approximate: {text!r} is no method; give {METHODS}")
    return makers[name](value)


def _max_error(value: str) -> Method:
    try:
        return max_error(float(value))
    except ValueError:
        return max_error(value)


def _whole(text: str, value: str) -> int:
    try:
        return int(value.replace(",", "").replace("_", ""))
    except ValueError:
        raise InvalidArgumentError(
            f"approximate: {text!r} needs a whole number; give {METHODS}"
        ) from None


def read_column(path: Path, column: str) -> list[float]:
    """The numbers of a column of a CSV file that has a line of names."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as lines:
            return list(_numbers(path, csv.reader(lines), column))
    except OSError as error:
        raise HoldfastError(
            f"{path}: cannot be read ({error.strerror}); give a CSV file that is there"
        ) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise HoldfastError(
            f"{path}: cannot be read as CSV ({error}); give a file of comma-separated text"
        ) from error


def _numbers(path: Path, rows: Any, column: str) -> Iterator[float]:
    names = [name.strip() for name in next(rows, [])]
    if column not in names:
        there = ", ".join(names) or "none, the file is empty"
        raise InvalidArgumentError(
            f"{path}: has no column {column!r}; give one of its columns with --column: {there}"
        )
    place = names.index(column)
    for row in rows:
        if not row:
            continue
        cell = row[place].strip() if place < len(row) else ""
        try:
            number = float(cell)
        except ValueError:
            number = float("nan")
        if number != number:
            raise InvalidArgumentError(
                f"{path}, line {rows.line_num}: {column} is {cell!r}, which is no number; "
                "leave such rows out"
            )
        yield number
