"""Whether jobs have answered the same, and what is right."""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from soak.jobs.case import Case, Row
from soak.jobs.job import STATIC, Job

__all__ = ["check_answers", "check_same"]

Place = tuple[Any, ...]


CALCULATED = (
    "count(1)",
    "sum(amount)",
    "min(amount)",
    "max(amount)",
    "first(id)",
    "last(id)",
    "own",
)


def check_same(whole: Job, killed: Job) -> None:
    """The same rows, every one as often, all columns to the bit."""
    for what, expected, found in (
        ("answers", whole.answers(), killed.answers()),
        ("late rows", whole.late_rows(), killed.late_rows()),
    ):
        if expected.schema.names != found.schema.names:
            raise AssertionError(f"{what}: {found.schema.names}, not {expected.schema.names}")
        wanted, seen = Counter(_bits(expected)), Counter(_bits(found))
        if wanted != seen:
            raise AssertionError(
                f"{what}: {len(found)} instead of {len(expected)}; missing "
                f"{list(wanted - seen)[:3]}, too many {list(seen - wanted)[:3]}"
            )


def check_answers(job: Job) -> None:
    """What a job answers is what its rows come to, calculated anew, without the late ones."""
    case, table = job.case, job.answers()
    if case.last is None:
        expected = _windows_in_time(case, _rows_in_time(job))
        named = table["window_name"] if case.several else pa.repeat(pa.scalar("main"), len(table))
        place = [named, pc.struct_field(table["window"], "start").cast(pa.int64())]
    else:
        expected = _newest_rows(case, _rows_in_time(job), case.last)
        place = [table["ts"].cast(pa.int64())]
    places = _lines([*(table[key] for key in case.key), *place])
    answers = zip(places, _lines([table[column] for column in CALCULATED]), strict=True)
    # Windows without rows, where they are wanted, have no other check here.
    found = Counter((place, answer) for place, answer in answers if answer[0])
    wanted = Counter((place, _calculate(rows)) for place, rows in expected.items())
    if found != wanted:
        raise AssertionError(
            f"{found.total()} windows instead of {wanted.total()}; missing "
            f"{list(wanted - found)[:3]}, too many {list(found - wanted)[:3]}"
        )


def _rows_in_time(job: Job) -> Iterator[Row]:
    """The rows whose windows have ended, without those the job found late.

    None of these may have come in time, and each must be there once.
    """
    case = job.case
    late = Counter(job.late_rows()["id"].to_pylist())
    newest = before = 0
    # In a stream the windows of the last two rows do not end.
    for file in range(case.files + 2 if job.trigger == STATIC else case.files):
        # What has a pane is late if that was closed in the batch before.
        watermark = (before if case.last is None else newest) - case.delay
        rows = list(case.rows(file))
        for row in rows:
            if row["id"] not in late:
                yield row
            elif row["ts"] > watermark or late[row["id"]] != 1:
                raise AssertionError(f"late {late[row['id']]} times at {watermark}: {row}")
        before, newest = newest, max(newest, *(row["ts"] for row in rows))


def _windows_in_time(case: Case, rows: Iterable[Row]) -> dict[Place, list[Row]]:
    """The rows of each window, under its key, its name and its start."""
    windows: dict[Place, list[Row]] = defaultdict(list)
    for row in rows:
        for window in windows_of(case, row["ts"]):
            windows[(*(row[key] for key in case.key), *window)].append(row)
    return windows


def _newest_rows(case: Case, rows: Iterable[Row], count: int) -> dict[Place, list[Row]]:
    """Each row with those before it, under its key and its time."""
    histories: dict[Place, list[Row]] = defaultdict(list)
    newest: dict[Place, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["ts"]):
        key = tuple(row[key] for key in case.key)
        histories[key].append(row)
        newest[(*key, row["ts"])] = histories[key][-count:]
    return newest


def windows_of(case: Case, moment: int) -> Iterator[tuple[str, int]]:
    """The names and starts of the windows that a time is in."""
    for window in case.windows():
        start = moment - (moment - window.offset) % window.slide
        while start > moment - window.size:
            yield window.name, start
            start -= window.slide


def _calculate(rows: list[Row]) -> tuple[Any, ...]:
    amounts = [row["amount"] for row in rows if row["amount"] is not None]
    ids = [row["id"] for row in sorted(rows, key=lambda row: row["ts"])]
    total = sum(amounts) if amounts else None
    ends = (min(amounts, default=None), max(amounts, default=None), ids[0], ids[-1])
    return len(rows), total, *ends, total


def _lines(columns: list[Any]) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def _bits(table: pa.Table) -> list[str]:
    return [repr([_exact(value) for value in row.values()]) for row in table.to_pylist()]


def _exact(value: Any) -> Any:
    match value:
        case float():
            return struct.pack(">d", value).hex()
        case list():
            return [_exact(each) for each in value]
        case dict():
            return [_exact(each) for each in value.values()]
    return value
