"""One replica of a stage whose replicas share its work.

The loop's thread runs the protocol, as in any replica; but there is a node for each seat it sits
in, and to those before it each seat has links of its own.
Nothing survives a restart, and nothing has to: what the readers lack is kept before it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from threading import Thread
from typing import Any

from pyspark.sql import SparkSession

from holdfast.pipeline.machine.messages import Message, Send
from holdfast.pipeline.machine.node import Node
from holdfast.pipeline.machine.output_log import Line
from holdfast.pipeline.machine.sharing.plan import Guarantee
from holdfast.pipeline.machine.sharing.seats import Above, Leave, Seating, Seats, Sit, Task
from holdfast.pipeline.machine.sharing.seats import Order as SeatOrder
from holdfast.pipeline.machine.tuples import Row, Segment
from holdfast.pipeline.process.replica_config import (
    inputs_of,
    place_of,
    reader_for,
    rules_of,
)
from holdfast.pipeline.process.replica_host import Workplace
from holdfast.pipeline.process.segment_log import DiskLog
from holdfast.pipeline.process.service import Neighbours
from holdfast.pipeline.stages.entries import work_on
from holdfast.pipeline.stages.query import Result
from holdfast.pipeline.topology import Topology

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
        spark_ui: str | None = None,
    ) -> None:
        """`routes`: addresses of parties that are reached elsewhere than the topology says.
        `spark_ui`: where Spark serves its own page, if it does."""
        workplace = self._workplace = Workplace(
            topology, name, spark, routes=routes, spark_ui=spark_ui
        )
        self.name, self.stream, self.schema = name, workplace.stream, workplace.schema
        self.counts = workplace.counts
        self._topology = topology
        self._settings = workplace.settings
        self._names = tuple(topology.seats(self.stream))
        # Not where a replica that does all of the work looks for its own.
        self._log = DiskLog(workplace.folder / "shares")
        self._log.clear()
        self._seats: Seats | None = None
        self._tasks: dict[int, Task] = {}
        """What the query has been asked to do and has not done, by entry."""
        inputs = inputs_of(topology, self.stream)
        self._above = tuple(party for _, names in inputs.values() for party in names)
        self._links: dict[int, Neighbours] = {}
        """To those before it, by seat."""
        self._closing: list[Thread] = []
        workplace.open(self, topology.peers(name))

    # What whoever runs it sees

    @property
    def failure(self) -> str | None:
        """Why it cannot go on, if it cannot."""
        return self._workplace.failure

    @property
    def address(self) -> Any:
        return self._workplace.server.address

    def close(self) -> None:
        self._workplace.close()
        for links in self._links.values():
            links.close()
        for closing in self._closing:
            closing.join()
        self._log.close()

    # The loop

    @property
    def next_wake(self) -> float:
        return float("inf") if self._seats is None else self._seats.next_wake

    def wake(self, now: int) -> None:
        if self._seats is not None:
            self._do(self._seats.wake(now), now)

    def receive(self, sender: str, message: Message, now: int) -> None:
        if self._seats is not None:
            self._do(self._seats.receive(sender, message, now), now)

    def _take_input(self, seat: int, sender: str, message: Message, now: int) -> None:
        if self._seats is not None:
            self._do(self._seats.receive_input(seat, sender, message, now), now)

    def _do(self, orders: list[SeatOrder], now: int) -> None:
        for order in orders:
            match order:
                case Sit(seat):
                    logger.info("%s: sits in %s", self.name, self._names[seat])
                    take = partial(self._take_input, seat)
                    me = reader_for(self._names[seat], self.name)
                    self._links[seat] = self._workplace.call(me, self._above, take)
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
                    entry = work_on(order.stretch, self._workplace.inputs, self._settings.size)
                    self._tasks[self._workplace.submit(entry)] = order
                case Send(to, message):
                    self._workplace.neighbours.send(to, message)
        self._look(now)

    def _look(self, now: int) -> None:
        nodes = [] if self._seats is None else list(self._seats.nodes.values())
        self.counts.look(nodes)
        lines = [line for node in nodes for line in node.lines.values()]
        if lines:
            self._log.drop_before(min(line.dropped_before for line in lines))

    # Results

    def take_result(self, result: Result, now: int) -> None:
        task = self._tasks.pop(result.entry, None)
        if task is not None and self._seats is not None:
            size, stretch = self._settings.size, task.stretch
            rows = tuple(Row(bucket * size, None, chunk) for bucket, chunk in result.chunks)
            stored = self._log.append(Segment(stretch.start, stretch.end, rows), {})
            self.counts.stable += sum(row.value.rows for row in rows)
            self._do(self._seats.finished(task, stored.rows, now), now)

    # Beginning

    def begin(self, now: int) -> None:
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
        self._do(self._seats.wake(now), now)

    def _make_node(self, seat: int, now: int) -> Node:
        place = place_of(self._topology, self.name, self._names[seat])
        return Node(place, self._settings, now, lost=True)

    # What its service asks

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
        links = [link for each in list(self._links.values()) for link in each.links.values()]
        return self._workplace.status(self._own_status, links)

    def _own_status(self) -> dict[str, Any]:
        return {"seats": dict(self.counts.seats), "log_bytes": self._log.size}
