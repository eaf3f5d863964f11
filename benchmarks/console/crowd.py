"""A large topology that is made up: no party runs, the collector is told how each is."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa

from holdfast.console.collector import Collector
from holdfast.console.pollers import condition_of
from holdfast.console.server import ConsoleServer
from holdfast.console.topology_view import leaves
from holdfast.pipeline.machine.tuples import Kind
from holdfast.pipeline.process.reader import Told
from holdfast.pipeline.topology import Rate, Select, Stage, Stream, Topology
from holdfast.transport.security import Security

__all__ = ["Crowd", "crowd_topology"]

SOURCES, LAYERS, WIDTH, REPLICAS = 10, 4, 10, 5
"""50 streams: 10 from outside and 40 stages of 5 replicas, which are 200."""
SCHEMA = pa.schema(
    [("stime", pa.timestamp("us", "UTC")), ("sensor", pa.string()), ("value", pa.float64())]
)
SENSORS = 20


def crowd_topology(folder: Path) -> Topology:
    ports = iter(range(20_000, 30_000))
    streams = {
        f"source{number}": Stream(source=Rate(rows_per_second=1), address=_address(ports))
        for number in range(SOURCES)
    }
    stages = {}
    before = list(streams)
    for layer in range(LAYERS):
        names = [f"stage{layer}x{number}" for number in range(WIDTH)]
        for number, name in enumerate(names):
            stages[name] = Stage(
                inputs=[before[number], before[(number + 1) % len(before)]],
                replicas=[_address(ports) for _ in range(REPLICAS)],
                max_delay="5s",
                steps=[Select(["value"])],
            )
        before = names
    return Topology(name="crowd", bucket="1s", streams=streams, stages=stages, home=folder)


def _address(ports: Iterator[int]) -> str:
    return f"127.0.0.1:{next(ports)}"


class _Silent:
    """A stream of which only the benchmark tells."""

    found: Mapping[str, Any] = {}

    def next(self, timeout: float | None = None) -> Told | None:
        Event().wait(timeout)
        return None

    def close(self) -> None: ...


class Crowd:
    """A collector whose clock and parties are ours."""

    def __init__(self, folder: Path, now: float) -> None:
        self.now = now
        self.topology = crowd_topology(folder)
        # The page shows the same one first.
        self._shown = leaves(self.topology)[0]
        self.collector = Collector(
            self.topology, open_=lambda _: _Silent(), watch=[self._shown], clock=lambda: self.now
        )
        self._parties = list(self.topology.parties().values())
        self._step = 0

    @contextmanager
    def page(self) -> Iterator[str]:
        """The address of its page."""
        try:
            with ConsoleServer(self.collector, Security("token")) as server:
                yield server.url
        finally:
            self.collector.close()

    def go_on(self, seconds: float) -> None:
        """Everybody says something new, a few change their state, and the stream goes on."""
        self.now += seconds
        self._step += 1
        for number, party in enumerate(self._parties):
            self.collector.take(party.name, condition_of(self._status(number, party.name)))
        self.collector.history.tick(self.now, self.collector.conditions())
        self.collector.ticks += 2
        self.collector.tails.of(self._shown).add(self.now, self._told())

    def _status(self, number: int, name: str) -> bytes:
        # Each is tentative for a tenth of the time, one after the other.
        is_shaky = (number * 7 + self._step) % 40 < 4
        stage = self.topology.stages.get(name.partition("/")[0])
        links: dict[str, bool] = {}
        if stage is not None:
            links = {
                each: not (is_shaky and each.endswith("/1"))
                for stream in stage.inputs
                for each in self.topology.publishers(stream)
            }
        said: dict[str, Any] = {
            "state": "UP_FAILURE" if is_shaky else "STABLE",
            "stable_rows": 1000 * self._step + number,
            "boundary": int(self.now * 1e6),
            "lag_seconds": 1 + number % 7 / 10 + self._step % 10 / 10,
            "batch_seconds": 0.2 + number % 5 / 10,
            "links": links,
        }
        return json.dumps(said).encode()

    def _told(self) -> Told:
        end = int(self.now * 1e6)
        rows = pa.table(
            {
                "stime": [end - 1] * SENSORS,
                "sensor": [f"s{number}" for number in range(SENSORS)],
                "value": [math.sin(self.now / 9 + number) for number in range(SENSORS)],
            },
            schema=SCHEMA,
        )
        kind = Kind.TENTATIVE if self._step % 40 > 30 else Kind.INSERT
        return Told(Kind.UNDO, end) if self._step % 40 == 0 else Told(kind, end, rows)
