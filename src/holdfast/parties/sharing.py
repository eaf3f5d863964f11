"""One replica of a stage whose replicas share its work: its seats between links, query and disk.

The loop's thread runs the protocol, as in any replica; but there is a node for each seat it sits
in, and to those before it each seat has links of its own.
Nothing survives a restart, and nothing has to: what the readers lack is kept before it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from threading import Event, Thread
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from holdfast.parties.counts import ReplicaCounts, spark_status
from holdfast.parties.disk_log import DiskLog
from holdfast.parties.loop import Clock, Loop
from holdfast.parties.neighbours import Neighbours, wire_status
from holdfast.parties.places import (
    addresses_of,
    identities_of,
    inputs_of,
    place_of,
    reader_for,
    rules_of,
    security_of,
    settings_of,
)
from holdfast.parties.purpose import check_purpose, stage_purpose
from holdfast.parties.service import StageService
from holdfast.protocol.line import Line
from holdfast.protocol.messages import Message, Send
from holdfast.protocol.node import Node
from holdfast.protocol.sharing.rules import Guarantee
from holdfast.protocol.sharing.seating import Seating
from holdfast.protocol.sharing.seats import Above, Leave, Seats, Sit, Task
from holdfast.protocol.sharing.seats import Order as SeatOrder
from holdfast.spark.stages.compile import compile_stage
from holdfast.spark.stages.entries import Entry, Order, work_on
from holdfast.spark.stages.journal import Journal
from holdfast.spark.stages.query import Result, StageQuery
from holdfast.topology import Topology
from holdfast.tuples import Row, Segment
from holdfast.wire.server import LogServer

__all__ = ["SharingReplica"]

logger = logging.getLogger(__name__)


class SharingReplica:
    """Runs until it is closed or `failure` says why it cannot go on."""

    def __init__(
        self,
        topology: Topology,
        name: str,
        spark: SparkSession,
        *,
        routes: Mapping[str, str] | None = None,
        clock: Callable[[], int] | None = None,
        spark_ui: str | None = None,
    ) -> None:
        """`routes`: addresses of parties that are reached elsewhere than the topology says.
        `spark_ui`: where Spark serves its own page, if it does."""
        self.name = name
        self._spark_ui = spark_ui
        self.stream = name.partition("/")[0]
        self.clock = clock or Clock()
        self.counts = ReplicaCounts()
        self.folder = topology.state_folder / name
        self.ready = Event()
        """Set when it has begun to take part."""
        self._is_made = False
        """Its server may be asked before all of it is there."""
        stage = topology.stages[self.stream]
        compiled = compile_stage(spark, topology, self.stream)
        self.schema = to_arrow_schema(compiled.published, timezone="UTC")
        check_purpose(self.folder, stage_purpose(topology, self.stream, compiled))
        self._topology = topology
        self._settings = settings_of(topology, self.stream)
        inputs = inputs_of(topology, self.stream)
        self._inputs = {stream: number for stream, (number, _) in inputs.items()}
        self._names = tuple(topology.seats(self.stream))
        self._security = security_of(topology)
        # Not where a replica that does all of the work looks for its own.
        self._log = DiskLog(self.folder / "shares")
        self._log.clear()
        self._seats: Seats | None = None
        self._tasks: dict[int, Task] = {}
        """What the query has been asked to do and has not done, by entry."""
        self._drained = -1
        """The entry after which the journal of an earlier life is done."""
        self._loop = Loop(name, self.clock, self._wake, self._next_wake)
        address = topology.parties()[name].address
        assert address is not None
        self._beat = int(stage.heartbeat) / 1e6
        self._server = LogServer(
            address,
            self._security,
            StageService(self, self._loop),
            identities=identities_of(topology),
            heartbeat=self._beat,
            silence=max(1.0, 10 * self._beat),
        )
        self._query = StageQuery(
            spark,
            compiled,
            self.folder,
            size=self._settings.size,
            shards=stage.shards,
            address=(self._server.address.host, self._server.address.port),
            security=self._security,
            deliver=self._deliver,
        )
        self._above = addresses_of(
            topology, (party for _, names in inputs.values() for party in names), routes
        )
        colleagues = addresses_of(topology, topology.peers(name), routes)
        self._neighbours = self._call(name, colleagues, self._take_message)
        self._links: dict[int, Neighbours] = {}
        """To those before it, by seat."""
        self._closing: list[Thread] = []
        self._is_made = True
        self._loop.start()
        self._loop.post(self._drain)

    def _call(
        self, me: str, addresses: Mapping[str, str], take: Callable[[str, Message], None]
    ) -> Neighbours:
        return Neighbours(me, addresses, self._security, take, heartbeat=self._beat)

    # What whoever runs it sees

    @property
    def failure(self) -> str | None:
        """Why it cannot go on, if it cannot."""
        return self._loop.failure or self._query.failure

    @property
    def address(self) -> Any:
        return self._server.address

    def close(self) -> None:
        # The query first, for it reads from the server.
        self._query.stop()
        self._neighbours.close()
        self._server.close()
        self._loop.stop()
        for links in self._links.values():
            links.close()
        for closing in self._closing:
            closing.join()
        self._log.close()

    # The loop

    def _next_wake(self) -> float:
        return float("inf") if self._seats is None else self._seats.next_wake

    def _wake(self, now: int) -> None:
        if self._seats is not None:
            self._do(self._seats.wake(now), now)

    def _take_message(self, sender: str, message: Message) -> None:
        self._loop.post(lambda now: self.receive(sender, message, now))

    def receive(self, sender: str, message: Message, now: int) -> None:
        if self._seats is not None:
            self._do(self._seats.receive(sender, message, now), now)

    def _take_input(self, seat: int, sender: str, message: Message) -> None:
        def take(now: int) -> None:
            if self._seats is not None:
                self._do(self._seats.receive_input(seat, sender, message, now), now)

        self._loop.post(take)

    def _do(self, orders: list[SeatOrder], now: int) -> None:
        for order in orders:
            match order:
                case Sit(seat):
                    logger.info("%s: sits in %s", self.name, self._names[seat])
                    take = partial(self._take_input, seat)
                    me = reader_for(self._names[seat], self.name)
                    self._links[seat] = self._call(me, self._above, take)
                case Leave(seat):
                    logger.info("%s: has left %s to another", self.name, self._names[seat])
                    links = self._links.pop(seat)
                    # The loop has no time to wait for that.
                    closing = Thread(target=links.close, name="holdfast closing", daemon=True)
                    closing.start()
                    self._closing = [each for each in self._closing if each.is_alive()]
                    self._closing.append(closing)
                case Above(seat, send):
                    if seat in self._links:
                        self._links[seat].send(send.to, send.message)
                case Task():
                    entry = work_on(order.stretch, self._inputs, self._settings.size)
                    self._tasks[self._query.submit(entry)] = order
                case Send(to, message):
                    self._neighbours.send(to, message)
        self._look(now)

    def _look(self, now: int) -> None:
        nodes = [] if self._seats is None else list(self._seats.nodes.values())
        self.counts.look(nodes, now)
        lines = [line for node in nodes for line in node.lines.values()]
        if lines:
            self._log.drop_before(min(line.dropped_before for line in lines))

    # Results

    def _deliver(self, result: Result) -> None:
        """Called by Spark."""
        self._loop.hand_over(lambda now: self._take_result(result, now))

    def _take_result(self, result: Result, now: int) -> None:
        task = self._tasks.pop(result.entry, None)
        if task is not None and self._seats is not None:
            size, stretch = self._settings.size, task.stretch
            rows = tuple(Row(bucket * size, None, chunk) for bucket, chunk in result.chunks)
            stored = self._log.append(Segment(stretch.start, stretch.end, rows), {})
            self.counts.stable += sum(row.value.rows for row in rows)
            self._do(self._seats.finished(task, stored.rows, now), now)
        if result.entry == self._drained and self._seats is None:
            self._begin(now)

    # Beginning

    def _drain(self, now: int) -> None:
        """Let the query finish what an earlier life has left: nobody waits for it."""
        self._drained = self._query.submit(Entry(0, Order.DROP))

    def _begin(self, now: int) -> None:
        """The query is at the end of its journal: take part."""
        topology, stage = self._topology, self._topology.stages[self.stream]
        rules = rules_of(topology, self.stream)
        colleagues = topology.publishers(self.stream)
        self._seats = Seats(
            Seating(self.name, colleagues, rules, life=now // 1000, now=now),
            self._names,
            self._make_node,
            topology.readers(self.stream),
            size=self._settings.size,
            routing=stage.routing,
            keeps=rules.guarantee is not Guarantee.AT_MOST_ONCE,
        )
        self.ready.set()
        self._do(self._seats.wake(now), now)

    def _make_node(self, seat: int, now: int) -> Node:
        place = place_of(self._topology, self.name, self._names[seat])
        return Node(place, self._settings, now, lost=True)

    # What its service asks

    @property
    def journal(self) -> Journal:
        return self._query.journal

    @property
    def neighbours(self) -> Neighbours:
        return self._neighbours

    def left(self, party: str) -> None:
        if self._seats is not None:
            self._seats.left(party)

    def line(self, stream: str) -> Line | None:
        nodes = [] if self._seats is None else self._seats.nodes.values()
        lines = [node.lines[stream] for node in nodes if stream in node.lines and not node.is_lost]
        return lines[0] if lines else None

    def answers(self, body: str) -> Mapping[str, Callable[[], Any]]:
        return {"status": self.status}

    def status(self) -> dict[str, Any]:
        """What a person or a program may want to know of it."""
        said = {"party": self.name, "kind": "replica", "ready": self.ready.is_set()}
        if not self._is_made:
            return {**said, **self.counts.status()}
        links = [*self._neighbours.links.values()]
        links += [link for each in list(self._links.values()) for link in each.links.values()]
        return {
            **said,
            **self.counts.status(),
            "seats": dict(self.counts.seats),
            **spark_status(self._query.progress, self._spark_ui),
            "log_bytes": self._log.size,
            **wire_status(self._server, links),
        }
