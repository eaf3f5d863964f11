"""Schedule, dispatch and fetch: the next batch of log entries and its data.

A batch takes from all tenants in turn, by the estimated cost of each entry, so it is no prefix of
the log. Its plan is recorded in the database before it runs; a batch that is run again is the same.
Changes of documents in a batch are applied first; its updates then settle in the order of the log.

Only streams that the batch reaches are looked up, so idle ones cost nothing; and only once, until a
change touches them. Streams that do not hang together are calculated apart from each other, by
different tasks.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import msgspec

from holdfast.errors import StoreCorruptError
from holdfast.tenants.machine.bounds import bound_of_type
from holdfast.tenants.machine.definitions import admits, channel_types, owner_of
from holdfast.tenants.machine.documents import Access, Stream
from holdfast.tenants.machine.graph import parts
from holdfast.tenants.machine.pages import SHORTEST_PAGE, Page, packed, unpacked
from holdfast.tenants.machine.provenance import Behind, refusing, rules_behind
from holdfast.tenants.machine.settling import LARGEST_RESULT, Lag, Limits, Node, Part
from holdfast.tenants.machine.updates import Update
from holdfast.tenants.machine.windows import SavedWindow
from holdfast.tenants.process.catalog import Change
from holdfast.tenants.process.engine.fairness import Budget, Cost, FairQueue, Item, Pace
from holdfast.tenants.process.expressions import compiled_or_broken
from holdfast.tenants.process.log import Entry, following_numbers, read_runs
from holdfast.tenants.process.store.database import Database, Work, rows_among
from holdfast.tenants.process.store.windows import load_windows

SHARED: Final = Budget(100_000, 32 * 2**20, 5_000)
"""Bounds of a batch while several tenants are active: others wait for it."""
ALONE: Final = Budget(1_000_000, 32 * 2**20, 50_000)
"""Bounds of a batch while one tenant is active."""
CAUTIOUS_SHARE: Final = 1 / 4
"""Part of these bounds that remains with each degree of caution."""
RECENT_S: Final = 10.0
"""Seconds for which a tenant counts as active after its last entry."""
LARGEST_ENTRY: Final = 8 * Limits().work
"""Bytes of results that one update can set off: work is spent on them too."""
ROW_BYTES: Final = 400
"""Bytes of a result beside its values."""
PLAIN_BYTES: Final = 100
"""The same, of one in a page."""
NODE_MICROS: Final = 30.0
PLAIN_MICROS: Final = 5.0
"""Of a stream that is calculated in columns, as a rule; where something unusual happens, one after
the other, it takes several times as long."""
LINK_MICROS: Final = 40.0
"""Of an input beyond `LINKS` a stream: each is looked up, brought along and asked."""
LINKS: Final = 8
STEP_MICROS: Final = 0.03
CHANGE_MICROS: Final = 500.0
MEMBERS: Final = 100
"""Partitions that an aggregate over partitions is assumed to have."""
MOST_READ: Final = 50_000
"""Log entries read at once into the queue."""
MOST_CACHED: Final = 50_000
"""Streams whose followers are remembered."""
ROOM: Final = 64
"""Updates that may leave a window, beside two for each one that comes, before all of it is needed.
"""
ROOM_OF_GROUP: Final = 8
"""The same, where all partitions are brought along though few of them will be asked for."""

_UPDATE = msgspec.json.Decoder(Update)
_LAG = msgspec.json.Decoder(Lag)
_STREAM = msgspec.json.Decoder(Stream)


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
    pages: list[Page] = []
    """Updates that are not among the entries: all of them, or none."""

    @property
    def count(self) -> int:
        return len(self.entries) + sum(page.count for page in self.pages)

    @property
    def updates(self) -> list[Update]:
        """In the order of the log."""
        paged = [update for page in self.pages for update in unpacked(page)]
        return sorted([*self.entries, *paged], key=lambda update: update.position)


class Plan(msgspec.Struct, frozen=True):
    """The entries of one batch, recorded before it runs."""

    end: int
    """The log as far as it was read; later changes are not part of the graph."""
    settled: int
    """All entries up to here are settled once this batch is."""
    runs: list[tuple[int, int]]
    """First and last of consecutive positions."""
    cursors: dict[str, int]
    """For each tenant in it, the last position."""

    @property
    def positions(self) -> list[int]:
        return [at for first, last in self.runs for at in range(first, last + 1)]


_PLAN = msgspec.json.Decoder(Plan)


def read_plan(database: Database | Work, batch: int) -> Plan | None:
    rows = database.rows("SELECT body FROM plans WHERE batch = ?", (batch,))
    return _PLAN.decode(rows[0][0]) if rows else None


@dataclass(frozen=True)
class _View:
    """The graph after some changes: all up to `end`, but for those that wait in a queue. Changes
    of different tenants may be applied in another order than that of the log; each row of the
    graph says which change it came with and which it goes with, so any order ends at the same."""

    end: int
    settled: int
    waiting: frozenset[int] = frozenset()

    def shows(self, since: int, until: int) -> bool:
        return since not in self.waiting and (until > self.end or until in self.waiting)

    def streams(self, database: Database, paths: Iterable[str]) -> dict[str, Stream]:
        rows = rows_among(
            database,
            "SELECT path, body, since, until FROM streams "
            "WHERE +since <= ? AND until > ? AND path IN (@)",
            paths,
            (self.end, self.settled),
        )
        return {
            path: _STREAM.decode(body)
            for path, body, since, until in rows
            if self.shows(since, until)
        }

    def edges(
        self, database: Database, end: str, paths: Iterable[str]
    ) -> list[tuple[str, str, str]]:
        rows = rows_among(
            database,
            "SELECT source, target, alias, since, until FROM edges "
            f"WHERE +since <= ? AND until > ? AND {end} IN (@)",
            paths,
            (self.end, self.settled),
        )
        return sorted({tuple(row[:3]) for row in rows if self.shows(*row[3:])})

    def behind(self, database: Database, paths: Iterable[str]) -> Behind:
        """Rules of access to streams and to all that is in them."""
        return rules_behind(
            paths, partial(self._lineage, database), partial(self._access, database), {}
        )

    def _lineage(self, database: Database, targets: list[str]) -> set[tuple[str, str]]:
        rows = rows_among(
            database,
            "SELECT source, target, since FROM lineage WHERE since <= ? AND target IN (@)",
            targets,
            (self.end,),
        )
        found = {(source, target) for source, target, at in rows if at not in self.waiting}
        # One that came a second time, with a change that overtook the first.
        return found | {edge[:2] for edge in self.edges(database, "target", targets)}

    def _access(self, database: Database, paths: list[str]) -> dict[str, Access]:
        """Of streams as they are here, or were when they were removed."""
        found = {path: each.access for path, each in self.streams(database, paths).items()}
        last: dict[str, tuple[int, str]] = {}
        for path, body, since in rows_among(
            database,
            "SELECT path, body, since FROM streams WHERE +since <= ? AND path IN (@)",
            [path for path in paths if path not in found],
            (self.end,),
        ):
            if since not in self.waiting:
                last[path] = max(last.get(path, (since, body)), (since, body))
        return found | {path: _STREAM.decode(body).access for path, (_, body) in last.items()}


@dataclass(frozen=True)
class _Reached:
    """The graph behind simple streams."""

    nodes: Mapping[str, Node]
    types: Mapping[str, dict[str, dict[str, str]]]
    sources: frozenset[str]

    @cached_property
    def cost(self) -> Cost:
        """Upper bound of what an update sets off here, as far as it can be told from documents."""
        return self._cost(is_plain=False)

    @cached_property
    def plain_cost(self) -> Cost:
        """The same, for one among many that are of no partition: those go in columns and pages."""
        return self._cost(is_plain=Part(self.nodes.values()).is_plain)

    def _cost(self, *, is_plain: bool) -> Cost:
        steps = size = links = 0
        for path, node in self.nodes.items():
            calculation = compiled_or_broken(node.stream, self.types[path])
            steps += calculation.work
            if node.stream.aggregate is not None and node.window is None:
                steps += calculation.lifting * MEMBERS
            values = sum(bound_of_type(each.type).weight for each in node.stream.channels.values())
            size += min(values, LARGEST_RESULT)
            links += sum(map(len, node.sources.values()))
        nodes = len(self.nodes)
        micros = PLAIN_MICROS if is_plain else NODE_MICROS
        size += nodes * (PLAIN_BYTES if is_plain else ROW_BYTES)
        micros = micros * (1 + nodes) + STEP_MICROS * min(steps, Limits().work)
        micros += LINK_MICROS * max(0, links - LINKS * nodes)
        return Cost(micros, min(size, LARGEST_ENTRY))

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
    """Schedules and plans batches; remembers what streams reach until a change touches something
    on the way."""

    def __init__(
        self,
        database: Database,
        budget: Budget | None = None,
        clock: Callable[[], float] = time.monotonic,
        caution: int = 0,
    ) -> None:
        self._database = database
        self._budget = budget
        self._clock = clock
        self._caution = caution
        self._known: dict[str, _Reached] = {}
        self._through: defaultdict[str, set[str]] = defaultdict(set)
        """For each stream those whose way leads through it."""
        self._applied = -1
        """The batch after which `_known` holds."""
        self._queue: FairQueue | None = None
        self._recorded = -1
        """The batch that the queue goes on after."""
        self._read = 0
        self._waited = False
        """The last batch left updates for after a change."""
        self._seen: dict[str, float] = {}
        self._recording = 0.0
        """Seconds that the last plan took to be recorded."""
        self._pace = Pace()
        self._is_shared = False
        """Several tenants are active."""
        self._running: tuple[float, float, bool] | None = None
        """When the batch that runs was recorded, its estimated work, and if that was all that a
        shared one could have."""
        self.seconds = {"dispatch": 0.0, "fetch": 0.0}
        """Of the last plan."""

    def record(self, batch: int) -> bool:
        """Make the plan of the batch after all stored ones durable. False: nothing waits."""
        if read_plan(self._database, batch) is not None:
            return True
        began = time.perf_counter()
        if self._running is not None and self._recorded == batch - 1:
            since, micros, was_full = self._running
            self._pace.ran(micros, self._clock() - since, was_full=was_full)
            self._running = None
        if self._recorded != batch - 1:
            self._queue = None
        queue = self._fill(batch)
        if not len(queue):
            return False
        budget = self._bounds(queue)
        # Whatever fails from here on, both are made anew from the database.
        self._queue = None
        self._forget(batch - 1)
        changes = queue.take_changes(self._cost, budget)
        self._forget_touched(-1, [item.position for item in changes])
        view = self._view({item.tenant: item.position for item in changes})
        heads, behind = queue.heads(budget.entries)
        self._look_up({item.path for item in heads} - self._known.keys(), view)
        spent = len(changes) * CHANGE_MICROS
        left = budget._replace(micros=max(budget.micros / 2, budget.micros - spent))
        # One change is waited for, so that updates of others keep their place beside it; not one
        # after the other, or a tenant that changes its documents for ever would hold up all; nor
        # one with more before it than fits into this batch.
        near = [
            change.position
            for change, ahead in behind
            if sum(self._cost(item).micros for item in ahead) <= left.micros
        ]
        before = None if self._waited else min(near, default=None)
        updates = queue.take_updates(self._cost, left, before)
        self._waited = before is not None
        items = sorted([*changes, *updates])
        first = queue.first
        plan = Plan(
            self._read,
            self._read if first is None else first - 1,
            _runs(item.position for item in items),
            {item.tenant: item.position for item in items},
        )
        with self._database.transaction() as work:
            work.run(
                "INSERT INTO plans (batch, body) VALUES (?, ?)",
                (batch, msgspec.json.encode(plan).decode()),
            )
        self._queue, self._recorded, self._applied = queue, batch, batch
        self._recording = time.perf_counter() - began
        micros = spent + queue.taken_micros
        was_full = self._is_shared and micros > left.micros / 2
        self._running = (self._clock(), micros, was_full)
        return True

    def plan(self, batch: int) -> list[Bundle]:
        """The updates of a recorded batch, with all that they need."""
        began = time.perf_counter()
        plan = read_plan(self._database, batch)
        if plan is None:
            raise StoreCorruptError(f"plans: batch {batch} is not recorded; start the server again")
        self.seconds = dict.fromkeys(self.seconds, 0.0)
        found = read_runs(self._database, plan.runs)
        entries = [entry for entry in found if entry.kind == "update"]
        changes = [entry for entry in found if entry.kind == "change"]
        self._forget(batch)
        if not entries:
            return []
        paths = list(dict.fromkeys(entry.path for entry in entries))
        missing = [path for path in paths if path not in self._known]
        self._look_up(missing, self._view(plan.cursors, plan.end))
        reached = {path: self._known[path] for path in paths}
        groups = parts([path, *reached[path].nodes] for path in paths)
        home = {path: number for number, group in enumerate(groups) for path in group}
        gathered: list[list[Entry]] = [[] for _ in groups]
        for entry in entries:
            gathered[home[entry.path]].append(entry)
        dispatched = time.perf_counter()
        changed = {e.position: msgspec.json.decode(e.body, type=Change) for e in changes}
        fetched = _Fetched(self._database, paths, reached.values(), changed)
        bundles = [
            fetched.bundle(some, [reached[path] for path in group if path in reached])
            for some, group in zip(gathered, groups, strict=True)
        ]
        self.seconds = {
            "dispatch": self._recording + dispatched - began,
            "fetch": time.perf_counter() - dispatched,
        }
        return bundles

    def _bounds(self, queue: FairQueue) -> Budget:
        share = CAUTIOUS_SHARE**self._caution
        whole = self._whole_bounds(queue)
        return Budget(
            whole.micros * share, int(whole.size * share), max(1, int(whole.entries * share))
        )

    def _whole_bounds(self, queue: FairQueue) -> Budget:
        if self._budget is not None:
            return self._budget
        since = self._clock() - RECENT_S
        self._seen = {tenant: at for tenant, at in self._seen.items() if at >= since}
        active = self._seen.keys() | queue.tenants
        self._is_shared = len(active) > 1
        if not self._is_shared:
            return ALONE
        return SHARED._replace(micros=SHARED.micros * self._pace.share)

    def _cost(self, item: Item) -> Cost:
        if item.is_change:
            return Cost(CHANGE_MICROS, item.size)
        reached = self._known.get(item.path)
        if reached is None:
            cost = Cost(NODE_MICROS, 0)
        else:
            cost = reached.cost if item.has_key else reached.plain_cost
        return Cost(cost.micros, cost.size + item.size + ROW_BYTES)

    def _fill(self, batch: int) -> FairQueue:
        """The queue with all that is in the log; after a start, without what is settled."""
        database = self._database
        cursors: dict[str, int] = {}
        queue = self._queue
        if queue is None:
            queue = FairQueue()
            self._read, cursors = _settled(database), _cursors(database)
            self._recorded = batch - 1
        now = self._clock()
        while True:
            rows = database.rows(
                "SELECT position, path, kind, length(body), partition_key FROM log "
                "WHERE position > ? "
                "ORDER BY position LIMIT ?",
                (self._read, MOST_READ),
            )
            tenants = {path: owner_of(path) for path in {row[1] for row in rows}}
            self._seen |= dict.fromkeys(tenants.values(), now)
            queue.add(
                [
                    Item(position, tenants[path], path, kind == "change", size, bool(key))
                    for position, path, kind, size, key in rows
                    if position > cursors.get(tenants[path], 0)
                ]
            )
            if not rows:
                break
            self._read = int(rows[-1][0])
        self._queue = queue
        return queue

    def _view(self, cursors: Mapping[str, int], end: int | None = None) -> _View:
        """The graph after all stored batches and one that goes up to these cursors."""
        database = self._database
        end = self._read if end is None else end
        settled = _settled(database)
        done = {**_cursors(database), **cursors}
        waiting = [
            int(position)
            for position, path in database.rows(
                "SELECT position, path FROM log "
                "WHERE kind = 'change' AND position > ? AND position <= ?",
                (settled, end),
            )
            if position > done.get(owner_of(path), 0)
        ]
        return _View(end, settled, frozenset(waiting))

    def _forget(self, batch: int) -> None:
        """Everything, unless it is known as it is after this batch."""
        if len(self._known) > MOST_CACHED or self._applied != batch:
            self._known.clear()
            self._through.clear()
            self._applied = batch

    def _forget_touched(self, batch: int, changes: Sequence[int]) -> None:
        for path in _touched(self._database, changes) if self._known else ():
            for start in self._through.pop(path, ()):
                self._known.pop(start, None)
        self._applied = batch

    def _look_up(self, wanted: Iterable[str], view: _View) -> None:
        """Dispatch: who takes the streams, and who takes those."""
        paths = sorted(wanted)
        if not paths:
            return
        database = self._database
        streams = view.streams(database, paths)
        following: dict[str, set[str]] = {}
        front = sorted(streams)
        while front:
            edges = view.edges(database, "source", front)
            new = sorted({target for _, target, _ in edges} - set(streams))
            streams |= view.streams(database, new)
            for source in front:
                following[source] = set()
            for source, target, _ in edges:
                if target in streams and _may(streams, source, target):
                    following[source].add(target)
            front = sorted({t for source in front for t in following[source]} - set(following))
        targets = {target for some in following.values() for target in some}
        edges = view.edges(database, "target", targets)
        missing = {source for source, _, _ in edges} - set(streams)
        streams |= view.streams(database, missing)
        behind = view.behind(database, {source for source, _, _ in edges})
        inputs: defaultdict[str, set[str]] = defaultdict(set, behind.sources)
        for source, target, _ in edges:
            inputs[target].add(source)
        taken = [e for e in edges if not refusing(behind.rules[e[0]], owner_of(e[1]))]
        pairs = {(source, target) for source, target, _ in taken}
        following = {
            source: {target for target in some if (source, target) in pairs}
            for source, some in following.items()
        }
        whole = _reached(targets, taken, streams)
        for path in paths:
            self._remember(path, whole.behind(path, following), inputs)

    def _remember(self, path: str, reached: _Reached, inputs: Mapping[str, set[str]]) -> None:
        """Until one of the streams changes that it reaches, or that has a say in who may read."""
        self._known[path] = reached
        concerned = {path, *reached.nodes}
        front = list(concerned)
        while front:
            more = inputs.get(front.pop(), set()) - concerned
            concerned |= more
            front += more
        for each in concerned:
            self._through[each].add(path)


class _Fetched:
    """What was stored of all streams that a batch may ask for, read at once."""

    def __init__(
        self,
        database: Database,
        paths: Iterable[str],
        reached: Iterable[_Reached],
        changes: Mapping[int, Change],
    ) -> None:
        """`changes`: those of the batch, by position."""
        self._database = database
        # Stored before changes of the same batch, which take it away.
        made = changes.values()
        gone = {path for change in made for path in (*change.removed, *change.cleared)}
        self._anew = {path for change in made for path in (*change.removed, *change.restarted)}
        nodes = {path for each in reached for path in each.nodes}
        wanted = {*paths, *nodes, *(source for each in reached for source in each.sources)}
        self._latest: defaultdict[str, list[Update]] = defaultdict(list)
        for path, body in rows_among(
            database, "SELECT path, body FROM latest WHERE path IN (@)", wanted - gone
        ):
            self._latest[path].append(_UPDATE.decode(body))
        self._numbers: dict[str, int] = dict(
            rows_among(database, "SELECT path, following FROM numbers WHERE path IN (@)", nodes)
        )
        for position, change in sorted(changes.items()):
            again = [path for path in change.removed if path in nodes]
            self._numbers |= following_numbers(database, again, position)
        self._lags: defaultdict[str, list[tuple[str, str, Lag]]] = defaultdict(list)
        for path, source, body in rows_among(
            database, "SELECT path, source, body FROM lags WHERE path IN (@)", nodes - gone
        ):
            self._lags[path].append((path, source, _LAG.decode(body)))

    def bundle(self, entries: list[Entry], reached: Sequence[_Reached]) -> Bundle:
        nodes = {path: node for each in reached for path, node in each.nodes.items()}
        types = {path: kinds for each in reached for path, kinds in each.types.items()}
        sources = frozenset().union(*(each.sources for each in reached))
        wanted = sorted({*(entry.path for entry in entries), *nodes, *sources})
        pages = _pages(entries)
        return Bundle(
            [] if pages else _updates(entries),
            list(nodes.values()),
            types,
            [update for path in wanted for update in self._latest.get(path, ())],
            self._windows(nodes.values(), entries),
            {path: int(self._numbers[path]) for path in nodes if path in self._numbers},
            [lag for path in nodes for lag in self._lags.get(path, ())],
            pages,
        )

    def _windows(self, nodes: Iterable[Node], entries: Sequence[Entry]) -> list[SavedWindow]:
        """Those of the partitions that there are updates of; where a stream on the way groups them
        anew, of all."""
        nodes = list(nodes)
        windowed = [
            node.path for node in nodes if node.window is not None and node.path not in self._anew
        ]
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
        if source in streams:
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


def _pages(entries: Sequence[Entry]) -> list[Page]:
    """Entries of no partition, many of them for each stream; else nothing."""
    if len(entries) < SHORTEST_PAGE or any(entry.key for entry in entries):
        return []
    streams: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        streams[entry.path].append(entry)
    pages: list[Page] = []
    for path, mine in streams.items():
        bodies = msgspec.json.decode("[" + ",".join([entry.body for entry in mine]) + "]")
        names = list(bodies[0])
        if len({tuple(body) for body in bodies}) > 1:
            return []
        positions, _, _, numbers, timestamps, _, _ = zip(*mine, strict=True)
        pages.append(
            Page(
                path,
                len(mine),
                packed(list(numbers)),
                packed(list(positions)),
                packed(list(timestamps)),
                {name: [body[name] for body in bodies] for name in names},
                {},
                (owner_of(path),),
            )
        )
    return pages


def _updates(entries: Sequence[Entry]) -> list[Update]:
    bodies = msgspec.json.decode("[" + ",".join([entry.body for entry in entries]) + "]")
    owners = {path: (owner_of(path),) for path in {entry.path for entry in entries}}
    return [
        Update(path, number, timestamp, position, values, key, {}, owners[path])
        for (position, _, path, number, timestamp, key, _), values in zip(
            entries, bodies, strict=True
        )
    ]


def _runs(positions: Iterable[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for at in positions:
        if runs and runs[-1][1] == at - 1:
            runs[-1] = (runs[-1][0], at)
        else:
            runs.append((at, at))
    return runs


def _settled(database: Database) -> int:
    return int(database.rows("SELECT position FROM progress WHERE name = 'engine'")[0][0])


def _cursors(database: Database) -> dict[str, int]:
    rows: list[Any] = database.rows("SELECT tenant, position FROM cursors")
    return {tenant: int(position) for tenant, position in rows}


def _touched(database: Database, changes: Sequence[int]) -> set[str]:
    """Streams that these changes were about, and both ends of such edges."""
    found: set[str] = set()
    for column in ("since", "until"):
        for columns, table in (("path", "streams"), ("source, target", "edges")):
            statement = f"SELECT {columns} FROM {table} WHERE {column} IN (@)"
            for ends in rows_among(database, statement, changes):
                found.update(ends)
    return found
