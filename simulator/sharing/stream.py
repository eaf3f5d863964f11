"""A long stream through two operators, with a death now and then: does anything grow?

Messages go round in one queue, so that millions of tuples take minutes; `SharingWorld` has the bad
network. Each death is mended before the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from holdfast.pipeline.machine.sharing import Message, Plan, Replica, Rules, Send, Sink, Source

TICK = 5_000
BURST = 128


@dataclass(frozen=True, slots=True)
class Growth:
    """What came of it: the most of everything that was held at once, anywhere."""

    delivered: int
    repeated: int
    deaths: int
    records: int
    kept: int
    in_hand: int
    seen_at_sink: int


class _Stream:
    def __init__(self, plan: Plan, rules: Rules) -> None:
        self.plan = plan
        self.rules = rules
        self.now = 0
        self.source = Source("source/0", plan, rules)
        self.sink = Sink("sink/0", plan, rules)
        names = [name for each in ("a", "b") for name in plan.replicas(each)]
        self.replicas = {name: self._replica(name, 0) for name in names}
        self.queue: deque[tuple[str, str, Message]] = deque()

    def _replica(self, name: str, life: int) -> Replica:
        return Replica(name, self.plan, lambda value: [value], self.rules, life=life, now=self.now)

    def restart(self, name: str, life: int) -> None:
        self.replicas[name] = self._replica(name, life)

    def carry(self, sender: str, sends: list[Send]) -> None:
        self.queue.extend((sender, each.to, each.message) for each in sends)

    def tick(self) -> None:
        """Let all who are due do their work, until nobody has anything to say."""
        self.now += TICK
        for party in self._parties():
            due = party.due(self.now)
            if due is not None and due <= self.now:
                self.carry(party.me, party.wake(self.now))
        while self.queue:
            sender, to, message = self.queue.popleft()
            receiver = self._party(to)
            if receiver is not None:
                self.carry(to, receiver.receive(sender, message, self.now))

    def _parties(self) -> Iterator[Source | Sink | Replica]:
        yield self.source
        yield from list(self.replicas.values())
        yield self.sink

    def _party(self, name: str) -> Source | Sink | Replica | None:
        if name == self.source.me:
            return self.source
        return self.sink if name == self.sink.me else self.replicas.get(name)


def run_stream(tuples: int, seed: int, *, deaths: int = 4) -> Growth:
    """So many tuples through two operators of three replicas, exactly once."""
    random = Random(f"{seed}/stream")
    plan = Plan.chain(source=1, a=3, b=3, sink=1)
    rules = Rules(linger=TICK, capacity=1024)
    stream = _Stream(plan, rules)
    seen = bytearray(tuples + 1)
    repeated = delivered = life = 0
    records = kept = in_hand = at_sink = 0
    every = tuples // (deaths + 1)
    planned = [every * (at + 1) for at in range(deaths)]
    back: tuple[int, str] | None = None
    died = 0
    while delivered < tuples and stream.now < 1_000_000 + 200 * tuples * TICK // BURST:
        for _ in range(BURST):
            if stream.source.sent < tuples and stream.source.has_room:
                value = stream.source.sent + 1
                stream.carry(stream.source.me, stream.source.emit(value, stream.now))
        if planned and stream.source.sent >= planned[0]:
            planned.pop(0)
            victim = random.choice(sorted(stream.replicas))
            del stream.replicas[victim]
            died += 1
            back = stream.now + random.choice([1_000, 2_000_000]), victim
        if back is not None and stream.now >= back[0]:
            life += 1_000
            stream.restart(back[1], life)
            back = None
        stream.tick()
        for tuple_id, _ in stream.sink.drain():
            repeated += seen[tuple_id.number]
            delivered += 1 - seen[tuple_id.number]
            seen[tuple_id.number] = 1
        for each in stream.replicas.values():
            records = max(records, len(each.desk.table))
            kept = max(kept, len(each.desk.work.kept))
            in_hand = max(in_hand, len(each.desk.work.entries))
        at_sink = max(at_sink, len(stream.sink.table))
    return Growth(delivered, repeated, died, records, kept, in_hand, at_sink)
