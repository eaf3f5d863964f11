"""A node with all that is around it, for the tests of nodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.pipeline.gates.order import Delays
from holdfast.pipeline.gates.waiting import Shelf
from holdfast.pipeline.machine.commands import (
    Command,
    Place,
    Settings,
    Work,
)
from holdfast.pipeline.machine.messages import (
    Feed,
    Gap,
    Heartbeat,
    Message,
    Preview,
    Progress,
    Read,
    RecDone,
    Send,
    Stable,
    Subscribe,
    Undo,
    Unsubscribe,
    Vitals,
)
from holdfast.pipeline.machine.node import Node
from holdfast.pipeline.machine.output_log import Line, Retention
from holdfast.pipeline.machine.states import AnyOf, Reach, State
from holdfast.pipeline.machine.tuples import Row, Segment

__all__ = ["BEAT", "DELAY", "LAG", "SIZE", "UNION", "F", "Rig", "S", "U", "Upstream", "Z"]

SIZE, BEAT, DELAY, LAG = 100, 10, 300, 5
UNION = AnyOf(("a", "b"))
S, U, Z, F = State.STABLE, State.UP_FAILURE, State.STABILIZATION, State.FAILURE


class Upstream:
    """Replicas that publish the same streams; a word of theirs takes no time, or never arrives."""

    def __init__(self, inputs: Mapping[str, Sequence[str]]) -> None:
        self.inputs = inputs
        self.lines = {
            (name, stream): Line(stream, ("n",))
            for stream, names in inputs.items()
            for name in names
        }
        self.states = {name: S for names in inputs.values() for name in names}
        self.down: set[str] = set()

    def publish(self, stream: str, until: int) -> list[tuple[str, Send]]:
        sends = []
        for name in self.inputs[stream]:
            line = self.lines[name, stream]
            while line.end < until:
                rows = (Row(line.end + SIZE // 2, stream, line.end),)
                segment = Segment(line.end, line.end + SIZE, rows)
                sends += [(name, send) for send in line.publish(segment)]
        return sends

    def receive(self, name: str, message: Message) -> list[tuple[str, Send]]:
        if name in self.down:
            return []
        sends: list[Send] = []
        match message:
            case Subscribe(stream):
                sends = self.lines[name, stream].subscribe("n", message)
            case Unsubscribe(stream):
                self.lines[name, stream].unsubscribe("n", message)
            case Read(stream):
                sends = self.lines[name, stream].read("n", message)
            case Heartbeat(acks, sent, read):
                for stream, ack in acks.items():
                    self.lines[name, stream].acknowledge("n", ack)
                sends = [Send("n", Vitals(self.vitals(name), sent))]
                for stream, place in read.items():
                    sends += self.lines[name, stream].confirm("n", place)
        return [(name, send) for send in sends]

    def vitals(self, name: str) -> dict[str, Progress]:
        return {
            stream: line.progress("n", self.states[name])
            for (replica, stream), line in self.lines.items()
            if replica == name
        }


class Rig:
    """A node with its upstreams, a stage that merges its inputs, and one reader."""

    def __init__(
        self,
        *,
        reach: Reach = UNION,
        span: float = 0,
        peers: tuple[str, ...] = (),
        lost: bool = False,
        retention: Retention | None = None,
        inputs: Mapping[str, Sequence[str]] | None = None,
        delays: Delays | None = None,
        shelf: Shelf | None = None,
        **settings: Any,
    ) -> None:
        inputs = inputs or {"a": ("x", "y"), "b": ("z",)}
        self.place = Place(
            "n",
            peers,
            inputs,
            {"o": reach},
            {"o": ("r",)},
            {"o": retention} if retention else {},
            span,
        )
        delays = delays or Delays(DELAY)
        self.settings = Settings(SIZE, delays, **{"heartbeat": BEAT, "missed": 2, **settings})
        self.upstream = Upstream(inputs)
        self.now = 0
        self.node = Node(self.place, self.settings, 0, lost=lost, shelf=shelf)
        self.commands: list[tuple[int, Command]] = []
        self.items: list[tuple[int, str]] = []
        self.rows: list[Row] = []
        self.waiting: deque[Work] = deque()
        self.auto = True
        self.saves = True
        self.do(self.node.receive("r", Subscribe("o", 1, 0, 0), 0))

    def do(self, commands: Sequence[Command]) -> None:
        todo: deque[Command] = deque(commands)
        while todo:
            command = todo.popleft()
            match command:
                case Send(to, message) if to == "r":
                    todo.extend(self.read(message))
                case Send(to, message):
                    self.commands.append((self.now, command))
                    if to in self.upstream.states:
                        for name, send in self.upstream.receive(to, message):
                            todo.extend(self.node.receive(name, send.message, self.now))
                case Work():
                    self.commands.append((self.now, command))
                    self.waiting.append(command)
                    if self.auto:
                        todo.extend(self.work())
                case _:
                    self.commands.append((self.now, command))

    def work(self) -> list[Command]:
        """Let the stage finish what it is at."""
        work = self.waiting.popleft()
        rows = sorted(
            (row for rows in work.stretch.rows.values() for row in rows),
            key=lambda row: (row.stime, row.key),
        )
        commands = self.node.finished(work, {"o": rows}, self.now)
        if self.saves and not work.tentative:
            commands += self.node.saved(work.stretch.stop, self.now)
        return commands

    def finish(self) -> None:
        self.do(self.work())

    def read(self, message: Message) -> list[Command]:
        if not isinstance(message, Feed):
            return []
        for item in message.items:
            match item:
                case Stable(segment):
                    self.rows += segment.rows
                    word = f"S{segment.start}"
                case Preview(segment):
                    word = f"T{segment.start}"
                case Undo(boundary):
                    word = f"U{boundary}"
                case RecDone():
                    word = "R"
                case Gap(start):
                    word = f"G{start}"
                case _:
                    raise AssertionError(item)
            self.items.append((self.now, word))
        ends = [item.segment.end for item in message.items if isinstance(item, Stable)]
        if not ends:
            return []
        return self.node.receive("r", Read("o", message.subscription, max(ends)), self.now)

    @property
    def words(self) -> str:
        return " ".join(word for _, word in self.items)

    def publish(self, stream: str, until: int) -> None:
        for name, send in self.upstream.publish(stream, until):
            if name not in self.upstream.down:
                self.do(self.node.receive(name, send.message, self.now))

    def advance(self, to: int) -> None:
        while self.node.next_wake <= to:
            self.now = max(self.now, int(self.node.next_wake))
            self.do(self.node.wake(self.now))
        self.now = to

    def run(self, to: int, streams: Sequence[str] = ("a", "b")) -> None:
        """Publish every bucket of the streams a little after its end."""
        for end in range(self.now // SIZE * SIZE + SIZE, to + 1, SIZE):
            self.advance(end + LAG)
            for stream in streams:
                self.publish(stream, end)

    def of(self, kind: type) -> list[tuple[int, Any]]:
        return [(now, command) for now, command in self.commands if isinstance(command, kind)]

    def sent(self, kind: type) -> list[tuple[str, Any]]:
        return [(c.to, c.message) for _, c in self.of(Send) if isinstance(c.message, kind)]

    def ask(self) -> State:
        """What the reader is told of the stream."""
        [answer] = [
            c.message
            for c in self.node.receive("r", Heartbeat({}), self.now)
            if isinstance(c, Send) and isinstance(c.message, Vitals)
        ]
        return answer.streams["o"].state

    def check(self, until: int, *, since: int = 0) -> None:
        expected = [
            Row(start + SIZE // 2, stream, start)
            for start in range(since, until, SIZE)
            for stream in ("a", "b")
        ]
        assert self.rows == expected
