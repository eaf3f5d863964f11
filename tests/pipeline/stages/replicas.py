"""A query of a stage with all it needs: a folder, a server that gives out rows, and someone who
waits for results."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import Condition

from pyspark.sql import SparkSession

from holdfast.pipeline.stages.compile import compile_stage
from holdfast.pipeline.stages.entries import Entry, Journal, read_journal_ticket
from holdfast.pipeline.stages.query import StageQuery
from holdfast.pipeline.stages.results import Result
from holdfast.pipeline.topology import Topology
from holdfast.transport.server import LogServer
from tests.pipeline.stages.gates import BUCKET

PATIENCE = 120.0


class Journals:
    """Gives out rows of a journal and nothing else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, ticket: bytes):
        found = read_journal_ticket(ticket)
        assert found is not None
        entry, piece = found
        return Journal(self.folder).read(entry).pieces[piece].chunk.table()

    def opened(self, party, link): ...

    def received(self, party, message): ...

    def closed(self, party, link): ...

    def push(self, stream, batch):
        return b""

    def act(self, name, body):
        return b""

    def streams(self):
        return {}


class RunningStage:
    """A context manager. `delivered` has all results in the order they came, repeated ones too."""

    def __init__(self, spark: SparkSession, topology: Topology, name: str, folder: Path) -> None:
        self._spark = spark
        self._compiled = compile_stage(spark, topology, name)
        self._shards = topology.stages[name].shards
        self.folder = folder
        self._changed = Condition()
        self.delivered: list[Result] = []
        self.refuse: Callable[[Result], bool] = lambda result: False
        """Whether a result is to meet with a failure."""
        self._server = LogServer(("127.0.0.1", 0), None, Journals(folder / "journal"))
        self.start()

    def start(self) -> None:
        self.query = StageQuery(
            self._spark,
            self._compiled,
            self.folder,
            size=BUCKET,
            shards=self._shards,
            address=("127.0.0.1", self._server.address.port),
            security=None,
            deliver=self._deliver,
        )

    def restart(self) -> None:
        self.query.stop()
        self.start()

    def run(self, *entries: Entry) -> list[Result]:
        """Results of entries, each as it came first."""
        numbers = [self.query.submit(entry) for entry in entries]
        deadline = time.monotonic() + PATIENCE
        with self._changed:
            while not set(numbers) <= {each.entry for each in self.delivered}:
                assert self.query.failure is None, self.query.failure
                assert time.monotonic() < deadline
                self._changed.wait(0.2)
        return [next(each for each in self.delivered if each.entry == n) for n in numbers]

    def wait_for_failure(self) -> str:
        deadline = time.monotonic() + PATIENCE
        with self._changed:
            while self.query.failure is None:
                assert time.monotonic() < deadline
                self._changed.wait(0.1)
        return self.query.failure

    def _deliver(self, result: Result) -> None:
        if self.refuse(result):
            raise RuntimeError("this was refused")
        with self._changed:
            self.delivered.append(result)
            self._changed.notify_all()

    def __enter__(self) -> RunningStage:
        return self

    def __exit__(self, *error: object) -> None:
        self.query.stop()
        self._server.close()
