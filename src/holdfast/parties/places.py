"""From a topology to what the protocol of one replica is told."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.gates.order import Delays
from holdfast.protocol.line import Retention
from holdfast.protocol.place import Place, Settings
from holdfast.protocol.streams import AllOf, AnyOf
from holdfast.topology import Stage, Topology, parse_address
from holdfast.wire.identities import Identities
from holdfast.wire.security import Security

__all__ = [
    "addresses_of",
    "identities_of",
    "place_of",
    "retention_of",
    "security_of",
    "settings_of",
]

BEHIND = 3_000_000
"""A replica that is so much behind does not call itself stable; Spark is not faster than this."""
FOR_GUESTS = 600_000_000
"""So much of a stream is kept for readers that the topology does not know."""
AT_ONCE = 64
"""So many buckets go into one batch at most."""


def place_of(topology: Topology, party: str) -> Place:
    """Where a replica stands."""
    name = party.partition("/")[0]
    stage = topology.stages[name]
    # A join makes nothing without one of its inputs; all else makes something of the others.
    reach = AllOf if stage.join is not None else AnyOf
    return Place(
        party,
        topology.peers(party),
        {stream: topology.publishers(stream) for stream in stage.inputs},
        {name: reach(tuple(stage.inputs))},
        {name: topology.readers(name)},
        retentions={name: retention_of(topology, name)},
        span=int(stage.span),
    )


def retention_of(topology: Topology, stream: str) -> Retention:
    """What is kept of a stream for readers that are behind. All stages converge, so beyond that
    they do without."""
    table = topology.streams[stream] if stream in topology.streams else topology.stages[stream]
    if table.retain is None:
        return Retention(least=FOR_GUESTS)
    span = int(table.retain)
    return Retention(span, convergent=True, least=min(span, FOR_GUESTS))


def settings_of(topology: Topology, stage: Stage) -> Settings:
    size = int(topology.bucket)
    if stage.policy not in ("switch", "order"):
        raise InvalidArgumentError(
            f"policy: {stage.policy!r} does not run on Spark yet; give 'switch' or 'order'"
        )
    max_delay = stage.max_delay if stage.policy == "switch" else math.inf
    retain: float = math.inf
    if stage.retain is not None and max_delay < math.inf:
        # Nothing is given up before it is missed; if nothing is ever missed, nothing at all.
        retain = max(int(stage.retain), int(max_delay) + int(stage.span) + size)
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
        may_skip=retain < math.inf,
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
    return Identities(
        {
            party.name: {party.name, f"holdfast:{party.name}", *hosts[party.host]}
            for party in parties
        }
    )


def security_of(topology: Topology) -> Security | None:
    given = topology.security
    if given is None:
        return None
    return Security.read(
        token_file=None if given.token_file is None else topology.path(given.token_file),
        token_env=given.token_env,
        certificate=None if given.certificate is None else topology.path(given.certificate),
        key=None if given.key is None else topology.path(given.key),
        authority=None if given.authority is None else topology.path(given.authority),
        mutual=given.mutual,
    )
