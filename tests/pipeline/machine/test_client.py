"""A client is shown what the stream says; without tentative rows, the stable stream."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random

import pytest

from holdfast.pipeline.machine.client import Client, Shown
from holdfast.pipeline.machine.messages import (
    Feed,
    Gap,
    Heartbeat,
    Item,
    Preview,
    Progress,
    RecDone,
    Send,
    Stable,
    Subscribe,
    Undo,
    Unsubscribe,
    Vitals,
)
from holdfast.pipeline.machine.output_log import Line
from holdfast.pipeline.machine.source import Source
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.machine.tuples import Kind, Row, Segment

NAMES = ("x", "y")
BUCKET = 100_000


def piece(start: int, end: int, value: object = "right") -> Segment:
    return Segment(start, end, tuple(Row(time, "k", value) for time in range(start, end, 5)))


def connect(*, tentative: bool = True) -> tuple[Client, int]:
    """A client that reads x, and the number of its subscription."""
    client = Client("s", ("x",), heartbeat=10, missed=2, tentative=tentative)
    client.wake(0)
    _, [send] = client.receive("x", Vitals({"s": Progress(State.STABLE, 0)}), 1)
    assert isinstance(send.message, Subscribe)
    return client, send.message.subscription


ITEMS: tuple[Item, ...] = (
    Stable(piece(0, 10)),
    Preview(piece(10, 20, "guess")),
    Preview(piece(20, 30, "guess")),
    Undo(10),
    Stable(piece(10, 20)),
    Stable(piece(20, 30)),
    RecDone(),
)


def test_a_client_is_shown_everything_in_order() -> None:
    client, number = connect()
    shown, _ = client.receive("x", Feed("s", number, 0, ITEMS), 2)
    assert [(each.kind, each.boundary) for each in shown] == [
        (Kind.INSERT, 10),
        (Kind.TENTATIVE, 20),
        (Kind.TENTATIVE, 30),
        (Kind.UNDO, 10),
        (Kind.INSERT, 20),
        (Kind.INSERT, 30),
        (Kind.REC_DONE, 30),
    ]
    assert shown[1].rows == piece(10, 20, "guess").rows


def test_without_tentative_rows_only_the_stable_stream_is_shown() -> None:
    client, number = connect(tentative=False)
    shown, _ = client.receive("x", Feed("s", number, 0, ITEMS), 2)
    assert shown == [
        Shown(Kind.INSERT, end, piece(end - 10, end).rows) for end in range(10, 40, 10)
    ]


def test_a_rec_done_of_nothing_is_not_shown() -> None:
    client, number = connect()
    shown, _ = client.receive("x", Feed("s", number, 0, (RecDone(), Stable(piece(0, 10)))), 2)
    assert [each.kind for each in shown] == [Kind.INSERT]


def test_other_streams_and_messages_are_left() -> None:
    client, number = connect()
    assert client.receive("x", Feed("other", number, 0, ITEMS), 2) == ([], [])
    assert client.receive("x", Heartbeat({}), 2) == ([], [])


def test_heartbeats_acknowledge_what_is_stable() -> None:
    client, number = connect()
    client.receive("x", Feed("s", number, 0, ITEMS[:3]), 2)
    assert client.wake(9) == ([], [])
    beats = [send.message for send in client.wake(10)[1]]
    assert beats == [Heartbeat({"s": 10}, 10, {"s": 10})]
    assert client.next_wake == 20


def test_a_piece_that_nobody_keeps_is_noted_and_passed_over() -> None:
    client, number = connect()
    client.receive("x", Feed("s", number, 0, (Stable(piece(0, 10)),)), 2)
    shown, _ = client.receive("x", Feed("s", number, 1, (Gap(50), Stable(piece(50, 60)))), 3)
    assert client.gaps == [(10, 50)]
    assert [each.boundary for each in shown] == [60]
    shown, _ = client.receive("x", Feed("s", number, 2, (Stable(piece(60, 70)),)), 4)
    assert [each.boundary for each in shown] == [70]


class Replica:
    """Real lines, heartbeats answered; publishes and guesses at its own pace."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.line = Line("s", ("c",))
        self.base = self.fork = 0
        self.state = State.STABLE

    def publish(self) -> list[Send]:
        start, self.base = self.base, self.base + 10
        return self.line.publish(piece(start, self.base))

    def guess(self) -> list[Send]:
        start = max(self.fork, self.base)
        self.fork = start + 10
        return self.line.preview(piece(start, self.fork, self.name))

    def receive(self, send: Send) -> list[Send]:
        match send.message:
            case Subscribe():
                return self.line.subscribe("c", send.message)
            case Unsubscribe():
                self.line.unsubscribe("c", send.message)
            case Heartbeat(acks, sent, read):
                self.line.acknowledge("c", acks["s"])
                said = Vitals({"s": self.line.progress("c", self.state)}, sent)
                return [Send("c", said), *self.line.confirm("c", read["s"])]
        return []


class World:
    def __init__(self, seed: int, *, tentative: bool) -> None:
        self.random = Random(seed)
        self.loss = self.random.choice([0, 0.1, 0.3])
        self.replicas = {name: Replica(name) for name in NAMES}
        self.client = Client("s", NAMES, heartbeat=5, missed=2, tentative=tentative)
        self.flying: list[tuple[str, Send]] = []
        self.cut: set[str] = set()
        self.now = 0
        self.shown: list[Shown] = []

    def fly(self, sender: str, sends: Sequence[Send]) -> None:
        for send in sends:
            if not {sender, send.to} & self.cut and self.random.random() >= self.loss:
                self.flying.append((sender, send))

    def tick(self) -> None:
        self.now += 1
        shown, sends = self.client.wake(self.now)
        self.shown += shown
        self.fly("c", sends)
        flying, self.flying = self.flying, []
        for sender, send in flying:
            if send.to == "c":
                shown, sends = self.client.receive(sender, send.message, self.now)
                self.shown += shown
                self.fly("c", sends)
            else:
                self.fly(send.to, self.replicas[send.to].receive(send))


@pytest.mark.parametrize("tentative", [True, False])
@pytest.mark.parametrize("seed", range(40))
def test_what_is_shown_folds_to_the_stable_stream(seed: int, tentative: bool) -> None:
    world = World(seed, tentative=tentative)
    random = world.random
    for _ in range(200):
        for name, replica in world.replicas.items():
            if random.random() < 0.2:
                failing = replica.state is State.UP_FAILURE
                world.fly(name, replica.guess() if failing else replica.publish())
            if random.random() < 0.03:
                replica.state = random.choice([State.STABLE, State.UP_FAILURE])
        if random.random() < 0.05:
            world.cut = set(random.sample(NAMES, random.randrange(3)))
        world.tick()
    world.loss, world.cut = 0, set()
    end = max(max(replica.base, replica.fork) for replica in world.replicas.values()) + 50
    for name, replica in world.replicas.items():
        replica.state = State.STABLE
        while replica.base < end:
            world.fly(name, replica.publish())
    for _ in range(100):
        world.tick()
    check(world.shown, end, tentative=tentative)


def check(shown: list[Shown], end: int, *, tentative: bool) -> None:
    folded: list[Shown] = []
    corrected = True
    for each in shown:
        match each.kind:
            case Kind.UNDO:
                folded = [kept for kept in folded if kept.boundary <= each.boundary]
                assert all(kept.kind is Kind.INSERT for kept in folded)
            case Kind.REC_DONE:
                assert all(kept.kind is Kind.INSERT for kept in folded)
                corrected = True
            case _:
                corrected = corrected and each.kind is Kind.INSERT
                folded.append(each)
    stable = [each for each in shown if each.kind is Kind.INSERT]
    assert folded == stable
    rows = [row for each in stable for row in each.rows]
    assert rows == list(piece(0, end).rows)
    assert corrected
    if not tentative:
        assert shown == stable


@pytest.mark.parametrize("latency", [1, 12, 25])
@pytest.mark.parametrize("hole", [0, 20])
def test_links_that_are_slower_than_heartbeats_keep_nobody_from_reading(
    latency: int, hole: int
) -> None:
    """With a hole each replica still keeps something older than it, and says so with every beat."""
    lines = {name: Line("s", ("c",)) for name in NAMES}
    for name, line in lines.items():
        line.publish(piece(0, 40))
        line.skip(40 + hole)
        line.publish(piece(40 + hole, 80 if name == "x" else 90))
    client = Client("s", NAMES, heartbeat=10, missed=3, may_skip=True, position=40)
    flying: list[tuple[int, str, str, object]] = []

    def fly(now: int, sends: Sequence[Send], sender: str) -> None:
        flying.extend((now + latency, sender, send.to, send.message) for send in sends)

    for now in range(600):
        for arrival in [each for each in flying if each[0] <= now]:
            flying.remove(arrival)
            _, sender, to, message = arrival
            match message:
                case Subscribe():
                    fly(now, lines[to].subscribe("c", message), to)
                case Unsubscribe():
                    lines[to].unsubscribe("c", message)
                case Heartbeat():
                    told = Vitals({"s": lines[to].progress("c", State.STABLE)}, message.sent)
                    fly(now, [Send("c", told)], to)
                    fly(now, lines[to].confirm("c", message.read["s"]), to)
                case Vitals() | Feed():
                    fly(now, client.receive(sender, message, now)[1], "c")
        if now >= client.next_wake:
            fly(now, client.wake(now)[1], "c")
    assert client.intake.position >= 80
    assert client.gaps == ([(40, 60)] if hole else [])


# The rate of heartbeats does not bound the rate of reading


class Pair:
    """A source and a client whose words take no time."""

    def __init__(self, heartbeat: int) -> None:
        self.source = Source("s", ("c",), interval=BUCKET)
        self.client = Client("s", ("x",), heartbeat=heartbeat)
        self.now = 0
        self.rows: list[Row] = []

    def publish(self, value: int) -> None:
        """A bucket with one row."""
        self.source.record("k", value, self.now)
        self.now += BUCKET
        for command in self.source.wake(self.now):
            self.deliver(self.source.persisted(command.entry))

    def deliver(self, sends: Sequence[Send]) -> None:
        flying = deque(sends)
        while flying:
            send = flying.popleft()
            if send.to == "c":
                shown, said = self.client.receive("x", send.message, self.now)
                self.rows += [row for each in shown for row in each.rows]
                flying += said
            else:
                flying += self.source.receive("c", send.message)

    def beat(self) -> None:
        while self.client.next_wake <= self.now:
            _, sends = self.client.wake(self.now)
            self.deliver(sends)


@pytest.mark.parametrize("seconds", [5, 10, 60])
def test_a_client_keeps_up_however_rare_its_heartbeats_are(seconds: int) -> None:
    pair = Pair(heartbeat=seconds * 1_000_000)
    for value in range(600):
        pair.beat()
        pair.publish(value)
        assert pair.client.intake.position == pair.now, "read as soon as it is published"
    assert [row.value for row in pair.rows] == list(range(600))


def test_a_client_catches_up_with_10_000_buckets_between_two_heartbeats() -> None:
    pair = Pair(heartbeat=5_000_000)
    for value in range(10_000):
        pair.publish(value)
    pair.beat()
    assert pair.client.intake.position == pair.now
    assert [row.value for row in pair.rows] == list(range(10_000))
