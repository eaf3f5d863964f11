"""Rules for stages whose replicas are voted on: what honest ones could differ in, and where they
run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from holdfast.topology.addresses import is_loopback
from holdfast.topology.gates import VOTING
from holdfast.topology.problems import Problem
from holdfast.topology.settings import is_sound
from holdfast.topology.sinks import Sink
from holdfast.topology.sound import Sound
from holdfast.topology.stages import Stage

if TYPE_CHECKING:
    from holdfast.topology.topology import Topology

__all__ = ["check_voted", "find_warnings"]

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
