"""Dispatch and fetch: what a batch of log entries reaches, and what is needed to calculate it.

Only streams that the batch reaches are looked up, so idle ones cost nothing; and only once, until a
change touches them. Streams that do not hang together are calculated apart from each other, by
different tasks.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from holdfast.protocol.composition.definitions import admits, channel_types, owner_of
from holdfast.protocol.composition.documents import Stream
from holdfast.protocol.composition.graph import parts
from holdfast.protocol.composition.settling import Lag, Node
from holdfast.protocol.composition.updates import Update
from holdfast.protocol.composition.windows import SavedWindow
from holdfast.tenants.graph import edges_from, edges_into, streams_at, touched_between
from holdfast.tenants.log import Entry, read_entries
from holdfast.tenants.store.database import Database, rows_among
from holdfast.tenants.store.windows import load_windows

__all__ = ["Bundle", "Planner", "batch_end"]

MOST_ENTRIES: Final = 20_000
"""In one batch."""
MOST_CACHED: Final = 50_000
"""Streams whose followers are remembered."""
ROOM: Final = 64
"""Updates that may leave a window, beside two for each one that comes, before all of it is needed.
"""
ROOM_OF_GROUP: Final = 8
"""The same, where all partitions are brought along though few of them will be asked for."""

_UPDATE = msgspec.json.Decoder(Update)
_LAG = msgspec.json.Decoder(Lag)


class Bundle(msgspec.Struct, frozen=True):
    """All that one part of the graph needs to settle its updates of a batch."""

    entries: list[Update]
    nodes: list[Node] = []
    types: dict[str, dict[str, dict[str, str]]] = {}
    """For each node and input the types of its channels."""
    latest: list[Update] = []
    windows: list[SavedWindow] = []
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
    """The graph behind simple streams."""

    nodes: Mapping[str, Node]
    types: Mapping[str, dict[str, dict[str, str]]]
    sources: frozenset[str]

    def behind(self, path: str, following: Mapping[str, Iterable[str]]) -> _Reached:
        """The part of it that a stream leads to."""
        found: dict[str, Node] = {}
        front = [path]
        while front:
            for target in following.get(front.pop(), ()):
                if target not in found:
                    found[target] = self.nodes[target]
                    front.append(target)
        sources = (s for node in found.values() for some in node.sources.values() for s in some)
        return _Reached(found, {each: self.types[each] for each in found}, frozenset(sources))


class Planner:
    """Remembers what streams reach until a change touches something on the way."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, _Reached] = {}
        self._through: defaultdict[str, set[str]] = defaultdict(set)
        """For each stream those whose way leads through it."""
        self._position = -1
        self.seconds = {"dispatch": 0.0, "fetch": 0.0}
        """Of the last plan."""

    def plan(self, start: int, end: int) -> list[Bundle]:
        """For the updates in (start, end], which have no change among them."""
        began = time.perf_counter()
        entries = [e for e in read_entries(self._database, start, end) if e.kind == "update"]
        self.seconds = dict.fromkeys(self.seconds, 0.0)
        if not entries:
            return []
        self._forget_touched(end)
        paths = list(dict.fromkeys(entry.path for entry in entries))
        self._look_up([path for path in paths if path not in self._known], end)
        reached = {path: self._known[path] for path in paths}
        groups = parts([path, *reached[path].nodes] for path in paths)
        home = {path: number for number, group in enumerate(groups) for path in group}
        gathered: list[list[Update]] = [[] for _ in groups]
        for entry in entries:
            gathered[home[entry.path]].append(_update(entry))
        dispatched = time.perf_counter()
        fetched = _Fetched(self._database, paths, reached.values())
        bundles = [
            fetched.bundle(updates, [reached[path] for path in group if path in reached])
            for updates, group in zip(gathered, groups, strict=True)
        ]
        self.seconds = {
            "dispatch": dispatched - began,
            "fetch": time.perf_counter() - dispatched,
        }
        return bundles

    def _forget_touched(self, position: int) -> None:
        if len(self._known) > MOST_CACHED or position < self._position:
            self._known.clear()
            self._through.clear()
        touched = touched_between(self._database, self._position, position) if self._known else ()
        for path in touched:
            for start in self._through.pop(path, ()):
                self._known.pop(start, None)
        self._position = position

    def _look_up(self, paths: Sequence[str], position: int) -> None:
        """Dispatch: who takes the streams, and who takes those."""
        database = self._database
        streams = streams_at(database, paths, position)
        following: dict[str, set[str]] = {}
        front = sorted(streams)
        while front:
            edges = edges_from(database, front, position)
            new = sorted({target for _, target, _ in edges} - set(streams))
            streams |= streams_at(database, new, position)
            for source in front:
                following[source] = set()
            for source, target, _ in edges:
                if target in streams and _may(streams, source, target):
                    following[source].add(target)
            front = sorted({t for source in front for t in following[source]} - set(following))
        targets = {target for some in following.values() for target in some}
        edges = edges_into(database, targets, position)
        missing = {source for source, _, _ in edges} - set(streams)
        streams |= streams_at(database, missing, position)
        whole = _reached(targets, edges, streams)
        for path in paths:
            self._remember(path, whole.behind(path, following))

    def _remember(self, path: str, reached: _Reached) -> None:
        self._known[path] = reached
        for each in (path, *reached.nodes, *reached.sources):
            self._through[each].add(path)


class _Fetched:
    """What was stored of all streams that a batch may ask for, read at once."""

    def __init__(
        self, database: Database, paths: Iterable[str], reached: Iterable[_Reached]
    ) -> None:
        self._database = database
        nodes = {path for each in reached for path in each.nodes}
        wanted = {*paths, *nodes, *(source for each in reached for source in each.sources)}
        self._latest: defaultdict[str, list[Update]] = defaultdict(list)
        for path, body in rows_among(
            database, "SELECT path, body FROM latest WHERE path IN (@)", wanted
        ):
            self._latest[path].append(_UPDATE.decode(body))
        self._numbers: dict[str, int] = dict(
            rows_among(database, "SELECT path, following FROM numbers WHERE path IN (@)", nodes)
        )
        self._lags: defaultdict[str, list[tuple[str, str, Lag]]] = defaultdict(list)
        for path, source, body in rows_among(
            database, "SELECT path, source, body FROM lags WHERE path IN (@)", nodes
        ):
            self._lags[path].append((path, source, _LAG.decode(body)))

    def bundle(self, entries: list[Update], reached: Sequence[_Reached]) -> Bundle:
        nodes = {path: node for each in reached for path, node in each.nodes.items()}
        types = {path: kinds for each in reached for path, kinds in each.types.items()}
        sources = frozenset().union(*(each.sources for each in reached))
        wanted = sorted({*(entry.stream for entry in entries), *nodes, *sources})
        return Bundle(
            entries,
            list(nodes.values()),
            types,
            [update for path in wanted for update in self._latest.get(path, ())],
            self._windows(nodes.values(), entries),
            {path: int(self._numbers[path]) for path in nodes if path in self._numbers},
            [lag for path in nodes for lag in self._lags.get(path, ())],
        )

    def _windows(self, nodes: Iterable[Node], entries: Sequence[Update]) -> list[SavedWindow]:
        """Those of the partitions that there are updates of; where a stream on the way groups them
        anew, of all."""
        nodes = list(nodes)
        windowed = [node.path for node in nodes if node.window is not None]
        if not windowed:
            return []
        grouped = any(node.stream.group is not None for node in nodes)
        if grouped:
            return load_windows(self._database, windowed, None, ROOM_OF_GROUP)
        scopes = {"", *(entry.key for entry in entries)}
        return load_windows(self._database, windowed, scopes, 2 * len(entries) + ROOM)


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
