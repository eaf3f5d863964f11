"""Provenance of streams in the store, and the access that follows from it.

A stream stays bound by all inputs that it ever had under its name: what it has stored, and what it
has summed up, was made of them. Of a stream that was removed the last access holds.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from holdfast.tenants.machine.definitions import owner_of
from holdfast.tenants.machine.documents import Access, Stream
from holdfast.tenants.machine.provenance import (
    Behind,
    Rules,
    open_to_all,
    refusing,
    rules_behind,
)
from holdfast.tenants.process.graph import streams_at, touched_between
from holdfast.tenants.process.store.database import Database, Work, rows_among

MOST_KNOWN: Final = 50_000
"""Streams whose rules are remembered."""

_DECODER = msgspec.json.Decoder(Stream)


class Provenance:
    """Answers from memory until a change touches a stream or one behind it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._at = self._changed()
        self._rules: dict[str, Rules] = {}
        self._following: dict[str, set[str]] = {}

    def rules(self, paths: Iterable[str]) -> Mapping[str, Rules]:
        wanted = list(paths)
        at = self._changed()
        with self._lock:
            if at > self._at:
                self._forget(touched_between(self._database, self._at, at))
                self._at = at
            at = self._at
            known = dict(self._rules) if any(path not in self._rules for path in wanted) else None
            if known is None:
                return {path: self._rules[path] for path in wanted}
        # Others need not wait for what lies behind these.
        found = stored_rules(self._database, wanted, known)
        with self._lock:
            if self._at == at and self._changed() == at:
                self._remember(found)
        return {path: found.rules[path] if path in found.rules else known[path] for path in wanted}

    def refused(self, tenant: str, path: str) -> str | None:
        """The reason why a tenant may not read what lies behind a stream; None: it may."""
        return refusal(tenant, path, self.rules([path])[path])

    def open_to_all(self, paths: Iterable[str]) -> set[str]:
        return {path for path, rules in self.rules(paths).items() if open_to_all(rules)}

    def readable(self, tenant: str, paths: Iterable[str]) -> set[str]:
        return {path for path, rules in self.rules(paths).items() if not refusing(rules, tenant)}

    def _changed(self) -> int:
        """Position of the last change of a document. The store says it, not the log of this
        process: the engine sees a change as soon as it is committed."""
        statement = "SELECT coalesce(max(position), 0) FROM log WHERE kind = 'change'"
        return int(self._database.rows(statement)[0][0])

    def _remember(self, found: Behind) -> None:
        if len(self._rules) + len(found.rules) > MOST_KNOWN:
            self._rules.clear()
            self._following.clear()
        self._rules |= found.rules
        for path, sources in found.sources.items():
            for source in sources:
                self._following.setdefault(source, set()).add(path)

    def _forget(self, touched: Iterable[str]) -> None:
        front = set(touched)
        while front:
            path = front.pop()
            self._rules.pop(path, None)
            front |= self._following.pop(path, set())


def refusal(tenant: str, path: str, rules: Rules) -> str | None:
    """Owners are named, for readers of the stream see them; streams between are not."""
    others = [owner for owner in refusing(rules, tenant) if owner != owner_of(path)]
    if not others:
        return None
    named = " and ".join(others[:5]) + (f" and {len(others) - 5} more" if len(others) > 5 else "")
    who = "who does" if len(others) == 1 else "who do"
    return f"{path} has data of {named}, {who} not let you read them; ask {named} for access"


def stored_rules(
    database: Database | Work, paths: Iterable[str], known: Mapping[str, Rules] | None = None
) -> Behind:
    """As documents are now."""

    def sources(targets: list[str]) -> list[tuple[str, str]]:
        statement = "SELECT source, target FROM lineage WHERE target IN (@)"
        return [(source, target) for source, target in rows_among(database, statement, targets)]

    return rules_behind(paths, sources, lambda some: last_access(database, some), known or {})


def last_access(database: Database | Work, paths: Sequence[str]) -> dict[str, Access]:
    """Of streams as they are, or were when they were removed."""
    found = {path: stream.access for path, stream in streams_at(database, paths).items()}
    rows = rows_among(
        database,
        "SELECT streams.path, body FROM streams JOIN (SELECT path, max(until) AS last FROM streams "
        "WHERE path IN (@) GROUP BY path) AS ends "
        "ON streams.path = ends.path AND streams.until = ends.last",
        [path for path in paths if path not in found],
    )
    return found | {path: _DECODER.decode(body).access for path, body in rows}
