"""What `holdfast readmit FILE PARTY` does: the votes of a replica count again, everywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

from holdfast.errors import InvalidArgumentError
from holdfast.parties.places import addresses_of, security_of
from holdfast.topology import VOTING, Topology
from holdfast.wire.client import act
from holdfast.wire.errors import UnreachableError, WireError

__all__ = ["readmit"]

PATIENCE: Final = 5.0
"""Seconds for a reader to answer."""


def readmit(
    topology: Topology, party: str, routes: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Ask all stages that vote on the replica; a line for each of their replicas. Sinks have no
    server: they forget who lied when they are started again."""
    stream = party.partition("/")[0]
    if stream not in topology.stages or party not in topology.publishers(stream):
        raise InvalidArgumentError(
            f"party: {party!r} is no replica of a stage; give STAGE/REPLICA, as clean/1"
        )
    readers = [
        reader
        for name, stage in topology.stages.items()
        if stream in stage.inputs and stage.policy in VOTING
        for reader in topology.publishers(name)
    ]
    if not readers:
        raise InvalidArgumentError(
            f"party: no stage of the topology votes on {stream}, so nobody has {party} in "
            "quarantine; a sink that votes on it forgets that when it is started again"
        )
    security, reached = security_of(topology), 0
    for reader, address in addresses_of(topology, readers, routes).items():
        try:
            was = json.loads(act(address, security, "readmit", party.encode(), timeout=PATIENCE))
        except WireError as error:
            yield f"{reader}: cannot be asked ({error})"
            continue
        reached += 1
        yield f"{reader}: {party} {'counts again' if was else 'was not in quarantine'}"
    if not reached:
        raise UnreachableError(f"nobody who votes on {stream} answers; start them, then ask again")
