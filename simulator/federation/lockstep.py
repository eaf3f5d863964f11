"""Real load managers in slots, with a network that is perfect and moves that take no time.

In a slot all who are due ask their next partner; when all has been said, all who were asked decide.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.federation.machine import (
    Command,
    Contract,
    Contracts,
    Cost,
    Halt,
    Manager,
    Persist,
    Prepare,
    Rules,
    Send,
    Task,
)
from holdfast.federation.machine.records import Lent, Record
from simulator.federation.fairness import Decisions
from simulator.federation.levels import SLOTS

SLOT = 1_000
GATHER = 10
SLOT_RULES = Rules(
    period=SLOTS * SLOT - GATHER,
    pause=SLOT - GATHER,
    gather=GATHER,
    answer=SLOT // 2,
    backoff=SLOTS * SLOT - GATHER,
    retry=10**12,
    prepare=10**12,
    beat=10**12,
    patience=10**12,
)
"""Nothing is lost, so nothing is said again."""


@dataclass(frozen=True, slots=True)
class Transfer:
    slot: int
    buyer: str
    seller: str
    price: float
    tasks: tuple[str, ...]


class Lockstep:
    def __init__(
        self,
        costs: Mapping[str, Cost],
        contracts: Iterable[Contract],
        tasks: Mapping[str, Iterable[Task]],
        phases: Mapping[str, int] | None = None,
        rules: Rules = SLOT_RULES,
    ) -> None:
        every = list(contracts)
        self.slot = 0
        self.transfers: list[Transfer] = []
        self.sent: Counter[str] = Counter()
        self.problems: list[str] = []
        self.journals: dict[str, list[Record]] = {name: [] for name in costs}
        self.managers: dict[str, Manager] = {}
        self.decisions = {name: Decisions() for name in costs}
        for name, cost in costs.items():
            mine = Contracts(name, [each for each in every if name in (each.buyer, each.seller)])
            start = (phases or {}).get(name, 0) * SLOT
            self.managers[name] = Manager(name, cost, mine, rules, now=start)
        self._messages: deque[tuple[str, Send]] = deque()
        for name, given in tasks.items():
            for task in given:
                self._obey(name, self.managers[name].own(task), 0)

    def run(self, slots: int) -> None:
        for _ in range(slots):
            self.step()

    def step(self) -> None:
        for now in (self.slot * SLOT, self.slot * SLOT + GATHER):
            for name, manager in self.managers.items():
                due = manager.due
                if due is not None and due <= now:
                    self._obey(name, manager.wake(now), now)
            self._deliver(now)
        self.slot += 1

    @property
    def total_cost(self) -> float:
        return sum(each.cost(each.books.staying) for each in self.managers.values())

    def _deliver(self, now: int) -> None:
        while self._messages:
            sender, send = self._messages.popleft()
            self.sent[type(send.letter.message).__name__] += 1
            self._obey(send.to, self.managers[send.to].receive(sender, send.letter, now), now)

    def _obey(self, name: str, commands: list[Command], now: int) -> None:
        manager = self.managers[name]
        self.problems += self.decisions[name].losses(manager, commands, is_static=True)
        for command in commands:
            match command:
                case Persist(record):
                    self.journals[name].append(record)
                    if isinstance(record, Lent):
                        names = tuple(lot.key.task for lot in record.lots)
                        transfer = Transfer(self.slot, name, record.partner, record.price, names)
                        self.transfers.append(transfer)
                case Send():
                    self._messages.append((name, command))
                case Prepare(task, epoch):
                    self._obey(name, manager.prepared(task, epoch, now), now)
                case Halt(task, epoch):
                    self._obey(name, manager.halted(task, epoch, 0, now), now)
