"""A group of the edge in one place: messages arrive at once, in order, unless a test holds them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.edge.machine import (
    BeatOptions,
    Child,
    ChildOptions,
    GroupPlan,
    Intermediate,
    IntermediateOptions,
    Message,
    Query,
    Root,
    RootOptions,
    Send,
    Sensor,
    SensorOptions,
    Window,
)

COUNT = Query("count", "count", 1_000, 1_000)
SECOND = 1_000
"""Panes of a thousandth of a second keep the numbers short."""

CHILD = ChildOptions(
    beat=BeatOptions(period=100, threshold=8.0, pause=100, deviation=20),
    sync=100,
    election_timeout=100,
    patience=100,
    resend=200,
    rejoin=1_000,
)
SENSOR = SensorOptions(capacity=10_000, pulse=50, retry=100, pause=1)


class Rig:
    """`lose(sender, message, to)` says what does not arrive."""

    def __init__(
        self,
        children: int = 3,
        sensors: int = 1,
        queries: Sequence[Query] = (COUNT,),
        *,
        intermediates: int = 0,
        layer: int = 3,
        child: ChildOptions = CHILD,
        sensor: SensorOptions = SENSOR,
        **root: Any,
    ) -> None:
        self.now = 0
        self.options = child
        self.lose: Callable[[str, Message, str], bool] = lambda sender, message, to: False
        self.sent: list[tuple[str, str, Message]] = []
        self.windows: list[Window] = []
        self._wire: deque[tuple[str, str, Message]] = deque()
        above = [f"i{number}" for number in range(intermediates)]
        plan = GroupPlan(
            "g1",
            tuple(f"c{number}" for number in range(children)),
            tuple(tuple(above[at : at + layer]) for at in range(0, len(above), layer)),
        )
        self.root = Root(
            "root",
            RootOptions(**{"plan": (plan,), "resend": 200, **root}),
        )
        self.parties: dict[str, Any] = {"root": self.root}
        for query in queries:
            self.do("root", self.root.register_query(query, 0))
        options = IntermediateOptions(
            beat=child.beat, resend=200, most_held=self.root.options.most_held
        )
        for number in range(intermediates):
            self.parties[f"i{number}"] = Intermediate(f"i{number}", "root", options)
        self.step()
        for number in range(children):
            self.parties[f"c{number}"] = Child(f"c{number}", "root", child)
        self.step()
        for number in range(sensors):
            self.add_sensor(f"s{number}", sensor)

    def add_sensor(self, name: str, options: SensorOptions = SENSOR, time: int = 0) -> Sensor:
        children = [each for each in self.parties if each.startswith("c")]
        sensor = self.parties[name] = Sensor(name, children, options)
        self.do(name, sensor.join(time, self.now))
        self.step(until=lambda: sensor.is_member)
        return sensor

    def child(self, name: str) -> Child:
        return self.parties[name]

    def sensor(self, name: str = "s0") -> Sensor:
        return self.parties[name]

    def do(self, name: str, sends: Sequence[Send]) -> None:
        """Carry messages, and what follows from them, until there are none."""
        self._wire.extend((name, send.to, send.message) for send in sends)
        while self._wire:
            sender, to, message = self._wire.popleft()
            self.sent.append((sender, to, message))
            if to in self.parties and not self.lose(sender, message, to):
                follows = self.parties[to].receive(sender, message, self.now)
                self._wire.extend((to, send.to, send.message) for send in follows)
        self.windows += self.root.drain()

    def emit(
        self, times: Sequence[int], values: Sequence[float] | None = None, sensor: str = "s0"
    ) -> int:
        given = [1.0] * len(times) if values is None else values
        dealt, sends = self.sensor(sensor).emit(times, given, None, self.now)
        self.do(sensor, sends)
        return dealt

    def advance(self, time: int) -> None:
        """All sensors have said all before this time."""
        for name, party in list(self.parties.items()):
            if isinstance(party, Sensor):
                self.do(name, party.advance(time, self.now))

    def step(self, by: int = 0, until: Callable[[], bool] | None = None) -> None:
        """Let time pass, in steps of a hundredth of a beat."""
        end = self.now + (by if until is None else 5_000)
        while True:
            for name, party in list(self.parties.items()):
                due = party.due(self.now)
                if due is not None and due <= self.now:
                    self.do(name, party.wake(self.now))
            if self.now >= end or (until is not None and until()):
                return
            self.now += 10

    def kill(self, name: str) -> Any:
        return self.parties.pop(name)

    def restart(self, name: str) -> Child:
        child = Child(name, "root", self.options, life=self.now + 2, now=self.now)
        self.parties[name] = child
        return child

    def messages(self, kind: type, to: str | None = None) -> list[Any]:
        return [m for _, t, m in self.sent if isinstance(m, kind) and to in (None, t)]

    def answers(self, query: str = "count") -> list[Any]:
        return [window.answer for window in self.windows if window.query == query]
