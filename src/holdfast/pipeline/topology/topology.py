"""A topology: streams, stages and sinks, checked as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from holdfast.config.addresses import parse_address
from holdfast.config.durations import Span
from holdfast.config.fields import NAME, TEXT, Interval, interval
from holdfast.config.problems import TopologyError, did_you_mean
from holdfast.config.security import Security
from holdfast.config.settings import (
    ByName,
    Kind,
    Named,
    One,
    Setting,
    optional,
    read_one,
    read_some,
    read_tables,
    setting,
    table,
)
from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.topology.rules import layers_of, most_after, sort_stages
from holdfast.pipeline.topology.sinks import Sink
from holdfast.pipeline.topology.stages import Replica, Stage
from holdfast.pipeline.topology.streams import Stream
from holdfast.pipeline.topology.validation import find_problems


class PartyKind(StrEnum):
    """What a party does."""

    SOURCE = "source"
    REPLICA = "replica"
    SINK = "sink"


@dataclass(frozen=True, slots=True)
class Party:
    """One process of a running topology."""

    name: str
    """`readings` for a source, `clean/1` for the first replica of a stage, `archive` for a sink."""
    kind: PartyKind
    table: str
    """The stream, stage or sink that it is of: `clean` for `clean/1`."""
    address: str | None
    """Where it serves its log; None for a sink, which serves nothing."""
    host: str
    """On which machine it runs."""


# A topology: streams, stages and sinks, checked as a whole.
#
# Read from a TOML file or made in Python of the same dataclasses, with the same checks. Says who
# takes part and who reads whom; starts nothing, and never looks at the files that it names.


@table
class Topology:
    """A whole pipeline, checked when it is made: one `TopologyError` tells all that is wrong."""

    name: Setting[str, str] = setting(
        NAME, "What it is called.", example='"fleet"', default_doc="the name of the file"
    )
    bucket: Setting[Interval, Span] = setting(
        interval("1ms"),
        "The size of a bucket, for all streams: the piece of event time in which rows travel and "
        "are released.",
        example='"500ms"',
    )
    folder: Setting[str | None, str | None] = optional(
        TEXT,
        "Where logs, journals and checkpoints lie, relative to the file.",
        example='"fleet-state"',
        default="the name and `-state`",
    )
    security: Setting[Security | None, Security | None] = optional(
        Kind[Security, Security]("a table", read_one(Security), shape=One(Security)),
        "What keeps strangers out.",
        example='{ token_env = "HOLDFAST_TOKEN" }',
    )
    streams: Setting[Mapping[str, Stream], Named[Stream]] = setting(
        Kind[Mapping[str, Stream], Named[Stream]](
            "tables by their names",
            read_some("add one as [streams.NAME], with source and address"),
            shape=ByName(Stream),
        ),
        "The streams that come from outside.",
        example='{ readings = { source = "push", ... } }',
    )
    stages: Setting[Mapping[str, Stage], Named[Stage]] = setting(
        Kind[Mapping[str, Stage], Named[Stage]](
            "tables by their names", read_tables, shape=ByName(Stage)
        ),
        "What is done with them.",
        example='{ clean = { inputs = ["readings"], ... } }',
        default=Named[Stage]({}),
    )
    sinks: Setting[Mapping[str, Sink], Named[Sink]] = setting(
        Kind[Mapping[str, Sink], Named[Sink]](
            "tables by their names", read_tables, shape=ByName(Sink)
        ),
        "Where they go.",
        example='{ archive = { stream = "clean", ... } }',
        default=Named[Sink]({}),
    )
    home: Path = field(default_factory=Path.cwd, compare=False)
    """Where relative paths begin: the folder of the file."""

    def __post_init__(self) -> None:
        problems = find_problems(self)
        if problems:
            raise TopologyError("topology", problems)

    @classmethod
    def read(cls, path: str | Path) -> Topology:
        """The topology of a TOML file."""
        from holdfast.config.toml_files import read_whole

        return read_whole(path, cls)

    def text(self) -> str:
        """The topology as a TOML file, from which it can be read again."""
        from holdfast.pipeline.topology.writing import write_topology

        return write_topology(self)

    def path(self, relative: str) -> Path:
        """A path that the topology names, from wherever the process was started."""
        return self.home / relative

    @property
    def state_folder(self) -> Path:
        """Where logs, journals and checkpoints lie."""
        return self.path(self.folder or f"{self.name}-state")

    def parties(self) -> Mapping[str, Party]:
        """Everybody who takes part, by name: sources, then replicas, then sinks."""
        parties = [
            Party(name, PartyKind.SOURCE, name, stream.address, _host(stream))
            for name, stream in self.streams.items()
        ]
        for name, stage in self.stages.items():
            for party, replica in zip(self.publishers(name), stage.replicas, strict=True):
                parties.append(
                    Party(party, PartyKind.REPLICA, name, replica.address, _host(replica))
                )
        hosts = {party.name: party.host for party in parties}
        for name, sink in self.sinks.items():
            host = sink.host or hosts[self.publishers(sink.stream)[0]]
            parties.append(Party(name, PartyKind.SINK, name, None, host))
        return {party.name: party for party in parties}

    def publishers(self, stream: str) -> tuple[str, ...]:
        """The parties that publish a stream: its source, or the replicas of its stage."""
        self._check_stream(stream)
        if stream in self.streams:
            return (stream,)
        return tuple(f"{stream}/{at}" for at, _ in enumerate(self.stages[stream].replicas, 1))

    def seats(self, stream: str) -> Mapping[str, tuple[str, ...]]:
        """The parts into which the replicas of a stage divide it if they share its work, each with
        who may publish it, and whose it is first. A part is a stream to those who read it."""
        publishers = self.publishers(stream)
        if stream not in self.stages or not self.stages[stream].is_shared:
            return {}
        return {
            f"{stream}@{at + 1}": (*publishers[at:], *publishers[:at])
            for at in range(len(publishers))
        }

    def readers(self, stream: str) -> tuple[str, ...]:
        """Who reads a stream: all replicas of the stages that do, and sinks. Replicas that share
        their work read it as the seats they sit in."""
        self._check_stream(stream)
        replicas = [
            party
            for name, stage in self.stages.items()
            if stream in stage.inputs
            for party in (self.seats(name) or self.publishers(name))
        ]
        sinks = [name for name, sink in self.sinks.items() if sink.stream == stream]
        return (*replicas, *sinks)

    def peers(self, party: str) -> tuple[str, ...]:
        """The other replicas of a replica's stage; nobody for sources and sinks."""
        table, _, _ = party.partition("/")
        if table in self.stages:
            replicas = self.publishers(table)
            if party in replicas:
                return tuple(replica for replica in replicas if replica != party)
        elif party in self.streams or party in self.sinks:
            return ()
        raise InvalidArgumentError(
            f"party: there is no {party!r} in the topology {self.name}"
            f"{did_you_mean(party, self.parties())}; give a stream, a sink or STAGE/NUMBER"
        )

    def span(self, stage: str) -> Span:
        """How far back the state of a stage depends on its input: its join and its window."""
        if stage not in self.stages:
            raise InvalidArgumentError(
                f"stage: there is no {stage!r} in the topology {self.name}"
                f"{did_you_mean(stage, self.stages)}; give one of {', '.join(self.stages)}"
            )
        return self.stages[stage].span

    def horizon(self, stream: str) -> Span:
        """How far back anything downstream of a stream depends on it, on the longest path."""
        self._check_stream(stream)
        most = most_after(self._inputs(), lambda stage, after: after + self.stages[stage].span)
        return Span(most[stream])

    def order(self) -> tuple[str, ...]:
        """The stages, each after those that it reads."""
        return tuple(sort_stages(self._inputs()))

    def layers(self) -> list[list[str]]:
        """Streams, stages and sinks from left to right, as they are drawn."""
        layers = layers_of(self.streams, self._inputs())
        place = {name: at for at, name in enumerate(name for layer in layers for name in layer)}
        sinks = sorted(self.sinks, key=lambda name: place[self.sinks[name].stream])
        return [*layers, sinks] if sinks else layers

    def _inputs(self) -> Mapping[str, tuple[str, ...]]:
        return {name: stage.inputs for name, stage in self.stages.items()}

    def _check_stream(self, stream: str) -> None:
        if stream not in self.streams and stream not in self.stages:
            known = [*self.streams, *self.stages]
            raise InvalidArgumentError(
                f"stream: there is no {stream!r} in the topology {self.name}"
                f"{did_you_mean(stream, known)}; give one of {', '.join(known)}"
            )


def _host(serving: Stream | Replica) -> str:
    return serving.host or parse_address(serving.address).host
