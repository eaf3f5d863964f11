"""Readers of a topology's streams.

for told in read_stream("fleet.toml", "clean", tentative=False):
    if told.rows is not None:
        print(told.rows.to_pandas())
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

from holdfast.errors import InvalidArgumentError
from holdfast.parties.places import addresses_of, security_of
from holdfast.parties.reader import Reader
from holdfast.parties.verdicts import Verdicts
from holdfast.protocol.comparison import VOTING, Comparison
from holdfast.topology import Topology
from holdfast.wire.client import act
from holdfast.wire.errors import UnreachableError, WireError
from holdfast.wire.security import Security

__all__ = [
    "newest_boundary",
    "newest_of",
    "open_reader",
    "parts_of",
    "read_stream",
    "statuses",
]

BARRIER = 3_000_000
"""Microseconds for which a guest that compares publishers waits for all of them."""
PATIENCE = 3.0
"""Seconds for a publisher to say how it is."""


def read_stream(
    topology: Topology | str | Path,
    stream: str,
    *,
    position: int | str = "newest",
    tentative: bool = True,
    policy: str = "switch",
    faults: int = 1,
    routes: Mapping[str, str] | None = None,
) -> Reader:
    """Read a stream as a guest: nothing is kept for us, and what is kept no longer is skipped.

    `topology`: one, or the path of its file. `position`: `"newest"`, `"oldest"`, or a boundary
    before which all has been read. Without `tentative` only final rows are told. `policy`: with
    `"vote"`, only rows on which all replicas but `faults` agree, and never tentative ones; or
    another policy that compares replicas. `routes`: addresses of parties that are reached elsewhere
    than the topology says. Close the reader, or use it in a `with` statement."""
    if not isinstance(topology, Topology):
        topology = Topology.read(topology)
    comparison = None
    if policy != "switch":
        if topology.seats(stream):
            raise InvalidArgumentError(
                f"policy: {policy!r} compares replicas, and those of {stream} share their work; "
                "leave it out"
            )
        comparison = Comparison(policy, faults, barrier=BARRIER)
    match position:
        case "newest":
            liars = faults if policy in VOTING else 0
            position = newest_boundary(topology, stream, routes, liars=liars)
        case "oldest":
            position = 0
        case str() | bool():
            raise InvalidArgumentError(
                f"position: is {position!r}; give 'newest', 'oldest' or a boundary"
            )
    return open_reader(
        topology,
        stream,
        me=f"guest-{uuid4().hex}",
        position=position,
        tentative=tentative,
        may_skip=True,
        routes=routes,
        comparison=comparison,
    )


def open_reader(
    topology: Topology,
    stream: str,
    *,
    me: str,
    position: int,
    tentative: bool,
    may_skip: bool = False,
    acknowledges: bool = False,
    routes: Mapping[str, str] | None = None,
    comparison: Comparison | None = None,
) -> Reader:
    """A reader of all who publish the stream, with the heartbeat of its stage. `comparison`: how
    they are compared; else the best of them is read."""
    pulse: dict[str, Any] = {}
    if stream in topology.stages:
        stage = topology.stages[stream]
        pulse = {"heartbeat": int(stage.heartbeat), "missed": stage.missed}
    publishers = topology.publishers(stream)
    verdicts = None
    if comparison is not None and stream in topology.stages:
        verdicts = Verdicts(me, comparison, {stream: publishers})
    return Reader(
        stream,
        addresses_of(topology, publishers, routes),
        me=me,
        security=security_of(topology),
        tentative=tentative,
        position=position,
        may_skip=may_skip,
        acknowledges=acknowledges,
        verdicts=verdicts,
        seats=topology.seats(stream),
        size=int(topology.bucket),
        **pulse,
    )


def newest_boundary(
    topology: Topology,
    stream: str,
    routes: Mapping[str, str] | None = None,
    *,
    liars: int = 0,
) -> int:
    """Up to where the stream is final, as far as anybody who publishes it knows. `liars`: so many
    may claim anything."""
    addresses = addresses_of(topology, topology.publishers(stream), routes)
    told = statuses(stream, addresses, security_of(topology))
    seats = topology.seats(stream)
    if seats:
        return newest_of(told, seats)
    ends = sorted((int(status["boundary"]) for status in told.values()), reverse=True)
    return ends[min(liars, len(ends) - 1)]


def newest_of(told: Mapping[str, Mapping[str, Any]], seats: Iterable[str]) -> int:
    """Up to where all parts of a shared stream are final, by what its replicas say; 0 if nobody
    speaks for one of them."""
    return min(
        max((part["boundary"] for part in parts_of(told, seat)), default=0) for seat in seats
    )


def parts_of(told: Mapping[str, Mapping[str, Any]], seat: str) -> list[Mapping[str, int]]:
    """From where to where anybody has this part of a shared stream."""
    said = [status.get("seats", {}) for status in told.values()]
    return [each[seat] for each in said if seat in each]


def statuses(
    stream: str, addresses: Mapping[str, str], security: Security | None
) -> dict[str, dict[str, Any]]:
    """How those are who publish the stream and answer; an error if nobody does."""

    def ask(name: str) -> dict[str, Any] | WireError:
        try:
            return dict(json.loads(act(addresses[name], security, "status", timeout=PATIENCE)))
        except WireError as error:
            return error

    with ThreadPoolExecutor(len(addresses)) as threads:
        answers = dict(zip(addresses, threads.map(ask, addresses), strict=True))
    told = {name: answer for name, answer in answers.items() if isinstance(answer, dict)}
    if not told:
        said = "; ".join(f"{name}: {answer}" for name, answer in answers.items())
        raise UnreachableError(f"nobody who publishes {stream} answers ({said})")
    return told
