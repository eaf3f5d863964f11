"""Dispatch and fetch: what a batch of log entries reaches, and what is needed to calculate it.

Only streams that the batch reaches are looked up, so idle ones cost nothing. Streams that do not
hang together are calculated apart from each other, by different tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from holdfast.protocol.composition.aggregation import MOST_LOADED, span_of
from holdfast.protocol.composition.definitions import admits, channel_types, owner_of
from holdfast.protocol.composition.documents import Stream
from holdfast.protocol.composition.graph import parts
from holdfast.protocol.composition.settling import Lag, Node
from holdfast.protocol.composition.updates import Update
from holdfast.tenants.graph import edges_from, edges_into, streams_at
from holdfast.tenants.log import Entry, read_entries
from holdfast.tenants.store.database import Database, rows_among

__all__ = ["Bundle", "Planner", "batch_end"]

MOST_ENTRIES: Final = 20_000
"""In one batch."""
MOST_CACHED: Final = 50_000
"""Streams whose followers are remembered."""

_UPDATE = msgspec.json.Decoder(Update)
_LAG = msgspec.json.Decoder(Lag)


class Bundle(msgspec.Struct, frozen=True):
    """All that one part of the graph needs to settle its updates of a batch."""

    entries: list[Update]
    nodes: list[Node] = []
    types: dict[str, dict[str, dict[str, str]]] = {}
    """For each node and input the types of its channels."""
    latest: list[Update] = []
    histories: dict[str, list[Update]] = {}
    numbers: dict[str, int] = {}
    """The next offset of each composite stream."""
    lags: list[tuple[str, str, Lag]] = []


def batch_end(database: Database, start: int, most: int = MOST_ENTRIES) -> int:
    """How far a batch that begins after `start` goes. A change of a document is one of its own:
    what comes before and after it is settled in different graphs."""
    end = int(database.rows("SELECT coalesce(max(position), 0) FROM log")[0][0])
    change = database.rows(
        "SELECT min(position) FROM log WHERE kind = 'change' AND position > ?", (start,)
    )[0][0]
    if change is None:
        return min(end, start + most)
    return int(change) if change == start + 1 else min(int(change) - 1, start + most)


@dataclass(frozen=True)
class _Reached:
    """The graph behind one simple stream."""

    nodes: Mapping[str, Node]
    types: Mapping[str, dict[str, dict[str, str]]]
    sources: frozenset[str]


class Planner:
    """Remembers what streams reach until a document changes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, _Reached] = {}
        self._change = -1

    def plan(self, start: int, end: int) -> list[Bundle]:
        """For the updates in (start, end], which have no change among them."""
        entries = [e for e in read_entries(self._database, start, end) if e.kind == "update"]
        if not entries:
            return []
        self._forget_if_changed(end)
        paths = list(dict.fromkeys(entry.path for entry in entries))
        reached = {path: self._reach(path, end) for path in paths}
        groups = parts([path, *reached[path].nodes] for path in paths)
        home = {path: number for number, group in enumerate(groups) for path in group}
        gathered: list[list[Update]] = [[] for _ in groups]
        for entry in entries:
            gathered[home[entry.path]].append(_update(entry))
        return [
            self._fetch(updates, [reached[path] for path in group if path in reached])
            for updates, group in zip(gathered, groups, strict=True)
        ]

    def _forget_if_changed(self, position: int) -> None:
        change = self._database.rows(
            "SELECT coalesce(max(position), 0) FROM log WHERE kind = 'change' AND position <= ?",
            (position,),
        )[0][0]
        if change != self._change or len(self._known) > MOST_CACHED:
            self._known.clear()
            self._change = change

    def _reach(self, path: str, position: int) -> _Reached:
        if path not in self._known:
            self._known[path] = self._look_up(path, position)
        return self._known[path]

    def _look_up(self, path: str, position: int) -> _Reached:
        """Dispatch: who takes the stream, and who takes those."""
        database = self._database
        streams = streams_at(database, [path], position)
        front = [path] if path in streams else []
        targets: set[str] = set()
        while front:
            edges = edges_from(database, front, position)
            new = sorted({target for _, target, _ in edges} - set(streams))
            streams |= streams_at(database, new, position)
            allowed = {t for s, t, _ in edges if t in streams and _may(streams, s, t)}
            front = sorted(allowed - targets)
            targets |= allowed
        edges = edges_into(database, targets, position)
        missing = {source for source, _, _ in edges} - set(streams)
        streams |= streams_at(database, missing, position)
        return _reached(targets, edges, streams)

    def _fetch(self, entries: list[Update], reached: Sequence[_Reached]) -> Bundle:
        """The last updates of all that may be asked for, and what windows look at."""
        nodes = {path: node for each in reached for path, node in each.nodes.items()}
        types = {path: kinds for each in reached for path, kinds in each.types.items()}
        sources = frozenset().union(*(each.sources for each in reached))
        wanted = {*(entry.stream for entry in entries), *nodes, *sources}
        rows = rows_among(self._database, "SELECT body FROM latest WHERE path IN (@)", wanted)
        numbers = rows_among(
            self._database, "SELECT path, following FROM numbers WHERE path IN (@)", nodes
        )
        lags = rows_among(
            self._database, "SELECT path, source, body FROM lags WHERE path IN (@)", nodes
        )
        return Bundle(
            entries,
            list(nodes.values()),
            types,
            [_UPDATE.decode(body) for (body,) in rows],
            self._histories(nodes.values(), min(entry.timestamp for entry in entries)),
            {path: int(following) for path, following in numbers},
            [(path, source, _LAG.decode(body)) for path, source, body in lags],
        )

    def _histories(self, nodes: Iterable[Node], earliest: int) -> dict[str, list[Update]]:
        """What windows look at may reach back from the oldest update of the batch."""
        since: dict[str, int] = {}
        counts: dict[str, int] = {}
        for node in nodes:
            aggregate = node.stream.aggregate
            if aggregate is None or aggregate.over != "window":
                continue
            span = span_of(aggregate)
            for source in node.sources[aggregate.input]:
                if span is not None:
                    start = earliest - span
                    since[source] = min(start, since.get(source, start))
                elif aggregate.count is not None:
                    counts[source] = max(aggregate.count, counts.get(source, 0))
        return {
            source: self._history(source, since.get(source), counts.get(source, 0))
            for source in {**since, **counts}
        }

    def _history(self, source: str, since: int | None, count: int) -> list[Update]:
        """All since a time, and the last ones of each partition; in the order of the log."""
        found: dict[int, str] = {}
        if since is not None:
            found |= self._database.rows(
                "SELECT number, body FROM updates WHERE path = ? AND timestamp > ? AND late = 0 "
                "ORDER BY number DESC LIMIT ?",
                (source, since, MOST_LOADED + 1),
            )
        if count:
            keys = self._database.rows("SELECT partition_key FROM latest WHERE path = ?", (source,))
            for (key,) in keys:
                found |= self._database.rows(
                    "SELECT number, body FROM updates WHERE path = ? AND partition_key = ? "
                    "AND late = 0 ORDER BY number DESC LIMIT ?",
                    (source, key, count),
                )
        return [_UPDATE.decode(body) for _, body in sorted(found.items())]


def _reached(
    targets: Iterable[str],
    edges: Iterable[tuple[str, str, str]],
    streams: Mapping[str, Stream],
) -> _Reached:
    members: dict[tuple[str, str], list[str]] = {}
    for source, target, alias in sorted(edges):
        if source in streams and _may(streams, source, target):
            members.setdefault((target, alias), []).append(source)
    nodes, types = {}, {}
    for path in sorted(targets):
        stream = streams[path]
        sources = {alias: tuple(members.get((path, alias), ())) for alias in stream.inputs}
        nodes[path] = Node(path, stream, sources)
        types[path] = {alias: _types(stream, alias, sources[alias], streams) for alias in sources}
    return _Reached(nodes, types, frozenset(s for each in members.values() for s in each))


def _types(
    stream: Stream,
    alias: str,
    sources: tuple[str, ...],
    streams: Mapping[str, Stream],
) -> dict[str, str]:
    query = stream.inputs[alias].query
    if query is not None:
        return {name: str(kind) for name, kind in query.channels.items()}
    return channel_types(streams[sources[0]]) if sources else {}


def _may(streams: Mapping[str, Stream], source: str, target: str) -> bool:
    return admits(source, streams[source], owner_of(target))


def _update(entry: Entry) -> Update:
    values = msgspec.json.decode(entry.body)
    return Update(
        entry.path,
        entry.number,
        entry.timestamp,
        entry.position,
        values,
        entry.key,
        {},
        (owner_of(entry.path),),
    )
