"""Configuration of one replica's state machine, made from the topology."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from holdfast.config.security import Security as SecurityTable
from holdfast.pipeline.gates.order import Delays
from holdfast.pipeline.machine.commands import Place, Settings
from holdfast.pipeline.machine.output_log import Retention
from holdfast.pipeline.machine.sharing.plan import Guarantee, Rules
from holdfast.pipeline.machine.states import AllOf, AnyOf
from holdfast.pipeline.machine.throttle import Rest
from holdfast.pipeline.machine.vote_subscription import Comparison
from holdfast.pipeline.topology import COMPARING, VOTING, Sink, Stage, Topology, parse_address
from holdfast.transport.security import Identities, Security

BEHIND = 3_000_000
"""A replica that is so much behind does not call itself stable; Spark is not faster than this."""
FOR_GUESTS = 600_000_000
"""So much of a stream is kept for readers that the topology does not know."""
AT_ONCE = 64
"""So many buckets go into one batch at most."""
WAITING = 8 * AT_ONCE
"""So many buckets may wait for the query where replicas are compared; then nobody is read."""
MEMORY = 64 << 20
"""Bytes of rows that may wait at the gate of a replica, for all its inputs together."""


PERIODS = 5
"""Between two pings of replicas that share their work lie so many heartbeats: to take over from one
that was only slow costs more than to read from another."""


def place_of(topology: Topology, party: str, seat: str | None = None) -> Place:
    """Where a replica stands, or one that shares the work of its stage in one of its seats."""
    name = party.partition("/")[0]
    stage = topology.stages[name]
    inputs = inputs_of(topology, name)
    # A join makes nothing without one of its inputs; all else makes something of the others.
    reach = AllOf if stage.join is not None else AnyOf
    # A peer that lies would give its lies on, so those who may lie have nothing to do with others.
    is_alone = seat is not None or is_voted_on(topology, name)
    published = seat or name
    return Place(
        seat or party,
        () if is_alone else topology.peers(party),
        {stream: publishers for stream, (_, publishers) in inputs.items()},
        {published: reach(tuple(inputs))},
        {published: topology.readers(name)},
        retentions={published: retention_of(topology, name)},
        span=int(stage.span),
    )


def inputs_of(topology: Topology, stage: str) -> dict[str, tuple[int, tuple[str, ...]]]:
    """The streams that a stage reads, each with the number of its input and who publishes it. An
    input whose replicas share their work is as many streams as it has seats."""
    return {
        stream: (number, publishers)
        for number, name in enumerate(topology.stages[stage].inputs)
        for stream, publishers in (
            topology.seats(name) or {name: topology.publishers(name)}
        ).items()
    }


def reader_for(seat: str, replica: str) -> str:
    """The name in which a replica reads for a seat: that of the seat, with its own number, for two
    may think that they sit there."""
    return f"{seat}/{replica.partition('/')[2]}"


def rules_of(topology: Topology, name: str) -> Rules:
    """How replicas that share the work of a stage look after each other."""
    stage = topology.stages[name]
    period = PERIODS * int(stage.heartbeat)
    return Rules(
        Guarantee(stage.guarantee),
        period=period,
        missed=stage.missed,
        retry=max(1, period // 2),
        patience=max(1_000_000, 2 * period),
    )


def retention_of(topology: Topology, stream: str) -> Retention:
    """What is kept of a stream for readers that are behind. All stages converge, so beyond that
    they do without."""
    table = topology.streams[stream] if stream in topology.streams else topology.stages[stream]
    if table.retain is None:
        return Retention(least=FOR_GUESTS)
    span = int(table.retain)
    return Retention(span, convergent=True, least=min(span, FOR_GUESTS))


def comparison_of(reader: Stage | Sink) -> Comparison | None:
    """How a stage or a sink compares the replicas that it reads, None if it does not."""
    if reader.policy not in COMPARING:
        return None
    return Comparison(
        reader.policy,
        reader.faults,
        every=reader.every,
        barrier=int(reader.barrier),
        proofs=reader.proofs,
        room=reader.room,
        rest=Rest(reader.rest),
    )


def is_voted_on(topology: Topology, stream: str) -> bool:
    """Whether anybody who reads the stream takes into account that its replicas may lie."""
    policies = {stage.policy for stage in topology.stages.values() if stream in stage.inputs}
    policies |= {sink.policy for sink in topology.sinks.values() if sink.stream == stream}
    return not policies.isdisjoint(VOTING)


def settings_of(topology: Topology, name: str) -> Settings:
    """How a stage is run."""
    stage, size = topology.stages[name], int(topology.bucket)
    max_delay = stage.max_delay if stage.policy == "switch" else math.inf
    retain: float = math.inf
    if stage.retain is not None and max_delay < math.inf:
        # Nothing is given up before it is missed; if nothing is ever missed, nothing at all.
        retain = max(int(stage.retain), int(max_delay) + int(stage.span) + size)
    may_skip = retain < math.inf
    if stage.policy in COMPARING:
        retain = WAITING * size
    headroom = 0 if max_delay == math.inf else int(max_delay) // 10
    return Settings(
        size=size,
        delays=Delays(
            max_delay if max_delay == math.inf else int(max_delay),
            headroom,
            patience=size // 2,
        ),
        heartbeat=int(stage.heartbeat),
        missed=stage.missed,
        lag=max(3, math.ceil(BEHIND / size)),
        most=AT_ONCE,
        retain=retain,
        may_skip=may_skip,
        room=MEMORY // len(inputs_of(topology, name)),
    )


def addresses_of(
    topology: Topology, names: Iterable[str], routes: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Where these parties are reached: as the topology says, or `routes` if it has them."""
    parties = topology.parties()
    found = {name: (routes or {}).get(name) or parties[name].address for name in names}
    return {name: address for name, address in found.items() if address is not None}


def identities_of(topology: Topology) -> Identities:
    """A certificate is good for a party if it names the party, or the host on which it runs: by its
    label, or by an address of the parties there."""
    parties = topology.parties().values()
    hosts: dict[str, set[str]] = {}
    for party in parties:
        names = hosts.setdefault(party.host, {party.host})
        if party.address is not None:
            names.add(parse_address(party.address).host)
    good = {
        party.name: {party.name, f"holdfast:{party.name}", *hosts[party.host]} for party in parties
    }
    for stage in topology.stages:
        for seat, replicas in topology.seats(stage).items():
            good |= {reader_for(seat, replica): good[replica] for replica in replicas}
    return Identities(good)


def security_of(topology: Topology) -> Security | None:
    return read_security(topology.security, topology.home)


def read_security(given: SecurityTable | None, home: Path) -> Security | None:
    """What a file names under [security]; its paths begin at `home`."""
    if given is None:
        return None
    return Security.read(
        token_file=None if given.token_file is None else home / given.token_file,
        token_env=given.token_env,
        certificate=None if given.certificate is None else home / given.certificate,
        key=None if given.key is None else home / given.key,
        authority=None if given.authority is None else home / given.authority,
        mutual=given.mutual,
    )
