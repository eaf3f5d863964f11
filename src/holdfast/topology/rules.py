"""Rules about how the tables of a topology fit together: names, addresses, policies, spans."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from os.path import normpath
from typing import Any

from holdfast.topology.addresses import is_loopback, parse_address
from holdfast.topology.gates import COMPARING, POLICIES, SHARE, VOTING
from holdfast.topology.graph import find_cycles, most_after
from holdfast.topology.problems import Problem, did_you_mean, show
from holdfast.topology.settings import is_sound, settings_of
from holdfast.topology.sharing import check_merge, check_share, check_shared_inputs
from holdfast.topology.sinks import SINKS, Callback, Console, Delta, Parquet, Sink, SqlTable
from holdfast.topology.sound import Sound
from holdfast.topology.spans import Span
from holdfast.topology.stages import Join, Stage, Window
from holdfast.topology.streams import NOTICED, Mqtt, Stream
from holdfast.topology.voting import check_voted

__all__ = ["check_rules"]


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
