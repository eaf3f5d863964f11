"""Queries about streams: last update, history by time, text and place, errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from math import cos, radians
from typing import Any, Final

import msgspec

from holdfast.errors import ForbiddenError, NotFoundError
from holdfast.tenants.machine.definitions import admits, channel_types, distance, owner_of
from holdfast.tenants.machine.documents import Near, Stream
from holdfast.tenants.machine.graph import novelty
from holdfast.tenants.machine.provenance import refusing
from holdfast.tenants.machine.updates import Update
from holdfast.tenants.process.backlog import Quotas, kept_of
from holdfast.tenants.process.graph import around, edges_from, edges_into, narrowest_tag, streams_at
from holdfast.tenants.process.provenance import Provenance, refusal
from holdfast.tenants.process.store.database import FOREVER, Database
from holdfast.tenants.process.store.pages import last_in_pages, updates_in_pages

MOST_AROUND: Final = 5_000
PAGE: Final = 1_000
ROWS: Final = 20
"""Updates read at once: each may have 256 KiB."""
LARGEST_ANSWER: Final = 2**20
"""Bytes after which an answer ends."""
PAGES: Final = 50
"""Streams that a search looks at, at once and altogether."""


_Sized = tuple[dict[str, Any], int]
"""Something that is answered, and its bytes."""


class Wanted(msgspec.Struct, frozen=True):
    """Which updates of a stream."""

    since: int = -(2**62)
    until: int = 2**62
    after: int = -1
    """Offsets beyond this one."""
    key: str | None = None
    text: str | None = None
    """A pattern with * and ? for what its strings hold."""
    near: Near | None = None
    limit: int = 100


class Reading:
    def __init__(self, database: Database, provenance: Provenance | None = None) -> None:
        self._database = database
        self._provenance = Provenance(database) if provenance is None else provenance

    def stream(self, tenant: str, path: str) -> Stream:
        """One that the tenant may read, and all that is in it."""
        found = self.admitted(tenant, path)
        refused = self._provenance.refused(tenant, path)
        if refused is not None:
            raise ForbiddenError(f"stream: {refused}")
        return found

    def admitted(self, tenant: str, path: str) -> Stream:
        """One that is the tenant's own or shared with it; what is in it may not be."""
        found = streams_at(self._database, [path]).get(path)
        if found is None or not admits(path, found, tenant):
            raise NotFoundError(f"stream: there is no {path} that you may read")
        return found

    def last(self, tenant: str, path: str, key: str | None = None) -> dict[str, Any]:
        self.stream(tenant, path)
        clause, values = ("", [path]) if key is None else (" AND partition_key = ?", [path, key])
        rows = self._database.rows(
            f"SELECT body, late FROM updates WHERE path = ? AND late = 0{clause} "
            "ORDER BY number DESC LIMIT 1",
            values,
        )
        found = [_shown(*row) for row in rows]
        paged = None if key else last_in_pages(self._database, path)
        if paged is not None:
            found.append(_as_json(paged))
        self.stream(tenant, path)
        if not found:
            raise NotFoundError(f"stream: {path} has no update yet")
        return max(found, key=_offset)

    def updates(self, tenant: str, path: str, wanted: Wanted) -> list[dict[str, Any]]:
        """In the order of their offsets: so many as wanted, or as few as are `LARGEST_ANSWER`."""
        self.stream(tenant, path)
        clauses = ["path = ?", "timestamp >= ?", "timestamp < ?"]
        values: list[Any] = [path, wanted.since, wanted.until]
        if wanted.key is not None:
            clauses.append("partition_key = ?")
            values.append(wanted.key)
        if wanted.text is not None:
            clauses.append("words LIKE ? ESCAPE '!'")
            values.append(_like(wanted.text))
        if wanted.near is not None:
            more, bounds = _box(wanted.near)
            clauses.append(more)
            values += bounds
        clauses.append("number > ?")
        values.append(wanted.after)
        asked = f"FROM updates WHERE {' AND '.join(clauses)}"
        some = [self._rows(asked, values, wanted)]
        if not (wanted.key or wanted.near is not None or (wanted.text or "").strip("*")):
            paged = updates_in_pages(self._database, path, wanted.after, wanted.since, wanted.until)
            some.append(map(_as_sized, paged))
        found = _until_full(islice(merge(*some, key=_offset_of_sized), wanted.limit))
        # Again: what was read may have come of a change since the first look.
        self.stream(tenant, path)
        return found

    def _rows(self, asked: str, values: Sequence[Any], wanted: Wanted) -> Iterator[_Sized]:
        """Updates that are rows, some at a time; `values` ends with the offset to go on from."""
        *others, after = values
        for seen in range(0, wanted.limit, ROWS):
            rows = self._database.rows(
                f"SELECT number, body, late, latitude, longitude {asked} ORDER BY number LIMIT ?",
                [*others, after, min(ROWS, wanted.limit - seen)],
            )
            for number, body, late, *place in rows:
                after = number
                if _is_near(wanted.near, place):
                    yield _shown(body, late), len(body)
            if len(rows) < ROWS:
                return

    def failures(self, tenant: str, path: str, limit: int) -> list[dict[str, Any]]:
        """The newest first; only the owner sees them, for they may quote values. While the owner
        may not read what is in the stream, those that say so are all."""
        self.admitted(tenant, path)
        if owner_of(path) != tenant:
            raise NotFoundError(f"stream: there is no {path} of yours")
        rows = self._database.rows(
            "SELECT position, timestamp, kind, message FROM failures WHERE path = ? "
            "ORDER BY position DESC, number DESC LIMIT ?",
            (path, limit),
        )
        if self._provenance.refused(tenant, path) is not None:
            rows = [row for row in rows if row[2] == "access"]
        names = ("position", "timestamp", "kind", "message")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def dropped_before(self, path: str) -> int:
        """Updates with an offset below this one are not kept any more."""
        rows = self._database.rows("SELECT before FROM dropped WHERE path = ?", (path,))
        return int(rows[0][0]) if rows else 0

    def _kept(self, path: str, stream: Stream, quotas: Quotas) -> dict[str, Any]:
        rows = self._database.rows("SELECT count, before FROM dropped WHERE path = ?", (path,))
        dropped, before = rows[0] if rows else (0, 0)
        count = kept_of(stream, quotas).updates
        return {"count": count, "age": stream.keep.age, "dropped": dropped, "from": before}

    def status(self, tenant: str, path: str, quotas: Quotas) -> dict[str, Any]:
        """What a stream is and how it does."""
        stream = self.admitted(tenant, path)
        mine = owner_of(path) == tenant
        refused = self._provenance.refused(tenant, path)
        if refused is not None and not mine:
            raise ForbiddenError(f"stream: {refused}")
        lags = self._database.rows("SELECT source, body FROM lags WHERE path = ?", (path,))
        told: dict[str, Any] = {
            "stream": path,
            "kind": "composite" if stream.is_composite else "simple",
            "channels": channel_types(stream),
            "description": stream.description,
        }
        if mine:
            told |= {
                "definition": msgspec.to_builtins(stream),
                "subscribers": len({e[1] for e in edges_from(self._database, [path])}),
                "lagging": {source: msgspec.json.decode(body) for source, body in lags},
                "novelty": self._novelty(path),
                "kept": self._kept(path, stream, quotas),
                "refused": refused,
                "refused_inputs": self._refused_inputs(tenant, path),
            }
        return told

    def _refused_inputs(self, tenant: str, path: str) -> dict[str, str]:
        """Inputs that bring nothing, because their data may not be read by the owner."""
        edges = edges_into(self._database, [path])
        rules = self._provenance.rules({source for source, _, _ in edges})
        return {
            source: refusal(tenant, source, rules[source]) or f"you may not read {source}"
            for source, _, _ in edges
            if refusing(rules[source], tenant)
        }

    def search(
        self, tenant: str, tags: Sequence[tuple[str, str]], limit: int
    ) -> list[dict[str, Any]]:
        """Streams that the tenant may read and that have these tags; without any, its own."""
        values: tuple[str, Any]
        if not tags:
            asked, values = "streams WHERE owner = ? AND until = ?", (tenant, FOREVER)
        else:
            asked = "tags WHERE tag = ? AND value = ?"
            values = narrowest_tag(self._database, tags)
        found: list[dict[str, Any]] = []
        last = ""
        # Those that are not to be seen are among them, so more than `limit` may be looked at.
        for _ in range(PAGES):
            rows = self._database.rows(
                f"SELECT path FROM {asked} AND path > ? ORDER BY path LIMIT ?",
                (*values, last, PAGE),
            )
            some = streams_at(self._database, [path for (path,) in rows])
            mine = {path for path in some if owner_of(path) == tenant}
            readable = mine | self._provenance.readable(tenant, some.keys() - mine)
            found += [
                {"stream": path, "channels": channel_types(s), "description": s.description}
                for path, s in sorted(some.items())
                if path in readable and all(s.description.get(t) == v for t, v in tags)
            ]
            if len(found) >= limit or len(rows) < PAGE:
                break
            last = rows[-1][0]
        return _until_full((each, len(msgspec.json.encode(each))) for each in found[:limit])

    def _novelty(self, path: str) -> int | None:
        edges = around([path], lambda paths: edges_into(self._database, paths), 0, MOST_AROUND)
        if edges is None:
            return None
        following: dict[str, list[str]] = {}
        for source, target, _ in edges:
            following.setdefault(source, []).append(target)
        names = sorted({path, *following})
        return novelty(names, following)[path]


def _until_full(found: Iterable[_Sized]) -> list[dict[str, Any]]:
    """At least one of them, and more while they are not too large together."""
    taken: list[dict[str, Any]] = []
    size = 0
    for each, more in found:
        size += more
        if taken and size > LARGEST_ANSWER:
            break
        taken.append(each)
    return taken


def _as_sized(update: Update) -> _Sized:
    body = msgspec.json.encode(update, order="deterministic")
    return msgspec.json.decode(body), len(body)


def _offset_of_sized(each: _Sized) -> int:
    return _offset(each[0])


def _offset(update: dict[str, Any]) -> int:
    return int(update["offset"])


def _as_json(update: Update) -> dict[str, Any]:
    made: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(update, order="deterministic"))
    return made


def _shown(body: str, late: int) -> dict[str, Any]:
    update: dict[str, Any] = msgspec.json.decode(body)
    return {**update, "late": True} if late else update


def _like(pattern: str) -> str:
    """For SQL, with ! before its own signs."""
    made = pattern.casefold()
    for sign in "!%_":
        made = made.replace(sign, f"!{sign}")
    return made.replace("*", "%").replace("?", "_")


def _box(near: Near) -> tuple[str, list[float]]:
    """A square around the circle, which an index can find."""
    high = near.km / 111.0
    clause = "latitude BETWEEN ? AND ?"
    bounds = [near.latitude - high, near.latitude + high]
    wide = high / max(0.01, cos(radians(min(89.4, abs(near.latitude) + high))))
    if abs(near.longitude) + wide < 180:
        clause += " AND longitude BETWEEN ? AND ?"
        bounds += [near.longitude - wide, near.longitude + wide]
    return clause, bounds


def _is_near(near: Near | None, place: Sequence[float | None]) -> bool:
    if near is None:
        return True
    latitude, longitude = place
    assert latitude is not None
    assert longitude is not None
    inside = -90 <= latitude <= 90 and -180 <= longitude <= 180
    return inside and distance(near, Near(latitude, longitude, 1.0)) <= near.km
