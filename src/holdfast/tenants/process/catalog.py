"""Documents of all tenants: put, changed and deleted while updates flow.

A change is an entry of the log. It is checked and written in one transaction, and takes effect for
the updates that come after it in the log, whenever those are calculated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from holdfast.errors import NotFoundError, QuotaError
from holdfast.tenants.machine.definitions import (
    admits,
    channel_types,
    fits_query,
    owner_of,
    resolved,
)
from holdfast.tenants.machine.documents import (
    DocumentError,
    Input,
    Query,
    ServiceObject,
    Stream,
)
from holdfast.tenants.machine.graph import depths
from holdfast.tenants.machine.provenance import Rules, refusing
from holdfast.tenants.machine.settling import WORK_OF_OTHERS
from holdfast.tenants.process.backlog import Quotas
from holdfast.tenants.process.expressions import Types, compile_stream
from holdfast.tenants.process.graph import (
    Edge,
    around,
    edges_by_source,
    edges_from,
    edges_into,
    narrowest_tag,
    streams_at,
)
from holdfast.tenants.process.log import Log
from holdfast.tenants.process.provenance import Provenance, refusal, stored_rules
from holdfast.tenants.process.store.database import FOREVER, Database, Work

MOST_AROUND: Final = 20_000
"""Streams that hang together, upstream or downstream of one."""
MOST_LOOKED: Final = 100_000
"""Streams that all queries of one document look at."""
MOST_LINEAGE: Final = 5_000
"""Different streams that one stream was ever made of."""


class Change(msgspec.Struct, frozen=True):
    """What a change of a document does to updates; the body of its log entry."""

    removed: list[str] = []
    """Also those that were published to and are calculated now, or the other way round."""
    cleared: list[str] = []
    """Whose channels are others now, so that their last updates mean nothing any more."""
    restarted: list[str] = []
    """Whose window begins anew: it is another, or what it is over."""


class Stored(NamedTuple):
    document: ServiceObject
    version: int


class Catalog:
    def __init__(self, database: Database, log: Log, provenance: Provenance | None = None) -> None:
        self._database = database
        self._log = log
        self._provenance = Provenance(database) if provenance is None else provenance

    def get(self, tenant: str, name: str) -> Stored:
        found = self._current(self._database, tenant, name)
        if found is None:
            raise NotFoundError(f"object: there is no {name!r} of yours")
        return found

    def names(self, tenant: str) -> list[tuple[str, int]]:
        rows = self._database.rows(
            "SELECT name, version FROM objects WHERE tenant = ? AND until = ? ORDER BY name",
            (tenant, FOREVER),
        )
        return [(name, int(version)) for name, version in rows]

    def put(self, tenant: str, name: str, document: ServiceObject, quotas: Quotas) -> int:
        """Answers its version. The same document again changes nothing."""
        streams = resolved(tenant, name, document)
        # Expressions are compiled before the log is held up for anybody else.
        compiled = self._types(self._database, tenant, name, streams, quotas)
        _compile(streams, compiled)
        with self._log.turn():
            with self._database.transaction() as work:
                before = self._current(work, tenant, name)
                if before is not None and before.document == document:
                    return before.version
                types = self._types(work, tenant, name, streams, quotas)
                # An input may have changed meanwhile.
                _compile(streams, {p: t for p, t in types.items() if compiled.get(p) != t})
                position, version = self._put(work, tenant, name, document, streams, quotas)
            self._log.moved(position, changed=True)
        return version

    def _put(
        self,
        work: Work,
        tenant: str,
        name: str,
        document: ServiceObject,
        streams: Mapping[str, Stream],
        quotas: Quotas,
    ) -> tuple[int, int]:
        old = self._streams(work, tenant, name)
        _check_count(work, tenant, quotas, len(streams) - len(old))
        changed = {path: stream for path, stream in streams.items() if old.get(path) != stream}
        taken = _TakenByOthers(work, old, changed)
        position = self._write(work, tenant, name, old, streams)
        version = self._replace(work, tenant, name, position, document)
        self._connect(work, changed, position, quotas)
        taken.note_refused(position)
        taken.offer(position, quotas)
        _check_depth(work, tenant, changed, quotas)
        return position, version

    def delete(self, tenant: str, name: str) -> None:
        with self._log.turn():
            with self._database.transaction() as work:
                before = self._current(work, tenant, name)
                if before is None:
                    raise NotFoundError(f"object: there is no {name!r} of yours")
                old = self._streams(work, tenant, name)
                position = self._write(work, tenant, name, old, {})
                self._replace(work, tenant, name, position, None)
            self._log.moved(position, changed=True)

    def _current(self, work: Database | Work, tenant: str, name: str) -> Stored | None:
        rows = work.rows(
            "SELECT body, version FROM objects WHERE tenant = ? AND name = ? AND until = ?",
            (tenant, name, FOREVER),
        )
        if not rows:
            return None
        return Stored(msgspec.json.decode(rows[0][0], type=ServiceObject), int(rows[0][1]))

    def _streams(self, work: Database | Work, tenant: str, name: str) -> dict[str, Stream]:
        before = self._current(work, tenant, name)
        if before is None:
            return {}
        return streams_at(work, [f"{tenant}/{name}/{each}" for each in before.document.streams])

    def _types(
        self,
        work: Database | Work,
        tenant: str,
        name: str,
        streams: Mapping[str, Stream],
        quotas: Quotas,
    ) -> dict[str, Types]:
        """For each stream that changes and is calculated, the types of its inputs; raises if it may
        not read one."""
        old = self._streams(work, tenant, name)
        changed = {path: stream for path, stream in streams.items() if old.get(path) != stream}
        wanted = {
            each.stream
            for stream in changed.values()
            for each in stream.inputs.values()
            if each.stream is not None and each.stream not in streams
        }
        known = {**streams_at(work, wanted), **streams}
        rules = self._provenance.rules(wanted & known.keys())
        found: dict[str, Types] = {}
        for path, stream in changed.items():
            place = f"streams.{path.rpartition('/')[2]}"
            if len(stream.inputs) > quotas.inputs:
                raise QuotaError(f"{place}.inputs: has {len(stream.inputs)} of {quotas.inputs}")
            if stream.is_composite:
                found[path] = {
                    alias: _types_of(f"{place}.inputs.{alias}", each, known, tenant, rules)
                    for alias, each in stream.inputs.items()
                }
        return found

    def _write(
        self,
        work: Work,
        tenant: str,
        name: str,
        old: Mapping[str, Stream],
        new: Mapping[str, Stream],
    ) -> int:
        """The log entry, and the streams as they are from there on."""
        both = set(old) & set(new)
        turned = {path for path in both if old[path].is_composite != new[path].is_composite}
        removed = sorted({*(set(old) - set(new)), *turned})
        cleared = sorted(
            path for path in both - turned if channel_types(old[path]) != channel_types(new[path])
        )
        restarted = sorted({*_other_windows(old, new), *_windows_over(work, removed + cleared)})
        body = msgspec.json.encode(Change(removed, cleared, restarted))
        position = self._log.change(f"{tenant}/{name}", body, work)
        changed = sorted(path for path in {*old, *new} if old.get(path) != new.get(path))
        ended = [path for path in changed if path in old]
        _leave_queries(work, [path for path in ended if path not in new], position)
        for table, column in (("streams", "path"), ("edges", "target")):
            work.many(
                f"UPDATE {table} SET until = ? WHERE {column} = ? AND until = ?",
                [(position, path, FOREVER) for path in ended],
            )
        for table, column in (("tags", "path"), ("wants", "target")):
            work.many(f"DELETE FROM {table} WHERE {column} = ?", [(path,) for path in ended])
        work.many(
            "INSERT INTO streams (path, owner, since, until, body) VALUES (?, ?, ?, ?, ?)",
            [
                (path, tenant, position, FOREVER, msgspec.json.encode(new[path]).decode())
                for path in changed
                if path in new
            ],
        )
        return position

    def _replace(
        self, work: Work, tenant: str, name: str, position: int, document: ServiceObject | None
    ) -> int:
        """Answers the version; they go on where an earlier document of this name ended."""
        work.run(
            "UPDATE objects SET until = ? WHERE tenant = ? AND name = ? AND until = ?",
            (position, tenant, name, FOREVER),
        )
        past = work.rows(
            "SELECT coalesce(max(version), 0) FROM objects WHERE tenant = ? AND name = ?",
            (tenant, name),
        )[0][0]
        version = int(past) + 1
        if document is not None:
            body = msgspec.json.encode(document).decode()
            work.run(
                "INSERT INTO objects (tenant, name, version, since, until, body) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (tenant, name, version, position, FOREVER, body),
            )
        return version

    def _connect(
        self, work: Work, changed: Mapping[str, Stream], position: int, quotas: Quotas
    ) -> None:
        """The edges of changed streams: into them, and from them to those whose query they fit."""
        tags = [
            (path, tag, value)
            for path, s in changed.items()
            for tag, value in s.description.items()
        ]
        work.many("INSERT INTO tags (path, tag, value) VALUES (?, ?, ?)", tags)
        edges: set[tuple[str, str, str]] = set()
        candidates = _Candidates(work)
        room = _room_for_links(work, changed, quotas)
        named = {
            (each.stream, path, alias)
            for path, stream in changed.items()
            for alias, each in stream.inputs.items()
            if each.stream is not None
        }
        # Before members of queries: rules of those follow from it.
        _note_lineage(work, named, position)
        for path, stream in changed.items():
            for alias, each in stream.inputs.items():
                if each.query is None:
                    edges.add((each.stream or "", path, alias))
                    _check_links(path, alias, edges, room, quotas)
                    continue
                tag, value = narrowest_tag(work, each.query.match.items())
                work.run(
                    "INSERT INTO wants (target, alias, tag, value) VALUES (?, ?, ?, ?)",
                    (path, alias, tag, value),
                )
                members = candidates.members(path, stream, alias, tag, value)
                if len(members) > quotas.members:
                    raise QuotaError(
                        f"streams.{path.rpartition('/')[2]}.inputs.{alias}: {len(members)} streams "
                        f"fit, of {quotas.members} at most; ask for something narrower"
                    )
                edges |= {(member, path, alias) for member in members}
                _check_links(path, alias, edges, room, quotas)
        _check_fan_out(work, edges, quotas)
        _insert_edges(work, edges, position)
        _insert_edges(work, _wanted_by_others(work, changed, position, quotas), position)
        _check_lineage(work, changed)


def _insert_edges(work: Work, edges: Iterable[Edge], position: int) -> None:
    work.many(
        "INSERT INTO edges (source, target, alias, since, until) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT DO NOTHING",
        [(*edge, position, FOREVER) for edge in sorted(edges)],
    )
    _note_lineage(work, edges, position)


def _note_lineage(work: Work, edges: Iterable[Edge], position: int) -> None:
    pairs = sorted({(target, source) for source, target, _ in edges})
    work.many(
        "INSERT INTO lineage (target, source, since) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        [(*pair, position) for pair in pairs],
    )


def _other_windows(old: Mapping[str, Stream], new: Mapping[str, Stream]) -> list[str]:
    def window(stream: Stream) -> object:
        aggregate = stream.aggregate
        return aggregate and (aggregate, stream.group, stream.inputs[aggregate.input])

    return [path for path in set(old) & set(new) if window(old[path]) != window(new[path])]


def _windows_over(work: Work, sources: list[str]) -> list[str]:
    """Streams that have a window over one of these by its name. To a query it is one of many, whose
    channels are what they are, or it is none."""
    edges = edges_from(work, sources)
    streams = streams_at(work, {target for _, target, _ in edges})
    return [
        target
        for _, target, alias in edges
        if target in streams
        and (aggregate := streams[target].aggregate) is not None
        and aggregate.input == alias
        and streams[target].inputs[alias].query is None
    ]


def _types_of(
    place: str,
    given: Input,
    known: Mapping[str, Stream],
    tenant: str,
    rules: Mapping[str, Rules],
) -> dict[str, str]:
    if given.query is not None:
        return {name: str(kind) for name, kind in given.query.channels.items()}
    assert given.stream is not None
    source = known.get(given.stream)
    if source is None or not admits(given.stream, source, tenant):
        raise DocumentError(
            f"{place}: there is no stream {given.stream} that you may read; ask its owner for "
            "access"
        )
    refused = refusal(tenant, given.stream, rules.get(given.stream, frozenset()))
    if refused is not None:
        raise DocumentError(f"{place}: {refused}")
    return channel_types(source)


def _compile(streams: Mapping[str, Stream], types: Mapping[str, Types]) -> None:
    for path, of_inputs in types.items():
        place = f"streams.{path.rpartition('/')[2]}"
        try:
            work = compile_stream(streams[path], of_inputs).work
        except DocumentError as error:
            raise DocumentError(f"{place}.{error}") from None
        if work > WORK_OF_OTHERS and _takes_others(path, streams[path]):
            raise DocumentError(
                f"{place}: may take {work:,} steps for an update of somebody else, of "
                f"{WORK_OF_OTHERS:,} at most; use simpler expressions"
            )


def _takes_others(path: str, stream: Stream) -> bool:
    return any(
        each.stream is None or owner_of(each.stream) != owner_of(path)
        for each in stream.inputs.values()
    )


class _Candidates:
    """Streams that queries of one document may be about, each read once."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._by_tag: dict[tuple[str, str], dict[str, Stream]] = {}
        self._rules: dict[str, Rules] = {}
        self._looked = 0

    def members(self, path: str, stream: Stream, alias: str, tag: str, value: str) -> list[str]:
        query = stream.inputs[alias].query
        assert query is not None
        found = self._by_tag.get((tag, value))
        if found is None:
            found = self._by_tag[tag, value] = self._tagged(alias, tag, value)
        self._looked += len(found)
        if self._looked > MOST_LOOKED:
            raise QuotaError(
                f"inputs.{alias}.query.match: the queries of this document look at more than "
                f"{MOST_LOOKED} streams; match something narrower"
            )
        fitting = [
            each
            for each, other in found.items()
            if each != path and _is_member(query, each, other, path)
        ]
        rules = self._rules_of(fitting)
        return sorted(each for each in fitting if not refusing(rules[each], owner_of(path)))

    def _rules_of(self, paths: list[str]) -> dict[str, Rules]:
        self._rules |= stored_rules(self._work, paths, self._rules).rules
        return self._rules

    def _tagged(self, alias: str, tag: str, value: str) -> dict[str, Stream]:
        rows = self._work.rows(
            "SELECT path FROM tags WHERE tag = ? AND value = ? LIMIT ?",
            (tag, value, MOST_AROUND + 1),
        )
        if len(rows) > MOST_AROUND:
            raise QuotaError(
                f"inputs.{alias}.query.match: more than {MOST_AROUND} streams have {tag}; match "
                "something narrower"
            )
        return streams_at(self._work, [row[0] for row in rows])


def _links_of(work: Work, tenant: str) -> int:
    """Inputs of all streams of a tenant, each member of a query counted."""
    rows = work.rows(
        "SELECT count(*) FROM streams JOIN edges ON edges.target = streams.path "
        "AND edges.until = ? WHERE streams.owner = ? AND streams.until = ?",
        (FOREVER, tenant, FOREVER),
    )
    return int(rows[0][0])


def _room_for_links(work: Work, changed: Mapping[str, Stream], quotas: Quotas) -> int:
    mine = next((owner_of(path) for path, each in changed.items() if each.is_composite), None)
    return quotas.most_links - (0 if mine is None else _links_of(work, mine))


def _check_links(
    path: str, alias: str, edges: set[tuple[str, str, str]], room: int, quotas: Quotas
) -> None:
    if len(edges) > room:
        raise QuotaError(
            f"streams.{path.rpartition('/')[2]}.inputs.{alias}: your streams would have more than "
            f"{quotas.most_links} inputs together, each member of a query counted; ask for "
            "something narrower"
        )


def _is_member(query: Query, path: str, stream: Stream, target: str) -> bool:
    """As far as the stream itself tells. One with data in it that the owner of the query may not
    read does not become a member: it would bring nothing but its rules."""
    return fits_query(query, path, stream) and admits(path, stream, owner_of(target))


def _wanted_by_others(
    work: Work, changed: Mapping[str, Stream], position: int, quotas: Quotas
) -> set[tuple[str, str, str]]:
    """Queries of streams that are there already; members that no longer fit leave them.

    Nobody is refused a stream because of what others ask for: a query that has too many members, or
    would be one too many who take the stream, goes without it, and says so among its errors.
    """
    edges: set[tuple[str, str, str]] = set()
    full: set[tuple[str, str]] = set()
    wants = _Wants(work, changed.values())
    rules: dict[str, Rules] = {}
    held_by = edges_by_source(work, changed)
    wants.know(target for held in held_by.values() for _, target, _ in held)
    for path, stream in changed.items():
        held = held_by.get(path, [])
        targets = {edge[1] for edge in held}
        for _, target, alias in held:
            query = wants.query(target, alias)
            if query is not None and not _is_member(query, path, stream, target):
                work.run(
                    "UPDATE edges SET until = ? WHERE source = ? AND target = ? AND alias = ? "
                    "AND until = ?",
                    (position, path, target, alias, FOREVER),
                )
        for target, alias in wants.of(stream):
            query = wants.query(target, alias)
            if (target, alias) in full or query is None or target == path:
                continue
            if (path, target, alias) in held or not _is_member(query, path, stream, target):
                continue
            rules |= stored_rules(work, [path], rules).rules
            if refusing(rules[path], owner_of(target)):
                continue
            if len(targets) >= quotas.fan_out:
                _note_left_out(work, path, target, alias, position)
            elif not wants.has_room(target, alias, quotas):
                # Said once of all that this document would add.
                full.add((target, alias))
                _note_left_out(work, path, target, alias, position)
            else:
                edges.add((path, target, alias))
                targets.add(target)
                wants.join(target, alias)
    return edges


def _leave_queries(work: Work, removed: list[str], position: int) -> None:
    """A stream that is gone is no member any more, and takes no place of one. What takes it by its
    name waits for it to come back."""
    edges = edges_from(work, removed)
    streams = streams_at(work, {target for _, target, _ in edges})
    work.many(
        "UPDATE edges SET until = ? WHERE source = ? AND target = ? AND alias = ? AND until = ?",
        [
            (position, source, target, alias, FOREVER)
            for source, target, alias in edges
            if target in streams
            and alias in streams[target].inputs
            and streams[target].inputs[alias].query is not None
        ],
    )


class _Wants:
    """The queries for which changed streams may be members, read once for all of them."""

    def __init__(self, work: Work, streams: Iterable[Stream]) -> None:
        self._work = work
        self._by_tag: dict[tuple[str, str], list[tuple[str, str]]] = {}
        self._streams: dict[str, Stream] = {}
        self.members: Counter[tuple[str, str]] = Counter()
        """Of each query, how many there are."""
        self._links: dict[str, int] = {}
        for tag, value in sorted({tag for each in streams for tag in each.description.items()}):
            self._by_tag[tag, value] = [
                (target, alias)
                for target, alias in work.rows(
                    "SELECT target, alias FROM wants WHERE tag = ? AND value = ?", (tag, value)
                )
            ]
        targets = {target for some in self._by_tag.values() for target, _ in some}
        self.know(targets)
        self.members.update((target, alias) for _, target, alias in edges_into(work, targets))

    def has_room(self, target: str, alias: str, quotas: Quotas) -> bool:
        """One member more is neither too many for the query nor for all streams of its owner."""
        owner = owner_of(target)
        if owner not in self._links:
            self._links[owner] = _links_of(self._work, owner)
        return (
            self.members[target, alias] < quotas.members and self._links[owner] < quotas.most_links
        )

    def join(self, target: str, alias: str) -> None:
        self.members[target, alias] += 1
        self._links[owner_of(target)] += 1

    def know(self, targets: Iterable[str]) -> None:
        self._streams |= streams_at(self._work, set(targets) - self._streams.keys())

    def of(self, stream: Stream) -> list[tuple[str, str]]:
        """Queries that ask for one of its tags: a stream, and what it calls the input."""
        return sorted({want for tag in stream.description.items() for want in self._by_tag[tag]})

    def query(self, target: str, alias: str) -> Query | None:
        found = self._streams.get(target)
        return None if found is None or alias not in found.inputs else found.inputs[alias].query


class _TakenByOthers:
    """Streams that take changed ones, or what is made of those, and may lose them by the change."""

    def __init__(
        self, work: Work, old: Mapping[str, Stream], changed: Mapping[str, Stream]
    ) -> None:
        self._work = work
        suspects = [
            path
            for path, stream in changed.items()
            if path not in old
            or (old[path].access, old[path].inputs) != (stream.access, stream.inputs)
        ]
        self._changed = changed
        edges = around(suspects, lambda paths: edges_from(work, paths), 1, MOST_AROUND)
        # An owner can always deny. Where too many are concerned, the state of each stream tells it.
        self._edges = sorted(set(edges or ()))
        self._before = self._refused()

    def note_refused(self, position: int) -> None:
        """On the error channels of those that get nothing from there any more."""
        for (source, target, alias), said in self._refused().items():
            if (source, target, alias) not in self._before:
                _note(self._work, target, position, "access", f"inputs.{alias}: {said}")

    def offer(self, position: int, quotas: Quotas) -> None:
        """To queries whose owners may read them now, and might not before."""
        behind = {target for _, target, _ in self._edges} - self._changed.keys()
        streams = streams_at(self._work, behind)
        tagged = {path: stream for path, stream in streams.items() if stream.description}
        if tagged:
            edges = _wanted_by_others(self._work, tagged, position, quotas)
            _insert_edges(self._work, edges, position)

    def _refused(self) -> dict[Edge, str]:
        if not self._edges:
            return {}
        rules = stored_rules(self._work, {source for source, _, _ in self._edges}).rules
        found = {}
        for source, target, alias in self._edges:
            tenant = owner_of(target)
            if refusing(rules[source], tenant):
                said = refusal(tenant, source, rules[source])
                found[source, target, alias] = said or f"you may not read {source} any more"
        return found


def _note(work: Work, path: str, position: int, kind: str, message: str) -> None:
    (number,) = work.rows(
        "SELECT coalesce(max(number) + 1, 0) FROM failures WHERE path = ? AND position = ?",
        (path, position),
    )[0]
    work.run(
        "INSERT INTO failures (path, position, number, timestamp, kind, message) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (path, position, int(number), 0, kind, message),
    )


def _note_left_out(work: Work, path: str, target: str, alias: str, position: int) -> None:
    _note(work, target, position, "members", f"inputs.{alias}: {path} fits, but is one too many")


def _check_count(work: Work, tenant: str, quotas: Quotas, more: int) -> None:
    if more <= 0:
        return
    have = work.rows(
        "SELECT count(*) FROM streams WHERE owner = ? AND until = ?", (tenant, FOREVER)
    )[0][0]
    if int(have) + more > quotas.streams:
        raise QuotaError(
            f"streams: you have {have} and would get {more} more, of {quotas.streams} at most"
        )


def _check_lineage(work: Work, changed: Mapping[str, Stream]) -> None:
    """A stream stays bound by inputs that it had: they must not become ever more."""
    for path in changed:
        (had,) = work.rows("SELECT count(*) FROM lineage WHERE target = ?", (path,))[0]
        if int(had) > MOST_LINEAGE:
            raise QuotaError(
                f"streams.{path.rpartition('/')[2]}.inputs: it has had {had} different ones, of "
                f"{MOST_LINEAGE} at most; use another name for it"
            )


def _check_fan_out(work: Work, edges: set[tuple[str, str, str]], quotas: Quotas) -> None:
    found: dict[str, set[str]] = {}
    for source, target, _ in (*edges, *edges_from(work, {edge[0] for edge in edges})):
        found.setdefault(source, set()).add(target)
    for source, targets in found.items():
        if len(targets) > quotas.fan_out:
            raise QuotaError(
                f"inputs: {source} is taken by {len(targets)} streams, of {quotas.fan_out} at "
                "most; derive from one of those"
            )


def _check_depth(work: Work, tenant: str, changed: Mapping[str, Stream], quotas: Quotas) -> None:
    """From the sources to the tenant's own streams: what others derive from them is theirs."""

    def own_from(paths: list[str]) -> list[Edge]:
        return [edge for edge in edges_from(work, paths) if owner_of(edge[1]) == tenant]

    composites = [path for path, stream in changed.items() if stream.is_composite]
    up = around(composites, lambda paths: edges_into(work, paths), 0, MOST_AROUND)
    down = around(composites, own_from, 1, MOST_AROUND)
    if up is None or down is None:
        raise QuotaError(
            f"inputs: more than {MOST_AROUND} streams would hang together; use fewer inputs"
        )
    following: dict[str, list[str]] = {}
    for source, target, _ in sorted({*up, *down}):
        following.setdefault(source, []).append(target)
    names = sorted({*following, *(path for paths in following.values() for path in paths)})
    deepest = max(depths(names, following).values(), default=0)
    if deepest > quotas.depth:
        raise QuotaError(
            f"inputs: {deepest} streams would stand one after the other, of {quotas.depth} at "
            "most; use streams that are nearer to the sources"
        )
