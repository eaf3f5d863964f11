"""The command `holdfast node FILE PARTY`: one party of a topology in this process."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from threading import Event
from typing import Any, Final, NamedTuple, Protocol

from holdfast.errors import HoldfastError, InvalidArgumentError
from holdfast.pipeline.process.metrics import serve_party_metrics
from holdfast.pipeline.topology import PartyKind, Topology
from holdfast.storage.lock_file import FolderGuard

SUPERVISOR: Final = "HOLDFAST_SUPERVISOR"
"""In the environment: the process that keeps this one going, and that it does not outlive."""

LOOK = 0.2
"""Seconds between two looks at whether the party is well."""

logger = logging.getLogger("holdfast")


class PartyEndedError(HoldfastError):
    """The party cannot go on; started again, it goes on from its folder."""


class _Part(Protocol):
    @property
    def failure(self) -> str | None: ...


class _Running(NamedTuple):
    """A party at work. If one part of it has failed, all of it has."""

    parts: tuple[_Part, ...]
    status: Callable[[], Mapping[str, Any]]

    @property
    def failure(self) -> str | None:
        return next((part.failure for part in self.parts if part.failure is not None), None)


def run_party(
    topology: Topology,
    name: str,
    *,
    master: str = "local[2]",
    routes: Mapping[str, str] | None = None,
    metrics: int | None = None,
    spark_ui: bool = False,
) -> None:
    """Returns when it is asked to end (SIGTERM, Ctrl-C); raises if it cannot go on. `metrics`: the
    port of the page for Prometheus. `spark_ui`: whether a replica's Spark serves its own page."""
    party = topology.parties().get(name)
    if party is None:
        known = ", ".join(topology.parties())
        raise InvalidArgumentError(
            f"party: there is no {name!r} in the topology; give one of {known}"
        )
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)
    with _asked_to_end() as ending, ExitStack() as stack:
        guard = stack.enter_context(FolderGuard(topology.state_folder / name))
        match party.kind:
            case PartyKind.REPLICA:
                running = _start_replica(stack, guard, topology, name, master, routes, spark_ui)
            case PartyKind.SOURCE:
                running = _start_source(stack, topology, name)
            case PartyKind.SINK:
                running = _start_sink(stack, topology, name, routes)
        if metrics is not None:
            stack.enter_context(serve_party_metrics(running.status, metrics))
        logger.info("%s: started", name)
        while not ending.wait(LOOK):
            if running.failure is not None:
                raise PartyEndedError(f"{name}: {running.failure}")
            if os.environ.get(SUPERVISOR, str(os.getppid())) != str(os.getppid()):
                raise PartyEndedError(f"{name}: its supervisor is gone; start that again")
        logger.info("%s: ends", name)


@contextmanager
def _asked_to_end() -> Iterator[Event]:
    ending = Event()
    before = {each: signal.signal(each, lambda *_: ending.set()) for each in _SIGNALS}
    try:
        yield ending
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def _start_replica(
    stack: ExitStack,
    guard: FolderGuard,
    topology: Topology,
    name: str,
    master: str,
    routes: Mapping[str, str] | None,
    spark_ui: bool,
) -> _Running:
    from holdfast.pipeline.process.replica import Replica
    from holdfast.pipeline.process.shared_replica import SharingReplica
    from holdfast.spark.sessions import driver_pid, local_session, stop_session

    stage = topology.stages[name.partition("/")[0]]
    spark = local_session(f"holdfast {name}", master=master, partitions=stage.shards, ui=spark_ui)
    stack.callback(stop_session, spark)
    guard.note_spark(driver_pid(spark))
    kind = SharingReplica if stage.is_shared else Replica
    page = spark.sparkContext.uiWebUrl
    replica = kind(topology, name, spark, routes=routes, spark_ui=page)
    stack.callback(replica.close)
    return _Running((replica,), replica.status)


def _start_source(stack: ExitStack, topology: Topology, name: str) -> _Running:
    from holdfast.pipeline.process.source import SourceParty
    from holdfast.pipeline.sources import arrow_schema, open_source

    party = SourceParty(topology, name, arrow_schema(topology.streams[name]))
    stack.callback(party.close)
    driver = open_source(topology, name, party)
    driver.start()
    stack.callback(driver.stop)
    return _Running((party, driver), lambda: {**party.status(), "brought": driver.counts})


def _start_sink(
    stack: ExitStack, topology: Topology, name: str, routes: Mapping[str, str] | None
) -> _Running:
    from holdfast.pipeline.sinks import open_sink

    sink = open_sink(topology, name, routes=routes)
    sink.start()
    stack.callback(sink.stop)
    return _Running((sink,), sink.way.status)


def read_routes(given: list[str]) -> dict[str, str]:
    """`PARTY=HOST:PORT` as given on the command line."""
    routes = {}
    for each in given:
        party, sign, address = each.partition("=")
        if not sign or not party or ":" not in address:
            raise InvalidArgumentError(f"--route: {each!r} is no route; give PARTY=HOST:PORT")
        routes[party] = address
    return routes
