"""What every replica of a stage works with: its loop, its server, its query on Spark, its links.

A replica (`Worker`) is what the protocol decides; it is called in the loop's thread only. Before it
takes part, the query finishes what an earlier life has left in the journal.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from shutil import rmtree
from threading import Event
from typing import Any, Final, Protocol

from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from holdfast.errors import StoreCorruptError
from holdfast.parties.counts import ReplicaCounts, spark_status
from holdfast.parties.inbox import Inbox
from holdfast.parties.loop import Clock, Loop
from holdfast.parties.neighbours import Neighbours, pulse_of, wire_status
from holdfast.parties.places import (
    addresses_of,
    identities_of,
    inputs_of,
    security_of,
    settings_of,
)
from holdfast.parties.purpose import check_purpose, stage_purpose
from holdfast.parties.service import StageService
from holdfast.parties.whole_files import sync, write_whole
from holdfast.protocol.line import Line
from holdfast.protocol.messages import Message
from holdfast.spark.stages.compile import compile_stage
from holdfast.spark.stages.entries import Entry, Order
from holdfast.spark.stages.journal import Journal
from holdfast.spark.stages.query import Result, StageQuery
from holdfast.topology import Topology
from holdfast.wire.codec import weight
from holdfast.wire.links import Link
from holdfast.wire.server import LogServer

__all__ = ["Worker", "Workplace"]

logger = logging.getLogger(__name__)

DAMAGE: Final = "damaged.txt"
"""In the folder of a replica: why its other files are of no use."""
SET_ASIDE: Final = "set-aside"
"""In the folder of a replica: files that were of no use when it was started last."""


class Worker(Protocol):
    """Whose workplace it is."""

    @property
    def next_wake(self) -> float: ...

    def wake(self, now: int) -> None: ...

    def receive(self, sender: str, message: Message, now: int) -> None: ...

    def begin(self, now: int) -> None:
        """The query is at the end of its journal: take part."""

    def take_result(self, result: Result, now: int) -> None: ...

    def left(self, party: str) -> None:
        """Its link is gone."""

    def line(self, stream: str) -> Line | None:
        """What it publishes of a stream, None if it does not."""

    def answers(self, body: str) -> Mapping[str, Callable[[], Any]]:
        """What it can be asked to do, with these words; asked for in threads of the server."""


class Workplace:
    """Made, then opened by the worker as the last thing of its own making."""

    def __init__(
        self,
        topology: Topology,
        name: str,
        spark: SparkSession,
        *,
        routes: Mapping[str, str] | None = None,
        spark_ui: str | None = None,
    ) -> None:
        self.topology = topology
        self.name = name
        self.stream = name.partition("/")[0]
        self.stage = topology.stages[self.stream]
        self.settings = settings_of(topology, self.stream)
        self.inputs = {s: number for s, (number, _) in inputs_of(topology, self.stream).items()}
        """Of the streams it reads, as the query numbers them."""
        self.folder = topology.state_folder / name
        self.counts = ReplicaCounts()
        self.ready = Event()
        """Set when it has begun to take part."""
        self._routes = routes
        self._spark = spark
        self._spark_ui = spark_ui
        self._compiled = compile_stage(spark, topology, self.stream)
        self.schema = to_arrow_schema(self._compiled.published, timezone="UTC")
        self.input_schemas = {
            stream: to_arrow_schema(self._compiled.inputs[number], timezone="UTC")
            for stream, number in self.inputs.items()
        }
        check_purpose(self.folder, stage_purpose(topology, self.stream, self._compiled))
        self.was_damaged = False
        """Whether it has set aside the files of an earlier life."""
        self._damage = self.folder / DAMAGE
        if self._damage.exists():
            self.set_aside(self._damage.read_text())
        self._security = security_of(topology)
        self._beat = int(self.stage.heartbeat) / 1e6
        self._drained = -1
        """The entry after which the journal of an earlier life is done."""
        self._clock = Clock()
        self._is_open = False
        """The server may be asked before all of it is there."""

    def open(self, worker: Worker, neighbours: Iterable[str]) -> None:
        """Begin to work; `neighbours`: whom to call."""
        self._worker = worker
        self.loop = Loop(self.name, self._clock, worker.wake, lambda: worker.next_wake)
        address = self.topology.parties()[self.name].address
        assert address is not None
        pulse, silence = pulse_of(self._beat)
        self.server = LogServer(
            address,
            self._security,
            StageService(self, worker),
            identities=identities_of(self.topology),
            heartbeat=pulse,
            silence=silence,
        )
        try:
            self._query = StageQuery(
                self._spark,
                self._compiled,
                self.folder,
                size=self.settings.size,
                shards=self.stage.shards,
                address=(self.server.address.host, self.server.address.port),
                security=self._security,
                deliver=self._deliver,
            )
        except Exception as error:
            self.server.close()
            if isinstance(error, StoreCorruptError):
                # The next start finds that.
                write_whole(self._damage, str(error).encode())
            raise
        self.neighbours = self.call(self.name, neighbours, worker.receive)
        self._is_open = True
        self.loop.start()
        self.loop.post(self._drain)

    def call(
        self, me: str, parties: Iterable[str], take: Callable[[str, Message, int], None]
    ) -> Neighbours:
        """Links to these parties; what they say is taken in the loop's thread."""

        addresses = addresses_of(self.topology, parties, self._routes)
        inboxes = {party: Inbox(self.loop) for party in addresses}

        def put(sender: str, message: Message) -> None:
            inboxes[sender].put(weight(message), lambda now: take(sender, message, now))

        return Neighbours(me, addresses, self._security, put, heartbeat=self._beat)

    def close(self) -> None:
        # The query first, for it reads from the server.
        self._query.stop()
        self.neighbours.close()
        self.server.close()
        self.loop.stop()

    def set_aside(self, reason: str) -> None:
        """Begin with an empty folder, for what is in it is damaged; keep that for whoever wants to
        look at it."""
        logger.error(
            "%s: %s. Its files are set aside in %s; it gets its state from a peer or its inputs",
            self.name,
            reason,
            self.folder / SET_ASIDE,
        )
        kept = self.folder / SET_ASIDE
        rmtree(kept, ignore_errors=True)
        kept.mkdir()
        for name in ("checkpoint", "journal", "handed-over", "log"):
            with suppress(FileNotFoundError):
                (self.folder / name).rename(kept / name)
        self._damage.unlink(missing_ok=True)
        sync(self.folder)
        self.was_damaged = True

    @property
    def failure(self) -> str | None:
        """Why it cannot go on, if it cannot."""
        failure = self.loop.failure or self._query.failure
        if failure is None:
            return None
        if isinstance(self.loop.error, StoreCorruptError) or self._query.is_damaged:
            # The next start finds that.
            write_whole(self._damage, failure.encode())
        elif not self.ready.is_set():
            return (
                f"{failure}\nIf every start ends like this, delete {self.folder}: "
                f"{self.name} gets its state from a peer or its inputs"
            )
        return failure

    # The query

    @property
    def journal(self) -> Journal:
        return self._query.journal

    def submit(self, entry: Entry) -> int:
        """Have the query do this after all that it was asked for before; the entry's number."""
        return self._query.submit(entry)

    def _drain(self, now: int) -> None:
        """A fork of the life before goes."""
        self._drained = self.submit(Entry(0, Order.DROP))

    def _deliver(self, result: Result) -> None:
        """Called by Spark: wait until it is taken, for then Spark takes it for done."""
        self.loop.hand_over(lambda now: self._take_result(result, now))

    def _take_result(self, result: Result, now: int) -> None:
        self._worker.take_result(result, now)
        if result.entry == self._drained and not self.ready.is_set():
            self._worker.begin(now)
            self.ready.set()

    # What is told of it

    def status(
        self, more: Callable[[], Mapping[str, Any]], links: Iterable[Link] = ()
    ) -> dict[str, Any]:
        """What a person or a program may want to know of it: its own, and what the worker knows
        once all is there. `links`: beside those to its neighbours."""
        said = {
            "party": self.name,
            "kind": "replica",
            "ready": self.ready.is_set(),
            "was_damaged": self.was_damaged,
            **self.counts.status(self._clock.behind(0)),
            "clock_ahead_seconds": self._clock.ahead() / 1e6,
        }
        if not self._is_open:
            return said
        return {
            **said,
            **more(),
            **spark_status(self._query.progress, self._spark_ui),
            **wire_status(self.server, [*self.neighbours.links.values(), *links]),
        }
