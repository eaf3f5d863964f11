"""Rules about how the tables of a topology fit together."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from os.path import normpath
from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.config.addresses import is_loopback, parse_address
from holdfast.config.durations import Span
from holdfast.config.problems import Problem, did_you_mean, show
from holdfast.config.security import Security
from holdfast.config.settings import is_sound, settings_of
from holdfast.pipeline.topology.policies import COMPARING, MERGE, POLICIES, SHARE, VOTING
from holdfast.pipeline.topology.sinks import (
    SINKS,
    Callback,
    Console,
    Delta,
    Parquet,
    Sink,
    SqlTable,
)
from holdfast.pipeline.topology.stages import Join, Replica, Stage, Window
from holdfast.pipeline.topology.streams import NOTICED, SOURCES, Edge, Mqtt, Stream

if TYPE_CHECKING:
    from holdfast.pipeline.topology.topology import Topology


MOST_CYCLES: Final = 20
"""Nobody mends more of them at once."""

Inputs = Mapping[str, Sequence[str]]
"""The inputs of every stage; those that are no stages are where the graph begins."""


def sort_stages(inputs: Inputs) -> list[str]:
    """The stages, each after those it reads; those on or behind a cycle are left out."""
    waiting = {name: sum(each in inputs for each in read) for name, read in inputs.items()}
    readers = _readers(inputs)
    ready = deque(name for name, count in waiting.items() if count == 0)
    order = []
    while ready:
        name = ready.popleft()
        order.append(name)
        for reader in readers[name]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                ready.append(reader)
    return order


def find_cycles(inputs: Inputs) -> list[tuple[str, ...]]:
    """Some cycles that have no stage in common, each as it is read: a stage, its input, its input
    and so on."""
    left = {name: set(read) & set(inputs) for name, read in inputs.items()}
    for name in sort_stages(inputs):
        del left[name]
    cycles: list[tuple[str, ...]] = []
    while left and len(cycles) < MOST_CYCLES:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            # Given as predecessors, last equal to first.
            cycle = tuple(reversed(error.args[1][1:]))
            cycles.append(cycle)
            left = {name: read - set(cycle) for name, read in left.items() if name not in cycle}
        else:
            break
    return cycles


def layers_of(streams: Iterable[str], inputs: Inputs) -> list[list[str]]:
    """Streams first, then stages as early as all they read allows. Within a layer, those stand
    together that read the same."""
    depth = dict.fromkeys(streams, 0)
    for name in sort_stages(inputs):
        depth[name] = 1 + max((depth[each] for each in inputs[name]), default=0)
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name, level in depth.items():
        layers[level].append(name)
    place = {name: float(at) for at, name in enumerate(layers[0])} if layers else {}
    for layer in layers[1:]:
        middle = {
            name: sum(place[each] for each in inputs[name]) / len(inputs[name]) for name in layer
        }
        layer.sort(key=middle.__getitem__)
        place.update((name, float(at)) for at, name in enumerate(layer))
    return layers


def most_after(inputs: Inputs, through: Callable[[str, int], int]) -> dict[str, int]:
    """The most that lies downstream of every stream and stage, on any path.

    `through(stage, after)`: what a stage makes of the most that lies behind it.
    """
    most: dict[str, int] = defaultdict(int)
    for stage in reversed(sort_stages(inputs)):
        for each in inputs[stage]:
            most[each] = max(most[each], through(stage, most[stage]))
    return most


def _readers(inputs: Inputs) -> dict[str, list[str]]:
    readers: dict[str, list[str]] = defaultdict(list)
    for name, read in inputs.items():
        for each in read:
            readers[each].append(name)
    return readers


Table = TypeVar("Table")


@dataclass(frozen=True)
class Sound:
    """What can be looked at. Fields may still be wrong: ask `is_sound` before."""

    bucket: Span | None
    security: Security | None
    streams: Mapping[str, Stream]
    stages: Mapping[str, Stage]
    sinks: Mapping[str, Sink]
    spoilt: frozenset[str]
    """Names of streams and stages that are no tables: told once, and not missed elsewhere."""

    @classmethod
    def of(cls, topology: Topology) -> Sound:
        security = topology.security
        return cls(
            topology.bucket if is_sound(topology, "bucket") else None,
            security if isinstance(security, Security) else None,
            _tables(topology.streams, Stream),
            _tables(topology.stages, Stage),
            _tables(topology.sinks, Sink),
            frozenset([*_others(topology.streams, Stream), *_others(topology.stages, Stage)]),
        )

    @cached_property
    def inputs(self) -> Mapping[str, tuple[str, ...]]:
        """Of every stage those that exist."""
        known = {*self.streams, *self.stages}
        return {
            name: tuple(each for each in stage.inputs if each in known)
            if is_sound(stage, "inputs")
            else ()
            for name, stage in self.stages.items()
        }

    @cached_property
    def order(self) -> list[str]:
        """The stages, each after those it reads, but for cycles."""
        return sort_stages(self.inputs)

    def replicas(self, stage: str) -> Iterator[tuple[int, Replica]]:
        """The replicas of a stage whose address is one, with their numbers."""
        table = self.stages[stage]
        if is_sound(table, "replicas"):
            for number, replica in enumerate(table.replicas, 1):
                if isinstance(replica, Replica) and is_sound(replica, "address"):
                    yield number, replica


def _tables(tables: Any, kind: type[Table]) -> dict[str, Table]:
    if not isinstance(tables, Mapping):
        return {}
    return {
        name: table
        for name, table in tables.items()
        if isinstance(name, str) and isinstance(table, kind)
    }


def _others(tables: Any, kind: type) -> set[str]:
    if not isinstance(tables, Mapping):
        return set()
    return {name for name in tables if isinstance(name, str)} - set(_tables(tables, kind))


SKIPPING: Final = frozenset({"vote-latest", "latest"})
"""Policies with which replicas that read the same may miss different buckets."""
BELIEVING: Final = frozenset({"sample"})
"""Policies with which one of them may let a lie through that another does not."""
HERE: Final = "this machine"


def check_voted(
    place: str, reader: Stage | Sink, inputs: Iterable[str], sound: Sound
) -> Iterator[Problem]:
    """Honest replicas of what is voted on say the same."""
    for name in inputs:
        for other in _differing(name, sound.stages, sound.inputs, SKIPPING):
            policy = sound.stages[other].policy
            behind = "" if other == name else f", which {name!r} depends on,"
            yield Problem(
                place,
                "policy",
                f"{reader.policy!r} finds out who lies, and with the policy {policy!r} honest "
                f"replicas of {other!r}{behind} may miss different buckets; use 'vote', 'first' or "
                f"'switch' in [stages.{other}], or 'switch' here",
            )


def _differing(
    name: str,
    stages: Mapping[str, Stage],
    inputs: Mapping[str, tuple[str, ...]],
    policies: frozenset[str],
) -> Iterator[str]:
    """The stage, and those it depends on, that have such a policy and several replicas. Whoever is
    behind one replica alone has read the same."""
    waiting, seen = [name], {name}
    while waiting:
        stage = stages.get(at := waiting.pop())
        if stage is None:
            continue
        is_told = is_sound(stage, "policy", "replicas")
        if is_told and len(stage.replicas) == 1:
            continue
        if is_told and stage.policy in policies:
            yield at
        before = [each for each in inputs.get(at, ()) if each not in seen]
        seen.update(before)
        waiting += before


def find_warnings(topology: Topology) -> Iterator[Problem]:
    """What can be run, but does less than whoever votes may think."""
    voters: dict[str, list[str]] = defaultdict(list)
    for name, stage in topology.stages.items():
        for stream in stage.inputs if stage.policy in VOTING else ():
            voters[stream].append(f"[stages.{name}]")
    for name, sink in topology.sinks.items():
        if sink.policy in VOTING:
            voters[sink.stream].append(f"[sinks.{name}]")
    inputs = {name: stage.inputs for name, stage in topology.stages.items()}
    together: list[str] = []
    for voted, readers in voters.items():
        for other in _differing(voted, topology.stages, inputs, BELIEVING):
            yield Problem(
                f"stages.{other}",
                "policy",
                f"'sample' may let a lie through on one replica and not on another, and "
                f"{readers[0]} would find an honest one of {voted!r} lying then; use 'vote' here",
            )
        for host, names in _shared_hosts(topology, voted).items():
            if host == HERE:
                together.append(voted)
            else:
                yield Problem(
                    f"stages.{voted}",
                    "replicas",
                    f"{', '.join(names)} are all on {host!r}, and {readers[0]} votes on them: "
                    "whatever is wrong with that host is wrong with all; give each its own host",
                )
    if together:
        yield Problem(
            f"stages.{together[0]}",
            "replicas",
            f"those that are voted on ({', '.join(together)}) run on one machine: good for "
            "trying it out; give each replica its own host where one may fail or lie",
        )


def _shared_hosts(topology: Topology, stage: str) -> dict[str, list[str]]:
    """Where several replicas of a stage run; one machine has many names for itself."""
    hosts: dict[str, list[str]] = defaultdict(list)
    parties = topology.parties()
    for name in topology.publishers(stage):
        host = parties[name].host
        hosts[HERE if is_loopback(host) else host].append(name)
    return {host: names for host, names in hosts.items() if len(names) > 1}


def check_shared_inputs(
    place: str, reader: Stage | Sink, inputs: Iterable[str], sound: Sound
) -> Iterator[Problem]:
    """Of what is shared there is one copy."""
    if reader.policy not in COMPARING:
        return
    for name in inputs:
        if name in sound.stages and _is_shared(sound.stages[name]):
            yield Problem(
                place,
                "policy",
                f"{reader.policy!r} compares replicas, and those of {name!r} share their work; use "
                f"'switch' here, or another policy in [stages.{name}]",
            )


def _is_shared(stage: Stage) -> bool:
    return is_sound(stage, "policy") and stage.is_shared


def check_share(name: str, sound: Sound) -> Iterator[Problem]:
    stage, place = sound.stages[name], f"stages.{name}"
    if not _is_shared(stage):
        return
    if is_sound(stage, "replicas") and len(stage.replicas) < 2:
        message = "'share' divides the work between replicas, and there is one; give more, or use "
        yield Problem(place, "policy", message + "'switch'")
    for number, step in enumerate(stage.steps if is_sound(stage, "steps") else (), 1):
        if isinstance(step, Join | Window):
            word = type(step).__name__.lower()
            yield Problem(
                place,
                f"steps #{number} {word}",
                "depends on more than one bucket, and with 'share' a replica sees some of them "
                f"only; put the {word} into a stage behind this one, or use another policy",
            )
    if not is_sound(stage, "guarantee") or stage.guarantee != "at-most-once":
        return
    for reader, other in sound.stages.items():
        if name not in sound.inputs[reader] or not is_sound(other, "replicas"):
            continue
        if len(other.replicas) > 1 and not _is_shared(other):
            yield Problem(
                place,
                "guarantee",
                f"with {stage.guarantee!r} the replicas of [stages.{reader}] could miss different "
                "buckets and disagree for ever; use 'exactly-once', or give that stage one replica",
            )


def check_merge(place: str, stage: Stage, sound: Sound) -> Iterator[Problem]:
    if not is_sound(stage, "policy") or stage.policy != MERGE:
        return
    for number, name in enumerate(stage.inputs, 1):
        stream = sound.streams.get(name)
        if stream is None and name not in sound.stages:
            continue
        if stream is not None and (
            not is_sound(stream, "source") or isinstance(stream.source, Edge)
        ):
            continue
        what = "a stage"
        if stream is not None:
            word = next(word for word, each in SOURCES.items() if isinstance(stream.source, each))
            what = f"a stream with the source {word!r}"
        yield Problem(
            place,
            f"inputs #{number}",
            f"'merge' is for what an edge sends, and {name!r} is {what}; give a stream with "
            "source = 'edge' and the path of the edge's file, or use 'switch'",
        )


def check_rules(sound: Sound) -> Iterator[Problem]:
    yield from _check_names(sound)
    yield from _check_addresses(sound)
    yield from _check_security(sound)
    for name, stream in sound.streams.items():
        yield from _check_stream(f"streams.{name}", stream)
    for name, stage in sound.stages.items():
        yield from _check_inputs(f"stages.{name}", stage, sound)
        if is_sound(stage, "inputs"):
            yield from _check_policy(f"stages.{name}", stage, stage.inputs, sound)
            yield from check_merge(f"stages.{name}", stage, sound)
        yield from check_share(name, sound)
        yield from _check_delay(f"stages.{name}", stage, sound)
    yield from _check_cycles(sound)
    yield from _check_retain(sound)
    for name in sound.sinks:
        yield from _check_sink(name, sound)
    yield from _check_targets(sound)


def _check_names(sound: Sound) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    groups: Mapping[str, Mapping[str, Any]] = {
        "streams": sound.streams,
        "stages": sound.stages,
        "sinks": sound.sinks,
    }
    for group, tables in groups.items():
        for name in tables:
            place = f"{group}.{name}"
            if name.lower() in seen:
                message = f"the name is taken by [{seen[name.lower()]}]; choose another"
                yield Problem(place, "", message)
            seen.setdefault(name.lower(), place)


def _served(sound: Sound) -> Iterator[tuple[str, str, str]]:
    """Every address that is served: table, field, address."""
    for name, stream in sound.streams.items():
        if is_sound(stream, "address"):
            yield f"streams.{name}", "address", stream.address
    for name in sound.stages:
        for number, replica in sound.replicas(name):
            yield f"stages.{name}", f"replicas #{number}", replica.address


def _check_addresses(sound: Sound) -> Iterator[Problem]:
    seen: dict[tuple[str, int], str] = {}
    for table, field, text in _served(sound):
        host, port = parse_address(text)
        # One machine has many names for itself.
        key = ("localhost" if is_loopback(host) else host.lower(), port)
        if key in seen:
            message = f"{show(text)} is served by {seen[key]} already; give another port"
            yield Problem(table, field, message)
        seen.setdefault(key, f"[{table}]")


def _check_security(sound: Sound) -> Iterator[Problem]:
    security = sound.security
    outside = [each for each in _served(sound) if not is_loopback(parse_address(each[2]).host)]
    if security is None:
        for table, field, text in outside:
            yield Problem(
                table,
                field,
                f"{show(text)} can be reached by other machines; add [security] with a token, a "
                "certificate, its key and the authority, or use 127.0.0.1",
            )
        return
    given = {name for name in _SECURITY if getattr(security, name) is not None}
    if {"token_file", "token_env"} <= given:
        yield Problem("security", "token_env", "token_file is given too; leave one of them out")
    wanted: set[str] = set()
    if outside or security.mutual or given & _CERTIFIED:
        wanted |= _CERTIFIED
    why = (
        f"since {show(outside[0][2])} can be reached by other machines"
        if outside
        else ("since the others are of no use without it")
    )
    if not given & {"token_file", "token_env"} and (outside or not wanted):
        reason = why if outside else "or leave [security] out"
        yield Problem("security", "token_file", f"is missing; give it or token_env, {reason}")
    for name in _SECURITY:
        if name in wanted - given:
            yield Problem("security", name, f"is missing; give it, {why}")


_CERTIFIED = frozenset({"certificate", "key", "authority"})
_SECURITY = ("token_file", "token_env", "certificate", "key", "authority")


def _check_stream(place: str, stream: Stream) -> Iterator[Problem]:
    if is_sound(stream, "time", "lateness") and stream.time is None and stream.lateness > 0:
        message = "rows are stamped in order when they arrive; leave it out, or give time"
        yield Problem(place, "lateness", message)
    is_idle = is_sound(stream, "time", "idle") and stream.idle is not None
    if is_idle and stream.time is None:
        message = "without rows the clock moves the stream anyway; leave it out, or give time"
        yield Problem(place, "idle", message)
    if not is_sound(stream, "source"):
        return
    source = stream.source
    if is_idle and isinstance(source, Mqtt) and stream.silence < NOTICED:
        message = "a broker that is gone may be noticed only after 40 s; give at least 45s"
        yield Problem(place, "idle", message)
    if isinstance(source, Mqtt) and source.password_env is not None and source.username is None:
        yield Problem(place, "password_env", "is of no use without username; give that too")
    if stream.time is None or not is_sound(stream, "time"):
        return
    if isinstance(source.schema, tuple):
        types = dict(source.schema)
        if stream.time not in types:
            hint = did_you_mean(stream.time, types)
            remedy = "leave time out"
            if "schema" in settings_of(type(source)):
                remedy = f'add {stream.time} = "timestamp" to schema, or leave time out'
            message = f"the stream has no column {show(stream.time)}{hint}; {remedy}"
            yield Problem(place, "time", message)
        elif types[stream.time] != "timestamp":
            message = f"{show(stream.time)} is of type {types[stream.time]}; make it a timestamp"
            yield Problem(place, "time", message)


def _check_inputs(place: str, stage: Stage, sound: Sound) -> Iterator[Problem]:
    if not is_sound(stage, "inputs"):
        return
    for number, name in enumerate(stage.inputs, 1):
        if problem := _check_readable(name, sound):
            yield Problem(place, f"inputs #{number}", problem)


def _check_readable(name: str, sound: Sound) -> str | None:
    if name in sound.streams or name in sound.stages or name in sound.spoilt:
        return None
    if name in sound.sinks:
        return f"{name!r} is a sink, which nothing can be read from; read {name!r}'s stream instead"
    known = [*sound.streams, *sound.stages]
    hint = did_you_mean(name, known)
    remedy = f"give one of {', '.join(known[:20])}" if known else "add it under [streams]"
    return f"there is no stream or stage {show(name)}{hint}; {remedy}"


def _check_policy(
    place: str, reader: Stage | Sink, inputs: Iterable[str], sound: Sound
) -> Iterator[Problem]:
    if not is_sound(reader, "policy", "faults"):
        return
    yield from _check_needless(place, reader)
    yield from check_shared_inputs(place, reader, inputs, sound)
    if reader.policy not in VOTING:
        return
    yield from check_voted(place, reader, inputs, sound)
    needed = 3 * reader.faults + 1
    for name in inputs:
        if name in sound.streams:
            yield Problem(
                place,
                "policy",
                f"{reader.policy!r} compares replicas, and the stream {name!r} has one source "
                "only; use 'switch' here, and vote on the stages behind it",
            )
        elif name in sound.stages and is_sound(sound.stages[name], "replicas"):
            there = len(sound.stages[name].replicas)
            if there < needed:
                yield Problem(
                    place,
                    "policy",
                    f"{reader.policy!r} with faults = {reader.faults} needs {needed} replicas of "
                    f"each input, and {name!r} has {there}; give [stages.{name}] more",
                )


def _check_needless(place: str, reader: Stage | Sink) -> Iterator[Problem]:
    """Settings that the policy does not look at."""
    settings = settings_of(type(reader))
    for field, policies in _GATE_SETTINGS.items():
        if field not in settings:
            continue
        given = getattr(reader, field)
        if reader.policy in policies or given == settings[field].default:
            continue
        words = ", ".join(repr(word) for word in POLICIES if word in policies)
        message = f"is of no use with the policy {reader.policy!r}; leave it out, or use {words}"
        yield Problem(place, field, message)


WAITING = frozenset({"vote", "vote-latest"})
"""Those for which copies of the fast wait until the slow have voted."""
_GATE_SETTINGS = {
    "faults": VOTING,
    "every": frozenset({"sample"}),
    "barrier": COMPARING,
    "proofs": VOTING,
    "room": WAITING,
    "rest": WAITING,
    "routing": frozenset({SHARE}),
    "guarantee": frozenset({SHARE}),
}


def _check_delay(place: str, stage: Stage, sound: Sound) -> Iterator[Problem]:
    if not is_sound(stage, "policy", "max_delay") or stage.max_delay == math.inf:
        return
    if stage.policy != "switch":
        message = f"is only for the policy 'switch', not {stage.policy!r}; leave it out"
        yield Problem(place, "max_delay", message)
    elif sound.bucket is not None and stage.max_delay < 2 * sound.bucket:
        yield Problem(
            place,
            "max_delay",
            f"{stage.max_delay} is less than two buckets of {sound.bucket}; give at least "
            f"{Span(2 * sound.bucket)}, or make bucket smaller",
        )
    elif is_sound(stage, "heartbeat", "missed"):
        # Until then nobody knows that a replica is gone, so nobody reads another one.
        noticed = Span(stage.heartbeat * (stage.missed + 2))
        if stage.max_delay < noticed:
            yield Problem(
                place,
                "max_delay",
                f"{stage.max_delay} is less than the {noticed} after which a failed replica is "
                "noticed, heartbeat times (missed + 2); give more, or a shorter heartbeat",
            )


def _check_cycles(sound: Sound) -> Iterator[Problem]:
    for cycle in find_cycles(sound.inputs):
        drawn = " <- ".join(cycle[:10] + (("...",) if len(cycle) > 10 else ()) + cycle[:1])
        message = f"the stages read each other in a circle ({drawn}); take one of them out"
        yield Problem(f"stages.{cycle[0]}", "inputs", message)


def _check_retain(sound: Sound) -> Iterator[Problem]:
    stages = sound.stages
    spans = most_after(sound.inputs, lambda name, after: after + _span(stages[name]))
    delays = most_after(sound.inputs, lambda name, after: max(after, _delay(stages[name])))
    for group, tables in (("streams", sound.streams), ("stages", sound.stages)):
        for name, table in tables.items():
            if table.retain is None or not is_sound(table, "retain"):
                continue
            delay, span = Span(delays.get(name, 0)), Span(spans.get(name, 0))
            if table.retain <= delay + span:
                yield Problem(
                    f"{group}.{name}",
                    "retain",
                    f"{table.retain} is too little for the stages downstream, with {delay} of "
                    f"max_delay and {span} of windows and joins; give more than "
                    f"{Span(delay + span)}, or leave it out",
                )


def _delay(stage: Stage) -> int:
    """With no bound on the delay nothing is tentative, so nothing is corrected."""
    delay = stage.max_delay if is_sound(stage, "max_delay") else 0
    return 0 if delay == math.inf else int(delay)


def _span(stage: Stage) -> int:
    if not is_sound(stage, "steps"):
        return 0
    span = 0
    for step in stage.steps:
        if isinstance(step, Join) and is_sound(step, "within"):
            span += step.within
        elif isinstance(step, Window) and is_sound(step, "size"):
            span += step.size
    return span


def _check_sink(name: str, sound: Sound) -> Iterator[Problem]:
    sink, place = sound.sinks[name], f"sinks.{name}"
    if is_sound(sink, "stream") and (problem := _check_readable(sink.stream, sound)):
        yield Problem(place, "stream", problem)
    if is_sound(sink, "stream"):
        yield from _check_policy(place, sink, [sink.stream], sound)
    if is_sound(sink, "policy", "tentative") and sink.policy in COMPARING and sink.tentative:
        message = f"the policy {sink.policy!r} shows final rows only; leave it out"
        yield Problem(place, "tentative", message)
    if not is_sound(sink, "sink", "tentative") or isinstance(sink.sink, Console | Callback):
        return
    if sink.tentative:
        word = next(word for word, each in SINKS.items() if isinstance(sink.sink, each))
        message = f"a sink of {word} takes final rows only; leave it out"
        yield Problem(place, "tentative", message)


def _check_targets(sound: Sound) -> Iterator[Problem]:
    """No two sinks write to the same place."""
    seen: dict[tuple[str, str], str] = {}
    for name, sink in sound.sinks.items():
        match sink.sink:
            case Parquet() | Delta() as folder if is_sound(folder, "path"):
                field, target = "path", (normpath(folder.path), "")
            case SqlTable() as rows if is_sound(rows, "url", "table"):
                field, target = "table", (rows.url, rows.table.lower())
            case _:
                continue
        if target in seen:
            message = f"is written by [sinks.{seen[target]}] already; give another {field}"
            yield Problem(f"sinks.{name}", field, message)
        seen.setdefault(target, name)
