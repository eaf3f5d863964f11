"""Settlement of one update: all that is derived from it, before the next one.

A stream is calculated when one of its inputs brought something newer than its own last result, with
the last values of all others; its result bears the newest time among its inputs. So each stream is
calculated once for a diamond, and a cycle comes to rest (digest §3.1). Streams run in the order of
the graph, so that a diamond sees only new values; inside a cycle, by the hops from where it was
entered, then by name. What comes out depends on the log and the documents alone: not on batches,
and not on what else is settled beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from holdfast.errors import HoldfastError
from holdfast.tenants.machine.documents import LARGEST_WINDOW, Aggregate, Stream
from holdfast.tenants.machine.graph import components
from holdfast.tenants.machine.updates import Failure, Update, fits, weight
from holdfast.tenants.machine.windows import NotBroughtError, Window, composed

LONGEST_KEY: Final = 128
WORK_OF_OTHERS: Final = 200_000
LARGEST_RESULT: Final = 262_144
"""Bytes, about: as much as can be published at once."""
PLAIN_TYPES: Final = frozenset({"number", "integer", "boolean"})
WINDOW: Final = "window"
"""What expressions call the record of an aggregate."""


class ExpressionError(HoldfastError):
    """An expression failed on these values."""


class Calculation(Protocol):
    """The expressions of one stream. Each may raise `ExpressionError`."""

    @property
    def work(self) -> int:
        """The steps that a result takes at most."""

    @property
    def lifting(self) -> int:
        """The steps that it takes to read one update into an aggregate."""

    def passes(self, scope: Mapping[str, Any]) -> bool: ...
    def key(self, scope: Mapping[str, Any]) -> str: ...
    def lift(self, name: str, scope: Mapping[str, Any]) -> Any: ...
    def values(self, scope: Mapping[str, Any]) -> dict[str, Any]: ...
    def calls(self, scope: Mapping[str, Any]) -> Sequence[str]: ...
    def columns(
        self, inputs: Mapping[str, Mapping[str, list[Any]]], count: int
    ) -> dict[str, list[Any]]:
        """The values of many results, by the channels of the inputs; raises if any fails."""


class Node(msgspec.Struct, frozen=True):
    """A composite stream with its inputs resolved."""

    path: str
    stream: Stream
    sources: dict[str, tuple[str, ...]]
    """For each input the streams behind it: one, or the members of a query."""

    @property
    def owner(self) -> str:
        return self.path.partition("/")[0]

    @property
    def window(self) -> Aggregate | None:
        """If it has one."""
        aggregate = self.stream.aggregate
        return None if aggregate is None or aggregate.over != "window" else aggregate


@dataclass(frozen=True)
class Limits:
    runs: int = 100
    """So often one stream is calculated for one update, at most."""
    partitions: int = 1000
    """Of one stream."""
    work: int = 4_000_000
    """Steps that the streams of one tenant may take for an update of its own. These are counted by
    what expressions can cost at most, not by a clock: a replay comes to the same end."""
    work_of_others: int = WORK_OF_OTHERS
    """The same, for an update of somebody else."""


class Lag(msgspec.Struct, frozen=True):
    """An input whose updates come to nothing, because its clock is behind the others'."""

    count: int
    behind: int
    """Microseconds, at the last of them."""
    position: int
    """Of the first one."""


class Call(NamedTuple):
    """An action that an update set off."""

    update: Update
    action: str


@dataclass
class World:
    """The last updates, as far as somebody here may ask for them; changes as updates settle."""

    latest: dict[str, dict[str, Update]] = field(default_factory=dict)
    newest: dict[str, Update] = field(default_factory=dict)
    windows: dict[tuple[str, str], Window] = field(default_factory=dict)
    """Of a stream, by the partition whose updates are in it; empty: of all partitions."""
    closed: dict[tuple[str, str], Callable[[], Window]] = field(default_factory=dict)
    """Windows that are there and have not been asked for yet."""
    offsets: dict[str, int] = field(default_factory=dict)
    """The next one of each composite stream."""
    lags: dict[tuple[str, str], Lag] = field(default_factory=dict)

    def know(self, update: Update) -> None:
        """An update that is stored, or has just been made."""
        self.latest.setdefault(update.stream, {})[update.key] = update
        newest = self.newest.get(update.stream)
        if newest is None or newest.offset <= update.offset:
            self.newest[update.stream] = update

    def window(self, stream: str, scope: str) -> Window | None:
        at = stream, scope
        if at in self.closed:
            self.windows[at] = self.closed.pop(at)()
        return self.windows.get(at)

    def last(self, stream: str, key: str) -> Update | None:
        return self.latest.get(stream, {}).get(key)

    def seen(self, stream: str, key: str) -> Update | None:
        """What a calculation about this partition sees of a stream."""
        if not key:
            return self.newest.get(stream)
        return self.last(stream, key) or self.last(stream, "")


class _Edge(NamedTuple):
    target: str
    member: str
    """The source again if it is a member of a query: each member is calculated for itself."""
    source: str


class _Shape:
    """What is the same for all results of a stream."""

    __slots__ = ("names", "needed", "owner", "plain", "types")

    def __init__(self, node: Node) -> None:
        self.owner = node.owner
        self.plain: dict[str, str] | None = None
        """For each input its stream, where each has exactly one."""
        if all(
            len(sources) == 1 and node.stream.inputs[alias].query is None
            for alias, sources in node.sources.items()
        ):
            self.plain = {alias: sources[0] for alias, sources in node.sources.items()}
        self.needed = {alias for alias in node.sources if _is_needed(node, alias)}
        self.types = {name: str(each.type) for name, each in node.stream.channels.items()}
        self.names = {
            alias: tuple(f"{alias}.{name}" for name in ("_present", "_time", "_key", "_stream"))
            for alias in node.sources
        }

    def scope(self, seen: Mapping[str, Update | None]) -> dict[str, Any]:
        """The variables of the expressions: channels, and what begins with an underscore."""
        scope: dict[str, Any] = {}
        for alias, update in seen.items():
            present, at, key, stream = self.names[alias]
            scope[present] = update is not None
            if update is not None:
                scope[at] = update.timestamp
                scope[key] = update.key
                scope[stream] = update.stream
                for name, value in update.values.items():
                    scope[f"{alias}.{name}"] = value
        return scope


class Part:
    """Streams and how they hang together; the same for many updates."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = {node.path: node for node in sorted(nodes, key=lambda node: node.path)}
        self.shapes = {path: _Shape(node) for path, node in self.nodes.items()}
        self.edges: dict[str, list[_Edge]] = {}
        self.watched: dict[str, list[Node]] = {}
        """For each stream those that have a window over it."""
        for node in self.nodes.values():
            if node.window is not None:
                for source in node.sources[node.window.input]:
                    self.watched.setdefault(source, []).append(node)
            for alias, sources in node.sources.items():
                of_query = node.stream.inputs[alias].query is not None
                for source in sources:
                    if source != node.path:
                        edge = _Edge(node.path, source if of_query else "", source)
                        self.edges.setdefault(source, []).append(edge)
        following = {
            source: [edge.target for edge in edges] for source, edges in self.edges.items()
        }
        names = sorted({*self.nodes, *following})
        self.rank = {
            name: number
            for number, cycle in enumerate(components(names, following))
            for name in cycle
        }
        self.is_plain = len(set(self.rank.values())) == len(self.rank) and all(
            map(_is_plain, self.nodes.values())
        )
        """Many updates can be settled at once (`columns`)."""


@dataclass
class Settled:
    """What came of one log entry, in the order in which it came."""

    updates: list[Update] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    lags: dict[tuple[str, str], Lag | None] = field(default_factory=dict)
    """Changed ones; None: it has caught up."""
    late: bool = False
    runs: int = 0
    discarded: int = 0
    work: int = 0
    """Steps of streams that belong to the owner of the update."""


Unit = tuple[str, str, str]
"""What is to be calculated: a stream, for a partition, for a member of a query or ``."""


@dataclass
class _Due:
    hops: int
    asked: int
    """The newest time that asks for it."""
    sources: set[str]


def settle(
    update: Update,
    part: Part,
    world: World,
    calculations: Mapping[str, Calculation],
    limits: Limits = Limits(),  # noqa: B008
) -> Settled:
    """All that comes of an update of a simple stream; `world` then knows it."""
    before = world.last(update.stream, update.key)
    if before is not None and update.timestamp <= before.timestamp:
        return Settled(late=True)
    if before is None and len(world.latest.get(update.stream, ())) >= limits.partitions:
        message = (
            f"key: the stream has {limits.partitions} partitions, and may have no more; "
            "use fewer keys, or another stream"
        )
        failure = Failure(
            update.stream, update.position, 0, update.timestamp, "partitions", message
        )
        return Settled(late=True, failures=[failure])
    return _Settlement(part, world, calculations, limits, update).run()


class _Settlement:
    def __init__(
        self,
        part: Part,
        world: World,
        calculations: Mapping[str, Calculation],
        limits: Limits,
        update: Update,
    ) -> None:
        self._part = part
        self._world = world
        self._calculations = calculations
        self._limits = limits
        self._update = update
        self._position = update.position
        self._owner = update.stream.partition("/")[0]
        self._spent: dict[str, int] = {}
        """Steps, by the owner of the streams."""
        self._due: dict[Unit, _Due] = {}
        self._queue: list[tuple[int, int, Unit]] = []
        self._runs: dict[str, int] = {}
        self._failed: dict[str, int] = {}
        self._entering: dict[str, list[Update]] = {}
        """For each stream with a window, what has come and is not in it yet."""
        self._unread: set[tuple[str, str]] = set()
        """What kept an update out of a window: a stream, and the message about it."""
        self._settled = Settled()

    def run(self) -> Settled:
        self._accept(self._update)
        self._ask(self._update, 0)
        while self._queue:
            _, hops, unit = heappop(self._queue)
            due = self._due.get(unit)
            if due is None or due.hops != hops:
                continue
            del self._due[unit]
            self._run(unit, due)
        for path in sorted(self._entering):
            self._enter(self._part.nodes[path])
        self._settled.work = self._spent.get(self._owner, 0)
        return self._settled

    def _accept(self, update: Update) -> None:
        self._world.know(update)
        for node in self._part.watched.get(update.stream, ()):
            self._entering.setdefault(node.path, []).append(update)

    def _enter(self, node: Node) -> None:
        """Into the window of its partition, and into that of all. Those of one log entry enter in
        the order of their names: the order in which they were made may depend on the batch."""
        if node.stream.group is not None:
            # Only a calculation can tell their partition.
            return
        for update in sorted(
            self._entering.pop(node.path, ()), key=lambda each: (each.stream, each.offset)
        ):
            self._insert(node, dict.fromkeys((update.key, "")), update)

    def _insert(self, node: Node, scopes: Iterable[str], update: Update) -> None:
        aggregate, calculation = node.window, self._calculations[node.path]
        assert aggregate is not None
        variables = self._part.shapes[node.path].scope({aggregate.input: update})
        try:
            values = [calculation.lift(name, variables) for name in aggregate.fields]
            for scope in scopes:
                self._insert_values(node.path, scope, aggregate, update.timestamp, values)
        except NotBroughtError:
            raise
        except Exception as error:
            kind = "expression" if isinstance(error, ExpressionError) else "aggregate"
            if (node.path, str(error)) not in self._unread:
                self._unread.add((node.path, str(error)))
                self._fail(node.path, update.timestamp, kind, str(error))

    def _insert_values(
        self, path: str, scope: str, aggregate: Aggregate, timestamp: int, values: Sequence[Any]
    ) -> None:
        window = self._world.window(path, scope)
        if window is None:
            window = self._world.windows[path, scope] = Window(aggregate)
        if not window.insert(timestamp, values):
            raise ExpressionError(
                f"aggregate: more than {LARGEST_WINDOW:,} updates ought to be in it, and the "
                "oldest have left; give a smaller size"
            )

    def _ask(self, update: Update, hops: int) -> None:
        """Those who take this stream are to be calculated."""
        rank = self._part.rank
        for edge in self._part.edges.get(update.stream, ()):
            inside = rank[edge.target] == rank[edge.source]
            unit = (edge.target, update.key, edge.member)
            due = self._due.get(unit)
            if due is None:
                due = self._due[unit] = _Due(hops if inside else 0, update.timestamp, set())
                heappush(self._queue, (rank[edge.target], due.hops, unit))
            elif (inside and hops < due.hops) or (not inside and due.hops):
                due.hops = hops if inside else 0
                heappush(self._queue, (rank[edge.target], due.hops, unit))
            due.asked = max(due.asked, update.timestamp)
            due.sources.add(update.stream)

    def _run(self, unit: Unit, due: _Due) -> None:
        path = unit[0]
        runs = self._runs[path] = self._runs.get(path, 0) + 1
        if runs > self._limits.runs:
            if runs == self._limits.runs + 1:
                self._fail(
                    path,
                    due.asked,
                    "runaway",
                    f"was calculated {self._limits.runs} times for one update and is let be; "
                    "break its cycle",
                )
            return
        self._settled.runs += 1
        node = self._part.nodes[path]
        if path in self._entering:
            self._enter(node)
        try:
            made = self._calculate(node, unit, due)
        except NotBroughtError:
            raise
        except ExpressionError as error:
            if (path, str(error)) not in self._unread:
                self._fail(path, due.asked, "expression", str(error))
            return
        except Exception as error:
            # Whatever a tenant's values do to an aggregate, it is that stream alone which fails.
            self._fail(path, due.asked, "aggregate", str(error) or type(error).__name__)
            return
        if made is not None:
            self._world.offsets[path] = made.offset + 1
            self._accept(made)
            self._settled.updates.append(made)
            self._ask(made, due.hops + 1)

    def _spend(self, owner: str, work: int) -> None:
        """Nobody holds up all others with what one update sets off."""
        limits = self._limits
        most = limits.work if owner == self._owner else limits.work_of_others
        spent = self._spent.get(owner, 0) + work
        if spent > most:
            raise ExpressionError(
                f"work: streams of {owner} would take more than {most:,} steps for one update of "
                f"{self._owner}; use fewer streams here, or simpler expressions"
            )
        self._spent[owner] = spent

    def _calculate(self, node: Node, unit: Unit, due: _Due) -> Update | None:
        path, key, member = unit
        stream, calculation = node.stream, self._calculations[node.path]
        if stream.group is None and self._is_old(path, key, due):
            return None
        shape = self._part.shapes[path]
        if shape.plain is not None:
            see = self._world.seen
            seen = {alias: see(source, key) for alias, source in shape.plain.items()}
        else:
            seen = {alias: self._see(node, alias, key, member) for alias in node.sources}
        present = [each for each in seen.values() if each is not None]
        if len(present) < len(seen) and any(seen[alias] is None for alias in shape.needed):
            return None
        self._spend(shape.owner, calculation.work)
        scope = shape.scope(seen)
        if stream.group is not None:
            key = calculation.key(scope)
            self._check_partition(path, key)
            self._enter_group(node, key, seen)
            if self._is_old(path, key, due):
                return None
        timestamp = due.asked
        for each in present:
            if each.timestamp > timestamp:
                timestamp = each.timestamp
        if stream.aggregate is not None:
            record = self._aggregate(node, key, timestamp, calculation)
            scope.update((f"{WINDOW}.{name}", value) for name, value in record.items())
        if not calculation.passes(scope):
            return None
        values = calculation.values(scope)
        size = 0
        for name, kind in shape.types.items():
            if not fits(values[name], kind):
                raise ExpressionError(
                    f"channels.{name}: the result is no {kind} that can be stored "
                    "(not finite, or too long); limit it"
                )
            size += weight(values[name])
        if size > LARGEST_RESULT:
            raise ExpressionError(
                f"channels: the result has {size:,} bytes, of {LARGEST_RESULT:,} at most; "
                "put less together"
            )
        self._spend(shape.owner, size // 8)
        made = Update(
            path,
            self._world.offsets.get(path, 0),
            timestamp,
            self._position,
            values,
            key,
            {alias: (each.stream, each.offset) for alias, each in seen.items() if each is not None},
            owners_of(shape.owner, [(each.stream, each.owners) for each in present]),
        )
        if stream.actions:
            self._settled.calls += [Call(made, action) for action in calculation.calls(scope)]
        return made

    def _see(self, node: Node, alias: str, key: str, member: str) -> Update | None:
        sources = node.sources[alias]
        if member in sources and node.stream.inputs[alias].query is not None:
            return self._world.seen(member, key)
        found = [self._world.seen(source, key) for source in sources]
        present = [each for each in found if each is not None]
        return max(present, key=lambda each: (each.timestamp, each.stream), default=None)

    def _is_old(self, path: str, key: str, due: _Due) -> bool:
        """Nothing is newer than the last result; noted if that was made of another update."""
        before = self._world.last(path, key)
        if before is None or due.asked > before.timestamp:
            for source in due.sources:
                if self._world.lags.pop((path, source), None) is not None:
                    self._settled.lags[path, source] = None
            return False
        self._settled.discarded += 1
        if before.position != self._position:
            for source in sorted(due.sources):
                old = self._world.lags.get((path, source))
                lag = Lag(
                    1 if old is None else old.count + 1,
                    before.timestamp - due.asked,
                    self._position if old is None else old.position,
                )
                self._world.lags[path, source] = self._settled.lags[path, source] = lag
        return True

    def _check_partition(self, path: str, key: str) -> None:
        if not fits(key, "string") or len(key) > LONGEST_KEY:
            raise ExpressionError(f"group: is no string of up to {LONGEST_KEY} characters")
        known = self._world.latest.get(path, {})
        if key not in known and len(known) >= self._limits.partitions:
            raise ExpressionError(
                f"group: the stream has {self._limits.partitions} partitions, and may have no "
                "more; group by something with fewer values"
            )

    def _enter_group(self, node: Node, key: str, seen: Mapping[str, Update | None]) -> None:
        """What set this calculation off enters the window of the group that it belongs to."""
        waiting = self._entering.get(node.path, [])
        update = None if node.window is None else seen[node.window.input]
        if update is not None and update in waiting:
            waiting.remove(update)
            self._insert(node, [key], update)

    def _aggregate(
        self, node: Node, key: str, timestamp: int, calculation: Calculation
    ) -> dict[str, Any]:
        aggregate = node.stream.aggregate
        assert aggregate is not None
        if aggregate.over == "window":
            window = self._world.window(node.path, key)
            if window is None and node.stream.group is None:
                # The input is not divided as the result is: all of it counts.
                window = self._world.window(node.path, "")
            return (Window(aggregate) if window is None else window).record(timestamp)
        found = [
            each
            for source in node.sources[aggregate.input]
            for each in self._world.latest.get(source, {}).values()
        ]
        found.sort(key=lambda each: (each.stream, each.key))
        shape = self._part.shapes[node.path]
        self._spend(shape.owner, len(found) * calculation.lifting)
        return composed(
            found,
            aggregate,
            timestamp,
            lambda name, each: calculation.lift(name, shape.scope({aggregate.input: each})),
        )

    def _fail(self, path: str, timestamp: int, kind: str, message: str) -> None:
        number = self._failed.get(path, 0)
        self._failed[path] = number + 1
        self._settled.failures.append(
            Failure(path, self._position, number, timestamp, kind, message[:1000])
        )


def _is_needed(node: Node, alias: str) -> bool:
    return not node.stream.inputs[alias].optional and node.sources[alias] != (node.path,)


def _is_plain(node: Node) -> bool:
    """Without a state but the last result, and with values that all weigh the same."""
    stream = node.stream
    return (
        stream.group is None
        and stream.aggregate is None
        and stream.filter is None
        and not stream.actions
        and all(str(channel.type) in PLAIN_TYPES for channel in stream.channels.values())
        and not {"latitude", "longitude"} <= stream.channels.keys()
        and bool(node.sources)
        and all(
            len(sources) == 1 and sources[0] != node.path and stream.inputs[alias].query is None
            for alias, sources in node.sources.items()
        )
    )


def owners_of(owner: str, inputs: Sequence[tuple[str, tuple[str, ...]]]) -> tuple[str, ...]:
    """Of a result, by the streams and owners of what it is made of."""
    alone = (owner,)
    if all(owners == alone for _, owners in inputs):
        return alone
    named = {owner}
    for stream, owners in inputs:
        named.update(owners or (stream.partition("/")[0],))
    return tuple(sorted(named))
