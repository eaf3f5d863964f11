"""A partner that signs anything, at random: what the other has and is owed is safe.

The honest one, h, buys from and sells to x. The load manager of x is real, so that there is
business; what it says is delivered, changed, lost or said twice, and letters that it would never
write are put between. Whatever happens, h keeps what binds, in the order in which it came.
"""

from __future__ import annotations

import math
from dataclasses import fields, replace
from random import Random
from typing import Any

import pytest

from holdfast.federation.machine import (
    SECOND,
    Books,
    Command,
    Contract,
    Fence,
    Keep,
    Letter,
    Load,
    LoanId,
    Message,
    Send,
    State,
    Task,
)
from holdfast.federation.machine.commands import longest_hold
from holdfast.federation.machine.ledger import Ledger
from holdfast.federation.machine.messages import (
    LOOSE,
    NONE,
    Alive,
    Answer,
    Beat,
    Bound,
    Cancel,
    Cancelled,
    Closed,
    Commit,
    GiveBack,
    HandBack,
    Hello,
    Mark,
    Offer,
    Ready,
    Recall,
    Refuse,
    Release,
    Renew,
    Renewed,
    Report,
    Ship,
    Shipment,
    Taken,
    Takeover,
)
from holdfast.federation.machine.proof import Signed, prove
from holdfast.federation.machine.seller import MAX_PROMISES
from holdfast.federation.process.records import pack
from tests.federation.machine.rig import RULES, Rig, ones

DURATION = 30 * SECOND
CONTRACTS = [
    Contract("h", "x", 4, 3, duration=DURATION),
    Contract("x", "h", 4, 3, duration=DURATION),
]
SPAN = 240 * SECOND
STEP = SECOND // 2
WILD = (0, 1, -1, 3, DURATION, 2 * DURATION, 10**15, 1 << 60, 1 << 63, -(1 << 63))
WILD_AMOUNTS = (0.0, 1.0, 0.01, 3.0, 4.0, 5.0, -1.0, 1e15, 1e308, math.inf, math.nan)


class Bout(Rig):
    """An honest participant against one that is not."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.kept: list[Signed] = []
        self.incoming: Signed | None = None
        self.numbers_of: dict[str, int] = {"h": 0, "x": 0}
        self.bounds = 0
        self.last: Mark = NONE
        self.recorded: list[Letter] = []
        self.seen: list[LoanId] = []
        self.ran: dict[LoanId, int] = {}
        """Microseconds for which h has run tasks of x."""
        self.receipts: dict[LoanId, int] = {}
        """The highest that h had, while it ran the task."""
        self.handed: dict[LoanId, int] = {}
        self.restarts = 0
        self.slow = self.random.random() < 0.5
        """Whether readers take their time to answer."""
        self.fences: list[Fence] = []
        # Some want to sell, some to buy, some both.
        loads = self.random.choice([(7, 1), (1, 7), (5, 0), (0, 5), (6, 5)])
        super().__init__(CONTRACTS, h=ones("t", loads[0]), x=ones("u", loads[1]))

    def _make(self, name: str) -> Any:
        manager = super()._make(name)
        if name != "h":
            return manager
        mine = [each.letter.bound.mark for each in self.kept if each.sender == "h"]
        manager._office._bound = {"x": max(mine, default=NONE)}
        return manager

    def obey(self, name: str, commands: list[Command]) -> None:
        for command in commands:
            if name == "h" and isinstance(command, Send):
                letter = command.letter
                known = {each.letter.bound.mark for each in self.kept if each.sender == "h"}
                if letter.bound.mark not in known:
                    self.kept.append(Signed("h", "x", letter))
                self._notice(letter.message)
            elif name == "h" and isinstance(command, Keep) and self.incoming is not None:
                self.kept.append(self.incoming)
            elif name == "h" and isinstance(command, Fence) and command not in self.fences:
                self.fences.append(command)
        self.has_readers = name == "x" or not self.slow
        super().obey(name, commands)

    def _notice(self, message: Message) -> None:
        loan = getattr(message, "loan", None)
        if isinstance(loan, LoanId):
            self.seen.append(loan)
        if isinstance(message, Commit):
            self.handed.setdefault(message.loan, self.now)

    # The cheat.

    def carry(self) -> None:
        waiting, self.posted = self.posted, []
        for _, to, message in waiting:
            if to == "x":
                self.say("h", "x", message)
                continue
            draw = self.random.random()
            if draw < self.honesty:
                self.tell(message)
            elif draw < self.honesty + (1 - self.honesty) / 3:
                self.tell(self._changed(message))
            elif draw < self.honesty + (1 - self.honesty) / 2:
                self.tell(message)
                self.tell(self._changed(message))

    @property
    def honesty(self) -> float:
        """It changes its mind."""
        return (0.97, 0.7, 0.9, 0.3)[self.now // (60 * SECOND) % 4]

    def tell(self, message: Message) -> None:
        self.numbers_of["x"] += self.random.choice((1, 1, 1, 1, 5))
        mark = (1, self.numbers_of["x"])
        bound = Bound()
        if not isinstance(message, LOOSE):
            self.bounds += 1
            bound = Bound((1, self.bounds), self.last)
            if self.random.random() < 0.02:
                bound = self.random.choice([Bound(), Bound((1, 1)), Bound(self.last, self.last)])
            else:
                self.last = bound.mark
        self.deliver(Letter(mark, (self.lives["h"], 1), bound, message))

    def deliver(self, letter: Letter) -> None:
        self.recorded.append(letter)
        self.incoming = Signed("x", "h", letter)
        before = dict(self._receipted())
        self.obey("h", self.managers["h"].receive("x", letter, self.now))
        self.incoming = None
        for loan, served in {**before, **self._receipted()}.items():
            self.receipts[loan] = max(served, self.receipts.get(loan, 0))

    def _receipted(self) -> dict[LoanId, int]:
        held = self.managers["h"].books.holdings.values()
        return {each.key: each.served for each in held if each.key.number and each.served}

    def invent(self) -> Message:
        random, loan = self.random, self._loan()
        number, period = random.choice((1, 2, 3, loan.number)), random.choice((0, 1, 2, 3))
        served = random.choice((*WILD, self.ran.get(loan, 0), self.ran.get(loan, 0) + SECOND))
        task = Task(random.choice(("u0", "u1", "t0", "new")), self._load())
        return random.choice(
            [
                Offer(number + 10, self._amount(), (task,), random.choice(WILD)),
                Answer(number, self._amount(), (task.id,)),
                Release(number),
                Ship(number, self._amount(), (Shipment(task.id, (random.choice(WILD),)),)),
                Ready(loan),
                Refuse(loan),
                Commit(loan, random.choice(WILD), self._amount(), self._amount(), DURATION),
                Taken(loan),
                Renew(loan, period, self._amount()),
                Renewed(loan, period, self._amount()),
                Recall(loan),
                GiveBack(loan),
                Takeover(loan),
                HandBack(loan, random.choice(WILD), period, served),
                Closed(loan, period, served),
                Cancel(loan, period, served),
                Cancelled(loan, period, served, self._amount()),
                Beat(((loan, served),)),
                Alive((Report(loan, self._load(), random.random() < 0.5, served),)),
                Hello(),
            ]
        )

    def _loan(self) -> LoanId:
        lent = [each.id for each in self.managers["h"].books.loans]
        borrowed = [key for key in self.managers["h"].books.holdings if key.number]
        odd = LoanId(self.random.choice("hx"), self.random.choice((0, 1, 99)), "t0")
        return self.random.choice([*lent, *borrowed, *self.seen[-5:], odd])

    def _amount(self) -> float:
        return self.random.choice(WILD_AMOUNTS)

    def _load(self) -> Load:
        while True:
            amount = self._amount()
            if amount >= 0 and math.isfinite(amount):
                return Load(amount)

    def _changed(self, message: Message) -> Message:
        """With one number another, or another message."""
        names = [
            each.name
            for each in fields(message)
            if isinstance(getattr(message, each.name), int | float)
        ]
        if not names:
            return self.invent()
        name = self.random.choice(names)
        value: Any = getattr(message, name)
        wild: Any = self._amount() if isinstance(value, float) else self.random.choice(WILD)
        return replace(message, **{name: wild})

    # The course of it.

    def run(self) -> None:
        while self.now < SPAN:
            self.now += STEP
            self._pass(STEP)
            self.wake()
            self.carry()
            self._provoke()
            self.check()
        # It is never heard of again.
        self.slow = False
        for fence in self.fences:
            self._answer(fence)
        for _ in range(4):
            for _ in range(2 * RULES.prepare // STEP // 2):
                self.now += STEP
                self._pass(STEP)
                self.wake("h")
                self.posted.clear()
        self.check()
        self.check_end()

    def _pass(self, span: int) -> None:
        for holding in self.managers["h"].books.holdings.values():
            if holding.key.number and holding.is_idle:
                self.ran[holding.key] = self.ran.get(holding.key, 0) + span

    def _provoke(self) -> None:
        random = self.random
        while random.random() < 0.25 * (1 - self.honesty) + 0.02:
            self.tell(self.invent())
        if self.recorded and random.random() < 0.1:
            self.deliver(random.choice(self.recorded))
        if self.fences and random.random() < 0.05:
            self._answer(self.fences.pop(0))
        if random.random() < 0.004:
            self.restarts += 1
            self.crash("h")
        if random.random() < 0.01:
            self.now += random.choice((3, 20)) * SECOND

    def _answer(self, fence: Fence) -> None:
        self.obey("h", self.managers["h"].fenced(fence.task, fence.epoch, 9))

    # What holds.

    def check(self) -> None:
        books = self.managers["h"].books
        promises = list(books.promises.values())
        assert len(promises) <= MAX_PROMISES
        for promise in promises:
            assert promise.until <= self.now + longest_hold(CONTRACTS[1], RULES)
        for entry in books.ledger:
            assert CONTRACTS[0].low <= entry.price <= CONTRACTS[0].high
            assert math.isfinite(entry.amount)
            assert entry.amount >= 0
        for loan in books.ledger.settled:
            if loan.lender == "x":
                self._check_sold(books.ledger, loan)
        for loan, at in self.handed.items():
            self._check_bought(books.ledger, loan, at)

    def _check_sold(self, ledger: Ledger, loan: LoanId) -> None:
        """What was acknowledged is owed, and what was not served is not."""
        entries = ledger.of(loan)
        got = math.fsum(each.amount for each in entries)
        if not entries:
            assert self.receipts.get(loan, 0) == 0
            return
        rate = entries[0].price * entries[0].units / DURATION
        receipted = min(self.receipts.get(loan, 0), self.ran.get(loan, 0))
        assert got >= rate * receipted * 0.9 - 1e-9, (loan, got, receipted)

    def _check_bought(self, ledger: Ledger, loan: LoanId, at: int) -> None:
        """Nothing is paid but for time since it was handed over, and a period ahead."""
        span = sum(each.served or each.duration or 0 for each in ledger.of(loan))
        away = self.now - at
        assert span <= away * 1.01 + DURATION * (1 + self.restarts), loan

    def check_end(self) -> None:
        h = self.managers["h"]
        own = {each.task.id for each in h.books.holdings.values() if not each.key.number}
        assert own <= set(self.runs("h")), "all tasks are at home"
        assert not [
            each
            for each in h.books.holdings.values()
            if each.key.number and each.state is not State.BACK
        ], "and those of the other do not run"
        assert not h.books.promises
        for record in self.journals["h"]:
            pack(record)
        again = Books("h", self.journals["h"])
        assert again.summary() == h.books.summary()
        assert Books("h", [again.summary()]).summary() == again.summary()
        problems = prove(h.books.ledger, self.kept).problems
        assert not problems, problems


@pytest.mark.parametrize("first", [*range(0, 40, 10), 140])
def test_a_partner_that_says_anything_gains_nothing(first: int) -> None:
    for seed in range(first, first + 10):
        try:
            Bout(seed).run()
        except Exception as error:
            error.add_note(f"replay: Bout({seed}).run()")
            raise
