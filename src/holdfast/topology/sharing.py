"""Rules for stages whose replicas share their work, and for those that read an edge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.topology.gates import COMPARING, MERGE
from holdfast.topology.problems import Problem
from holdfast.topology.settings import is_sound
from holdfast.topology.sinks import Sink
from holdfast.topology.sound import Sound
from holdfast.topology.stages import Join, Stage, Window
from holdfast.topology.streams import SOURCES, Edge

__all__ = ["check_merge", "check_share", "check_shared_inputs"]


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
