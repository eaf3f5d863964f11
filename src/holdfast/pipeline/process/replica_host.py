"""Base of every replica process: event loop, server, query on Spark, links.

A replica (`Worker`) is what the protocol decides; it is called in the loop's thread only. Before it
takes part, the query finishes what an earlier life has left in the journal.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from threading import Event
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from holdfast.errors import InvalidArgumentError, StoreCorruptError
from holdfast.pipeline.machine.messages import Message
from holdfast.pipeline.machine.node import Node
from holdfast.pipeline.machine.output_log import Line
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.process.replica_config import (
    addresses_of,
    identities_of,
    inputs_of,
    security_of,
    settings_of,
)
from holdfast.pipeline.process.service import Neighbours, StageService, pulse_of, wire_status
from holdfast.pipeline.stages.compile import compile_stage
from holdfast.pipeline.stages.entries import Entry, Journal, Order
from holdfast.pipeline.stages.query import Result, StageQuery
from holdfast.pipeline.topology import Topology
from holdfast.pipeline.topology.streams import SOURCES
from holdfast.pipeline.topology.writing import word_of, write_step
from holdfast.runtime.loop import Clock, Inbox, Loop
from holdfast.storage.atomic_file import make_folder, sync, write_whole
from holdfast.transport.codec import weight
from holdfast.transport.links import Link
from holdfast.transport.server import LogServer

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from holdfast.pipeline.stages.compile import Compiled


@dataclass(slots=True)
class ReplicaCounts:
    """Plain values, so that other threads may read them."""

    stable: int = 0
    """Rows published as final since it was started."""
    tentative: int = 0
    """Rows shown as tentative."""
    state: str = "FAILURE"
    start: int = 0
    """From where on its stream is kept."""
    boundary: int = 0
    """Up to where it is final."""
    newest: int = 0
    """Up to where anything was shown."""
    buffered: int = 0
    """Buckets that wait at the gate."""
    waiting: int = 0
    """Bytes of rows that wait there in memory."""
    shelved: int = 0
    """Bytes of rows that wait there on disk."""
    previews_dropped: int = 0
    """Buckets of tentative input that the gate dropped, for the stage does not keep up."""
    is_stranded: bool = False
    """Whether it has lost its state, nobody has it, and its inputs are not kept from the start."""

    seats: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Of one that shares the work of its stage: from where to where it has each part."""

    def look(self, nodes: Collection[Node]) -> None:
        """Note how its nodes are: one, or one for each seat that it sits in; together they are no
        better than the worst of them."""
        lines = [line for node in nodes for line in node.lines.values()]
        states = [node.stream_state(name) for node in nodes for name in node.lines]
        self.state = max(states, default=State.FAILURE).name
        if not lines:
            self.seats = {}
            return
        self.start = max(line.dropped_before for line in lines)
        self.boundary = min(line.end for line in lines)
        self.newest = min(line.previewed for line in lines)
        self.buffered = sum(node.gate.buffered for node in nodes)
        self.waiting = sum(node.gate.held_in_memory for node in nodes)
        self.shelved = sum(node.gate.held_on_shelf for node in nodes)
        self.previews_dropped = sum(node.gate.previews_dropped for node in nodes)
        self.is_stranded = any(node.is_stranded for node in nodes)
        self.seats = {
            line.stream: {"start": line.dropped_before, "boundary": line.end} for line in lines
        }

    def status(self, now: int) -> dict[str, Any]:
        """`now`: by the machine's clock, whatever the loop is at: one that hangs lags too, and one
        whose stream is ahead of the clock lags by less than 0."""
        return {
            "state": self.state,
            "stable_rows": self.stable,
            "tentative_rows": self.tentative,
            "start": self.start,
            "boundary": self.boundary,
            "newest": self.newest,
            "buckets_buffered": self.buffered,
            "waiting_bytes": self.waiting,
            "waiting_disk_bytes": self.shelved,
            "previews_dropped": self.previews_dropped,
            "lag_seconds": (now - self.boundary) / 1e6,
            "delay_new_seconds": (now - self.newest) / 1e6,
            "stranded": self.is_stranded,
        }


def spark_status(progress: Mapping[str, Any] | None, page: str | None) -> dict[str, Any]:
    """What is told of a replica's Spark. `progress`: of its last batch. `page`: where it serves its
    own, if it does."""
    said = progress or {}
    operators = said.get("stateOperators") or ()
    return {
        "batch_seconds": (said.get("durationMs") or {}).get("triggerExecution", 0) / 1000,
        "busy_seconds": said.get("busySeconds", 0.0),
        "input_rows": said.get("inputRows", 0),
        "state_rows": sum(operator.get("numRowsTotal", 0) for operator in operators),
        "state_bytes": sum(operator.get("memoryUsedBytes", 0) for operator in operators),
        "spark_ui": page,
    }


# What the folder of a party was made for, noted in it.
#
# Logs and checkpoints that were made for other steps, columns or buckets would give wrong answers
# without a word. So a party whose folder was made for something else does not start. Whatever is
# not among these facts (addresses, delays, replicas, readers ...) may change from one start to the
# next.

NOTE: Final = "made-for.json"

Facts = dict[str, str | int | list[str]]


def stage_purpose(topology: Topology, name: str, compiled: Compiled) -> Facts:
    """What a replica of a stage keeps its state for."""
    stage = topology.stages[name]
    return {
        "bucket": str(topology.bucket),
        "inputs": [
            f"{stream} ({_columns(schema)})"
            for stream, schema in zip(stage.inputs, compiled.inputs, strict=True)
        ],
        "steps": [write_step(step) for step in stage.steps],
        "shards": stage.shards,
        "columns": _columns(compiled.published),
    }


def source_purpose(topology: Topology, name: str) -> Facts:
    """What the source of a stream keeps its log for."""
    stream = topology.streams[name]
    return {
        "bucket": str(topology.bucket),
        "source": word_of(stream.source, SOURCES),
        "schema": ", ".join(f"{column} {kind}" for column, kind in stream.source.schema),
        "time": stream.time or "",
    }


def _columns(schema: StructType) -> str:
    """But for the event time."""
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema.fields[1:])


def check_purpose(folder: Path, facts: Facts) -> None:
    """Refuse a folder that was made for something else; note what a new one is made for."""
    note = folder / NOTE
    if not note.exists():
        make_folder(folder)
        write_whole(note, json.dumps(facts, indent=2).encode())
        return
    try:
        found: dict[str, Any] = dict(json.loads(note.read_bytes()))
    except (ValueError, TypeError):
        raise StoreCorruptError(
            f"{note}: cannot be read; delete it if {folder} is of this topology as it is now, or "
            f"delete {folder} to begin anew"
        ) from None
    changes = [
        f"{name} was {json.dumps(found.get(name))} and is {json.dumps(fact)}"
        for name, fact in facts.items()
        if found.get(name) != fact
    ]
    if changes:
        raise InvalidArgumentError(
            f"{folder}: was made for another topology: {'; '.join(changes)}. Change that back, "
            f"give the topology another `folder`, or delete {folder} to begin anew"
        )


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
