"""A source, a stage whose replicas share its work, and who reads it: in virtual time, to be broken.

What is right is what the source has published, doubled. Nothing here is a process.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

from holdfast.pipeline.gates.order import Delays
from holdfast.pipeline.machine import messages
from holdfast.pipeline.machine.commands import Place, Settings, Work
from holdfast.pipeline.machine.node import Node
from holdfast.pipeline.machine.output_log import Retention
from holdfast.pipeline.machine.sharing import Rules
from holdfast.pipeline.machine.sharing.client import SharedClient
from holdfast.pipeline.machine.sharing.seats import Above, Leave, Seating, Seats, Sit, Task
from holdfast.pipeline.machine.source import Source
from holdfast.pipeline.machine.states import AnyOf
from holdfast.pipeline.machine.tuples import Row

__all__ = ["READER", "SIZE", "StageRig", "break_at_random"]

SIZE = 100_000
TICK = 10_000
BEAT = 40_000
SETTINGS = Settings(size=SIZE, delays=Delays(math.inf, 0, patience=SIZE // 2), heartbeat=BEAT)
RULES = Rules(period=50_000, retry=25_000, patience=200_000)
SINK = "sink"
READER = "reader"


class StageRig:
    """`readings` -> `clean`, shared -> a sink, and a node that reads it as any stage does."""

    def __init__(
        self,
        random: Random,
        *,
        replicas: int = 3,
        routing: str = "round-robin",
        keeps: bool = True,
        least: int = 0,
        max_delay: float = math.inf,
    ) -> None:
        """`least`: so much the source keeps though nobody needs it. `max_delay`: of the reader."""
        self.random = random
        self.now = 1_000_000
        self.names = [f"clean/{at}" for at in range(1, replicas + 1)]
        self.seats = {
            f"clean@{at + 1}": (*self.names[at:], *self.names[:at]) for at in range(replicas)
        }
        self.routing, self.keeps = routing, keeps
        self.loss = 0.0
        self.cut: set[str] = set()
        """Whom nobody hears, and who hears nobody."""
        self.parted = False
        """Whether colleagues do not hear each other."""
        self.severed: set[frozenset[str]] = set()
        """Pairs who do not hear each other."""
        self.source = Source(
            "readings", tuple(self.seats), interval=SIZE, retention=Retention(least=least)
        )
        self.live: dict[str, Seats] = {}
        self.done: Counter[str] = Counter()
        """Buckets with rows that each replica has worked on."""
        self.sink = SharedClient(self.seats, heartbeat=BEAT)
        self.sink.done = 0
        self.shown: list[int] = []
        place = Place(
            READER, (), self.seats, {"all": AnyOf(tuple(self.seats))}, {"all": ()}, span=0
        )
        delays = Delays(max_delay, 0, patience=SIZE // 2)
        self.reader = Node(place, replace(SETTINGS, delays=delays), self.now)
        self.previews = 0
        """Buckets that it has shown as tentative."""
        self.read: list[int] = []
        self.brought: list[int] = []
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        for name in self.names:
            self.start(name)
        self._wake_all()

    # Faults

    def start(self, name: str) -> None:
        seating = Seating(name, self.names, RULES, life=self.now // 1000, now=self.now)
        self.live[name] = Seats(
            seating,
            tuple(self.seats),
            self._node,
            (SINK, READER),
            size=SIZE,
            routing=self.routing,
            keeps=self.keeps,
        )

    def _node(self, seat: int, now: int) -> Node:
        name = tuple(self.seats)[seat]
        place = Place(
            name,
            (),
            {"readings": ("readings",)},
            {name: AnyOf(("readings",))},
            {name: (SINK, READER)},
        )
        return Node(place, SETTINGS, now, lost=True)

    def kill(self, name: str) -> None:
        del self.live[name]

    # Time

    def run(self, span: int, *, rows: bool = True) -> None:
        """For so many microseconds."""
        end = self.now + span
        while self.now < end:
            self.now += TICK
            if rows and self.now % 20_000 == 0:
                value = len(self.brought)
                self.brought.append(value)
                self._persist(self.source.record(None, value, self.now))
            self._persist(self.source.wake(self.now))
            while self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
            self._wake_all()

    def _wake_all(self) -> None:
        for name, seats in list(self.live.items()):
            if self.now >= seats.next_wake:
                self._carry(name, seats, seats.wake(self.now))
        if self.now >= self.sink.next_wake:
            self._show(*self.sink.wake(self.now))
        if self.now >= self.reader.next_wake:
            self._obey(self.reader.wake(self.now))

    def _persist(self, persists: Any) -> None:
        for each in persists:
            self._send_all("readings", self.source.persisted(each.entry))

    # Messages

    def _send_all(self, sender: str, sends: Any) -> None:
        for send in sends:
            self._send(sender, send.to, send.message)

    def _send(self, sender: str, to: str, message: Any) -> None:
        """A seat's reader is called `clean@2/1`, and is in the process `clean/1`."""
        if self.random.random() >= self.loss:
            delay = self.random.choice([1_000, 4_000, 15_000])
            self._at(delay, lambda: self._arrive(sender, to, message))

    def _process(self, name: str) -> str:
        seat, _, number = name.partition("/")
        return f"{seat.partition('@')[0]}/{number}" if "@" in seat else name

    def _arrive(self, sender: str, to: str, message: Any) -> None:
        names = frozenset({self._process(sender), self._process(to)})
        if names & self.cut or (self.parted and names <= {*self.names}) or names in self.severed:
            return
        if to == "readings":
            self._send_all("readings", self.source.receive(sender, message))
        elif to == SINK:
            self._show(*self.sink.receive(sender, message, self.now))
        elif to == READER:
            self._obey(self.reader.receive(sender, message, self.now))
        elif (name := self._process(to)) in self.live:
            seats = self.live[name]
            if "@" in to:
                seat = tuple(self.seats).index(to.partition("/")[0])
                orders = seats.receive_input(seat, sender, message, self.now)
            else:
                orders = seats.receive(sender, message, self.now)
            self._carry(name, seats, orders)

    def _at(self, delay: int, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + delay, next(self._order), event))

    def _carry(self, name: str, seats: Seats, orders: Any) -> None:
        for order in orders:
            match order:
                case Above(seat, send):
                    number = name.partition("/")[2]
                    self._send(f"{tuple(self.seats)[seat]}/{number}", send.to, send.message)
                case Task():
                    self._task(name, seats, order)
                case Sit() | Leave():
                    pass
                case _:
                    self._send(name, order.to, order.message)

    def _task(self, name: str, seats: Seats, task: Task) -> None:
        (rows,) = task.stretch.rows.values()
        self.done[name] += len({row.stime // SIZE for row in rows})

        def finish() -> None:
            if self.live.get(name) is seats:
                answers = [Row(row.stime, None, row.value * 2) for row in rows]
                self._carry(name, seats, seats.finished(task, answers, self.now))

        self._at(self.random.choice([5_000, 60_000]), finish)

    def _show(self, shown: Any, sends: Any) -> None:
        for each in shown:
            self.shown += [row.value for row in each.rows]
        # It is safe with the sink at once.
        self.sink.done = self.sink.position
        self._send_all(SINK, sends)

    def _obey(self, commands: Any) -> None:
        for command in commands:
            match command:
                case messages.Send(to, message):
                    self._send(READER, to, message)
                case Work(_, tentative=True):
                    self.previews += 1
                    self._obey(self.reader.finished(command, {"all": ()}, self.now))
                case Work(stretch):
                    rows = sorted(
                        (row for some in stretch.rows.values() for row in some),
                        key=lambda row: row.stime,
                    )
                    self.read += [row.value for row in rows]
                    self._obey(self.reader.finished(command, {"all": rows}, self.now))
                    self._obey(self.reader.saved(stretch.stop, self.now))

    def settle(self, span: int = 4_000_000) -> None:
        """All is mended and no more rows come: let what is on its way arrive."""
        self.loss = 0.0
        self.parted = False
        self.severed.clear()
        self.cut.clear()
        self.run(span, rows=False)

    @property
    def right(self) -> list[int]:
        return [value * 2 for value in self.brought]


def break_at_random(seed: int) -> StageRig:
    """A few faults drawn from the seed, then all is mended."""
    random = Random(seed)
    rig = StageRig(
        random,
        replicas=random.choice([2, 3]),
        routing=random.choice(["round-robin", "hash"]),
        least=random.choice([0, 600_000_000]),
        max_delay=random.choice([math.inf, 3 * SIZE]),
    )
    rig.loss = random.choice([0.0, 0.02, 0.1])
    for _ in range(5):
        rig.run(random.randrange(1_000_000))
        name = random.choice(rig.names)
        if name in rig.cut:
            rig.cut.discard(name)
        elif name not in rig.live:
            rig.start(name)
        elif random.random() < 0.2:
            rig.parted = not rig.parted
        elif len(rig.live) > 1:
            if random.random() < 0.6:
                rig.kill(name)
            else:
                rig.cut.add(name)
    for name in rig.names:
        if name not in rig.live:
            rig.start(name)
    rig.settle(8_000_000)
    return rig
