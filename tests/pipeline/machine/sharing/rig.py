"""A source, operators and a sink whose messages a test carries, holds back or throws away."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.pipeline.machine.sharing import (
    Guarantee,
    Message,
    Plan,
    Replica,
    Routing,
    Rules,
    Send,
    Sink,
    Source,
    TupleId,
    round_robin,
)

__all__ = ["TICK", "Rig", "rules"]

TICK = 10_000
Wanted = Callable[[str, str, Message], bool]


def rules(guarantee: Guarantee = Guarantee.EXACTLY_ONCE, **given: int) -> Rules:
    times = {"period": 20_000, "retry": 20_000, "nudge": 80_000, "patience": 100_000}
    return Rules(guarantee, **{**times, **given})


class Rig:
    """Chains of operators. Messages arrive at once and in order, unless a test says else."""

    def __init__(
        self,
        chosen: Rules,
        *,
        routing: Routing = round_robin,
        process: Callable[[Any], Sequence[Any]] = lambda value: [value],
        **operators: int,
    ) -> None:
        self.plan = Plan.chain(source=1, **(operators or {"a": 3, "b": 3}), sink=1)
        self.rules = chosen
        self.now = 0
        self.source = Source("source/0", self.plan, chosen, routing=routing)
        self.sink = Sink("sink/0", self.plan, chosen)
        self._routing = routing
        self._process = process
        self._frozen: dict[str, Replica] = {}
        self.replicas = {
            name: self._replica(name, 0)
            for operator in self.plan.operators.values()
            if operator.below and not self.plan.is_source(operator.name)
            for name in operator.replicas
        }
        self.got: Counter[TupleId] = Counter()
        self.log: list[tuple[str, str, Message]] = []
        self.lose: Wanted = lambda sender, to, message: False
        self._queue: deque[tuple[str, str, Message]] = deque()

    def _replica(self, name: str, life: int) -> Replica:
        return Replica(
            name,
            self.plan,
            self._process,
            self.rules,
            routing=self._routing,
            life=life,
            now=self.now,
        )

    def __getitem__(self, name: str) -> Replica:
        return self.replicas[name]

    def emit(self, count: int = 1, *, carry: bool = True) -> None:
        for _ in range(count):
            self.say("source/0", self.source.emit(self.source.sent + 1, self.now))
        if carry:
            self.carry()

    def say(self, sender: str, sends: Sequence[Send]) -> None:
        self._queue.extend((sender, each.to, each.message) for each in sends)

    def carry(self) -> None:
        while self._queue:
            self.carry_one()

    def carry_one(self) -> None:
        sender, to, message = self._queue.popleft()
        party: Any = {"source/0": self.source, "sink/0": self.sink, **self.replicas}.get(to)
        if party is None or self.lose(sender, to, message):
            return
        self.log.append((sender, to, message))
        self.say(to, party.receive(sender, message, self.now))
        self.got.update(tuple_id for tuple_id, _ in self.sink.drain())

    def run(self, ticks: int = 60) -> None:
        for _ in range(ticks):
            self.now += TICK
            for party in (self.source, *self.replicas.values()):
                if party.due(self.now) <= self.now:
                    self.say(party.me, party.wake(self.now))
            self.carry()

    def kill(self, name: str) -> None:
        del self.replicas[name]

    def restart(self, name: str, life: int = 1000) -> None:
        self.replicas[name] = self._replica(name, life)

    def freeze(self, name: str) -> None:
        self._frozen[name] = self.replicas.pop(name)

    def thaw(self, name: str) -> Replica:
        replica = self.replicas[name] = self._frozen.pop(name)
        return replica

    def holders(self, operator: str, viewer: str) -> list[str]:
        """Who sits in each seat of an operator, as one sees it."""
        party: Any = {"source/0": self.source, "sink/0": self.sink, **self.replicas}[viewer]
        books = party.members.books if isinstance(party, Replica) else party._border.books
        return [claim.replica for claim in books[operator].claims]

    def once(self, count: int) -> bool:
        return self.got == Counter(TupleId("source/0", at + 1) for at in range(count))
