"""Readers of a topology's streams.

for told in read_stream("fleet.toml", "clean", tentative=False):
    if told.rows is not None:
        print(told.rows.to_pandas())
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

from holdfast.errors import InvalidArgumentError
from holdfast.parties.places import addresses_of, security_of
from holdfast.parties.reader import Reader
from holdfast.topology import Topology
from holdfast.wire import Security, UnreachableError, WireError, act

__all__ = ["newest_boundary", "open_reader", "read_stream", "statuses"]

PATIENCE = 3.0
"""Seconds for a publisher to say how it is."""


def read_stream(
    topology: Topology | str | Path,
    stream: str,
    *,
    position: int | str = "newest",
    tentative: bool = True,
    routes: Mapping[str, str] | None = None,
) -> Reader:
    """Read a stream as a guest: nothing is kept for us, and what is kept no longer is skipped.

    `topology`: one, or the path of its file. `position`: `"newest"`, `"oldest"`, or a boundary
    before which all has been read. Without `tentative` only final rows are told. `routes`:
    addresses of parties that are reached elsewhere than the topology says. Close the reader, or use
    it in a `with` statement."""
    if not isinstance(topology, Topology):
        topology = Topology.read(topology)
    match position:
        case "newest":
            position = newest_boundary(topology, stream, routes)
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
) -> Reader:
    """A reader of all who publish the stream, with the heartbeat of its stage."""
    pulse: dict[str, Any] = {}
    if stream in topology.stages:
        stage = topology.stages[stream]
        pulse = {"heartbeat": int(stage.heartbeat), "missed": stage.missed}
    return Reader(
        stream,
        addresses_of(topology, topology.publishers(stream), routes),
        me=me,
        security=security_of(topology),
        tentative=tentative,
        position=position,
        may_skip=may_skip,
        acknowledges=acknowledges,
        **pulse,
    )


def newest_boundary(
    topology: Topology, stream: str, routes: Mapping[str, str] | None = None
) -> int:
    """Up to where the stream is final, as far as anybody who publishes it knows."""
    addresses = addresses_of(topology, topology.publishers(stream), routes)
    told = statuses(stream, addresses, security_of(topology))
    return max(int(status["boundary"]) for status in told.values())


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
