"""Topologies of one stream on loopback, and things to wait for."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.ports import free_port
from holdfast.pipeline.machine.tuples import Kind
from holdfast.pipeline.process.reader import Reader
from holdfast.pipeline.process.source import Driver, FullError, SourceParty
from holdfast.pipeline.process.tail import open_reader
from holdfast.pipeline.sources import arrow_schema, open_source
from holdfast.pipeline.topology import Console, Push, Sink, Source, Stream, Topology
from tests.transport.parties import wait_for

__all__ = [
    "SCHEMA",
    "Taker",
    "alone",
    "final_rows",
    "party_of",
    "reading",
    "running",
    "wait_for",
]

SCHEMA = {"sensor": "string", "value": "double"}


def alone(
    folder: Path,
    source: Source | None = None,
    *,
    sinks: Mapping[str, Sink] | None = None,
    bucket: str = "100ms",
    **settings: Any,
) -> Topology:
    """One stream, `readings`. What it has published is kept for a sink that may not be running."""
    return Topology(
        name="alone",
        bucket=bucket,
        streams={
            "readings": Stream(
                source=source or Push(schema=SCHEMA),
                address=f"127.0.0.1:{free_port()}",
                **settings,
            )
        },
        sinks=sinks or {"keeper": Sink(stream="readings", sink=Console())},
        home=folder,
    )


@contextmanager
def party_of(topology: Topology, name: str = "readings") -> Iterator[SourceParty]:
    party = SourceParty(topology, name, arrow_schema(topology.streams[name]))
    try:
        yield party
    finally:
        party.close()


@contextmanager
def reading(topology: Topology, position: int = 0) -> Iterator[Reader]:
    with open_reader(
        topology, "readings", me="somebody", position=position, tentative=False
    ) as reader:
        yield reader


def final_rows(topology: Topology, count: int, seconds: float = 60.0) -> pa.Table:
    """The first rows of the stream, once there are so many."""
    end = time.monotonic() + seconds
    tables: list[pa.Table] = []
    with reading(topology) as reader:
        while sum(map(len, tables)) < count:
            told = reader.next(seconds)
            assert told is not None, f"waited {seconds:g} seconds in vain"
            if told.kind is Kind.INSERT and told.rows is not None:
                tables.append(told.rows)
            assert time.monotonic() < end, f"{sum(map(len, tables))} rows, not {count}"
    return pa.concat_tables(tables)


class Taker:
    """A party in memory: what sources bring rows to."""

    def __init__(self, place: Any = None) -> None:
        self.place = place
        self.in_touch = True
        self.tables: list[pa.Table] = []
        self.full = 0
        """So many times it has no room."""
        self.finished = 0

    @property
    def rows(self) -> int:
        return sum(map(len, self.tables))

    def take(self, table: pa.Table, place: Any = None) -> None:
        self._check_room()
        self.tables.append(table)
        if place is not None:
            self.place = place

    def finish(self) -> None:
        self._check_room()
        self.finished += 1

    def table(self) -> pa.Table:
        return pa.concat_tables(self.tables)

    def _check_room(self) -> None:
        if self.full:
            self.full -= 1
            raise FullError("full")


@contextmanager
def running(topology: Topology, party: Any) -> Iterator[Driver[Any]]:
    """The source of `readings`, at work."""
    driver = open_source(topology, "readings", party)
    driver.start()
    try:
        yield driver
    finally:
        driver.stop()
