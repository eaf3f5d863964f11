"""Streams and edges in the store, as of a place in the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import msgspec

from holdfast.tenants.machine.documents import Stream
from holdfast.tenants.process.store.database import FOREVER, Database, Work, rows_among

Edge = tuple[str, str, str]
"""Source, target, and what the target calls it."""

_DECODER = msgspec.json.Decoder(Stream)


def streams_at(
    database: Database | Work, paths: Iterable[str], position: int = FOREVER - 1
) -> dict[str, Stream]:
    """Those that there are."""
    rows = rows_among(
        database,
        "SELECT path, body FROM streams WHERE +since <= ? AND until > ? AND path IN (@)",
        paths,
        (position, position),
    )
    return {path: _DECODER.decode(body) for path, body in rows}


def edges_from(
    database: Database | Work, sources: Iterable[str], position: int = FOREVER - 1
) -> list[Edge]:
    return _edges(database, "source", sources, position)


def edges_by_source(database: Database | Work, sources: Iterable[str]) -> dict[str, list[Edge]]:
    """The edges there are now."""
    found: dict[str, list[Edge]] = {}
    for edge in edges_from(database, sources):
        found.setdefault(edge[0], []).append(edge)
    return found


def narrowest_tag(database: Database | Work, tags: Iterable[tuple[str, str]]) -> tuple[str, str]:
    """Of these, the one that the fewest streams have."""

    def count(tag: tuple[str, str]) -> int:
        statement = "SELECT count(*) FROM tags WHERE tag = ? AND value = ?"
        return int(database.rows(statement, tag)[0][0])

    return min(sorted(tags), key=count)


def edges_into(
    database: Database | Work, targets: Iterable[str], position: int = FOREVER - 1
) -> list[Edge]:
    return _edges(database, "target", targets, position)


def touched_between(database: Database, after: int, until: int) -> set[str]:
    """Streams that changed, came or went in (after, until], and both ends of edges that did."""
    found: set[str] = set()
    for column in ("since", "until"):
        asked = f"{column} > ? AND {column} <= ?"
        found.update(
            path
            for (path,) in database.rows(f"SELECT path FROM streams WHERE {asked}", (after, until))
        )
        for ends in database.rows(
            f"SELECT source, target FROM edges WHERE {asked}", (after, until)
        ):
            found.update(ends)
    return found


def _edges(
    database: Database | Work,
    end: Literal["source", "target"],
    paths: Iterable[str],
    position: int,
) -> list[Edge]:
    rows = rows_among(
        database,
        f"SELECT source, target, alias FROM edges WHERE +since <= ? AND until > ? AND {end} IN (@)",
        paths,
        (position, position),
    )
    return [(source, target, alias) for source, target, alias in rows]


def around(
    starts: Iterable[str], edges_of: Callable[[list[str]], list[Edge]], side: int, most: int
) -> list[Edge] | None:
    """All edges that lead away from the starts: on the side of the sources (0) or targets (1).
    None if there are more streams than `most`."""
    found: list[Edge] = []
    known = set(starts)
    front = list(known)
    while front:
        edges = edges_of(front)
        found += edges
        front = sorted({edge[side] for edge in edges} - known)
        known.update(front)
        if len(known) > most:
            return None
    return found
