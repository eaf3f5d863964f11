"""A platform to be measured: the same stages in this process, or as a query of Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.tenants.topologies import Topology
from holdfast.tenants.machine.documents import Channel, Input, ServiceObject, Stream
from holdfast.tenants.process.backlog import Quotas
from holdfast.tenants.process.engine.planning import Planner
from holdfast.tenants.process.engine.query import start_query, write_place
from holdfast.tenants.process.engine.storing import run_batch
from holdfast.tenants.process.log import Publication
from holdfast.tenants.process.service import Service

__all__ = ["Site", "streams_of"]

QUOTAS = Quotas(streams=10**6, inputs=256, depth=1000, fan_out=10**6)
PATIENCE = 120.0


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.service = Service.open(folder)
        self._planner = Planner(self.service.database)
        # Later than all that an earlier process has published here.
        self._clock = self.service.log.end
        self._on_spark = False

    def put(self, name: str, streams: dict[str, Stream]) -> None:
        self.service.catalog.put("bench", name, ServiceObject(streams), QUOTAS)

    def publish(self, paths: list[str], rounds: int = 1) -> int:
        """Updates of each, at once; answers the position of the last one."""
        made = []
        for _ in range(rounds):
            self._clock += 1
            made += [Publication(path, self._clock, {"n": float(self._clock)}) for path in paths]
        return self.service.log.append(made)[-1].position

    def settle(self) -> None:
        """All that is in the log: by Spark if that runs, else here."""
        if self._on_spark:
            if not self.service.wait_settled(self.service.log.end, PATIENCE):
                raise TimeoutError("the query on Spark does not settle the log")
            return
        while (plan := run_batch(self.service.database, self._planner)) is not None:
            self.service.settled(plan.settled)

    def seconds(self, paths: list[str]) -> float:
        """For an update of each of these streams to have reached all that take them."""
        began = time.perf_counter()
        self.publish(paths)
        self.settle()
        return time.perf_counter() - began

    def rate(self, paths: list[str], rounds: int) -> float:
        """Updates a second, from being published to all that comes of them."""
        began = time.perf_counter()
        self.publish(paths, rounds)
        self.settle()
        return len(paths) * rounds / (time.perf_counter() - began)

    @contextmanager
    def on_spark(self, spark: SparkSession) -> Iterator[None]:
        write_place(self.folder, str(self.folder / "store.db"))
        query = start_query(spark, self.folder, self.service.database, self.service.stored)
        self._on_spark = True
        try:
            yield
        finally:
            self._on_spark = False
            query.stop()

    def close(self) -> None:
        self.service.database.close()


def streams_of(topology: Topology) -> dict[str, Stream]:
    """Each composite stream is the sum of its inputs, as in the document."""
    streams = {name: Stream({"n": Channel("number")}) for name in topology.sources}
    for name, inputs in topology.composites.items():
        aliases = {f"i{n}": Input(source) for n, source in enumerate(inputs)}
        # A balanced sum: expressions may be nested only so deeply.
        total = _sum([f"i{n}.n" for n in range(len(inputs))])
        streams[name] = Stream({"n": Channel("number", total)}, inputs=aliases)
    return streams


def _sum(terms: list[str]) -> str:
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    return f"({_sum(terms[:middle])} + {_sum(terms[middle:])})"
