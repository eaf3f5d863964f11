"""Windows of streams in the store: a root for each stream and partition, and its pairs.

Pairs never change; what a batch adds and what it no longer needs goes in the batch's transaction.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable

from holdfast.errors import StoreCorruptError
from holdfast.tenants.machine.windows import Fetch, SavedWindow, brought_positions
from holdfast.tenants.process.store.database import Database, Work, rows_among


def load_windows(
    database: Database, paths: Iterable[str], scopes: Collection[str] | None, leaves: int
) -> list[SavedWindow]:
    """Those of these partitions, or all, with the pairs that it takes to let so many leaves go."""
    rows = rows_among(
        database, "SELECT path, scope, oldest, levels, root FROM windows WHERE path IN (@)", paths
    )
    return [
        SavedWindow(
            path,
            scope,
            int(oldest),
            int(levels),
            b64decode(root),
            _pairs(database, path, scope, brought_positions(int(oldest), int(levels), leaves)),
        )
        for path, scope, oldest, levels, root in sorted(rows)
        if scopes is None or scope in scopes
    ]


def fetch_from(database: Database, window: SavedWindow) -> Fetch:
    """For one that needs more of its pairs than it brought along."""

    def fetch(level: int, position: int) -> bytes:
        found = _pairs(database, window.path, window.scope, [(level, position, position)])
        if not found:
            raise StoreCorruptError(
                f"window of {window.path}: the pair {position} of level {level} is missing; "
                "change the aggregate of the stream, so that its window begins anew"
            )
        return found[0][2]

    return fetch


def save_windows(work: Work, windows: Iterable[SavedWindow]) -> None:
    for window in windows:
        before = work.rows(
            "SELECT oldest FROM windows WHERE path = ? AND scope = ?", (window.path, window.scope)
        )
        work.run(
            "INSERT INTO windows (path, scope, oldest, levels, root) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (path, scope) DO UPDATE SET oldest = excluded.oldest, "
            "levels = excluded.levels, root = excluded.root",
            (window.path, window.scope, window.oldest, window.levels, _text(window.root)),
        )
        work.many(
            "INSERT INTO pairs (path, scope, level, position, body) VALUES (?, ?, ?, ?, ?)",
            [
                (window.path, window.scope, level, position, _text(body))
                for level, position, body in window.pairs
            ],
        )
        if before and int(before[0][0]) != window.oldest:
            _release(work, window)


def drop_windows(work: Work, paths: Iterable[str]) -> None:
    """They begin anew with the next update."""
    gone = [(path,) for path in paths]
    for table in ("windows", "pairs"):
        work.many(f"DELETE FROM {table} WHERE path = ?", gone)


def _release(work: Work, window: SavedWindow) -> None:
    """Pairs that cover only what has left."""
    work.many(
        "DELETE FROM pairs WHERE path = ? AND scope = ? AND level = ? AND position < ?",
        [
            (window.path, window.scope, level, window.oldest >> level + 1)
            for level in range(window.levels)
        ],
    )


def _pairs(
    database: Database, path: str, scope: str, wanted: Iterable[tuple[int, int, int]]
) -> list[tuple[int, int, bytes]]:
    """By level, first and last position."""
    asked = list(wanted)
    if not asked:
        return []
    one = (
        "SELECT level, position, body FROM pairs WHERE path = ? AND scope = ? AND level = ? "
        "AND position BETWEEN ? AND ?"
    )
    rows = database.rows(
        " UNION ALL ".join([one] * len(asked)),
        [value for each in asked for value in (path, scope, *each)],
    )
    return [(int(level), int(position), b64decode(body)) for level, position, body in rows]


def _text(data: bytes) -> str:
    """The same in both databases."""
    return b64encode(data).decode()
