"""Pages in the store: plain updates of a stream, many in a row of the table.

Whoever asks for updates looks among those that are rows and among these. A page is found by its
offsets, times and log positions; partitions, text and places are never in one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from holdfast.tenants.machine.pages import Page, cut, unpacked
from holdfast.tenants.machine.updates import Update
from holdfast.tenants.process.store.database import Database, Work

PAGE_COLUMNS: Final = (
    *("path", "number", "last", "count", "position", "last_position"),
    *("since", "until", "body"),
)
PageRow = tuple[str, int, int, int, int, int, int, int, str]
"""One of the table `pages`."""
AT_ONCE: Final = 2
"""Pages read at once: each may be as large as what a batch makes."""

_ENCODE = msgspec.json.Encoder(order="deterministic").encode
_DECODE = msgspec.json.Decoder(Page).decode


def _ends(numbers: int | list[int], count: int) -> tuple[int, int]:
    """Smallest and largest."""
    return (
        (numbers, numbers + count - 1) if isinstance(numbers, int) else (min(numbers), max(numbers))
    )


def page_row(page: Page) -> PageRow:
    return (
        page.stream,
        *_ends(page.offsets, page.count),
        page.count,
        *_ends(page.positions, page.count),
        *_ends(page.timestamps, page.count),
        _ENCODE(page).decode(),
    )


def updates_in_pages(
    database: Database | Work, path: str, after: int, since: int, until: int
) -> Iterator[Update]:
    """In the order of their offsets: those beyond an offset, from a time up to another."""
    # Pages do not overlap: only the one that begins last before the offset can reach beyond it.
    rows = database.rows(
        "SELECT max(number) FROM pages WHERE path = ? AND number <= ?", (path, after)
    )
    at = after if rows[0][0] is None else int(rows[0][0]) - 1
    while True:
        rows = database.rows(
            "SELECT number, body FROM pages "
            "WHERE path = ? AND number > ? AND until >= ? AND since < ? ORDER BY number LIMIT ?",
            (path, at, since, until, AT_ONCE),
        )
        for _, body in rows:
            for update in unpacked(_DECODE(body)):
                if update.offset > after and since <= update.timestamp < until:
                    yield update
        if len(rows) < AT_ONCE:
            return
        at = int(rows[-1][0])


def last_in_pages(database: Database, path: str) -> Update | None:
    rows = database.rows(
        "SELECT body FROM pages WHERE path = ? ORDER BY number DESC LIMIT 1", (path,)
    )
    return unpacked(_DECODE(rows[0][0]))[-1] if rows else None


def between_positions(
    database: Database, after: int, until: int, most: int
) -> list[tuple[int, str, Update]]:
    """The first updates with positions beyond one, up to another: all of the first position, and
    then about as many as wanted."""
    found: list[tuple[int, str, Update]] = []
    bound, seen = until, 0
    while True:
        rows = database.rows(
            "SELECT body FROM pages WHERE last_position > ? AND position <= ? "
            "ORDER BY position, path, number LIMIT ? OFFSET ?",
            (after, bound, AT_ONCE, seen),
        )
        seen += len(rows)
        for (body,) in rows:
            for update in unpacked(_DECODE(body)):
                if after < update.position <= bound:
                    found.append((update.position, update.stream, update))
        found.sort(key=lambda each: (each[0], each[1], each[2].offset))
        if len(found) > most:
            # Nothing beyond the position of the last one wanted can be among the first.
            bound = min(bound, found[most - 1][0])
            found = [each for each in found if each[0] <= bound]
        if len(rows) < AT_ONCE:
            return found


def offsets_in_pages(database: Database, path: str, most: int) -> list[int]:
    """The largest ones, at least as many as wanted if there are."""
    found: list[int] = []
    for number, last, count, body in _newest_first(database, path):
        if last - number + 1 == count:
            found += range(number, last + 1)
        else:
            found += (each.offset for each in unpacked(_DECODE(body)))
        if len(found) >= most:
            break
    return found


def _newest_first(database: Database, path: str) -> Iterator[tuple[int, int, int, str]]:
    at = 2**62
    while True:
        rows: list[Any] = database.rows(
            "SELECT number, last, count, body FROM pages WHERE path = ? AND number < ? "
            "ORDER BY number DESC LIMIT ?",
            (path, at, AT_ONCE),
        )
        for number, last, count, body in rows:
            yield int(number), int(last), int(count), body
        if len(rows) < AT_ONCE:
            return
        at = int(rows[-1][0])


def drop_pages(work: Work, path: str, before: int, until: int) -> int:
    """Offsets below one, of pages up to a log position; answers how many there were."""
    rows = work.rows(
        "SELECT number, body FROM pages WHERE path = ? AND number < ? AND last_position <= ?",
        (path, before, until),
    )
    gone = 0
    left: list[PageRow] = []
    for number, body in rows:
        page = _DECODE(body)
        rest = cut(page, before)
        gone += page.count - (0 if rest is None else rest.count)
        work.run("DELETE FROM pages WHERE path = ? AND number = ?", (path, number))
        if rest is not None:
            left.append(page_row(rest))
    insert_pages(work, left)
    return gone


def insert_pages(work: Work, rows: Iterable[PageRow]) -> None:
    work.load("pages", PAGE_COLUMNS, rows)
