"""What the parts of a load manager share: its books, its partners, and what it still has to say."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from holdfast.protocol.contracts.books import Books
from holdfast.protocol.contracts.commands import Command, Fence, Persist, Send
from holdfast.protocol.contracts.contract import Contracts
from holdfast.protocol.contracts.costs import Cost
from holdfast.protocol.contracts.messages import Message
from holdfast.protocol.contracts.records import Record
from holdfast.protocol.contracts.rules import Rules
from holdfast.protocol.contracts.tasks import Epoch, LoanId

__all__ = ["Office"]

SLOWEST = 32
"""Times `Rules.retry`: how rarely something is said again at last."""


@dataclass(slots=True)
class _Question:
    command: Send | Fence
    due: int
    wait: int


class Office:
    def __init__(self, books: Books, cost: Cost, contracts: Contracts, rules: Rules) -> None:
        self.me = books.me
        self.books = books
        self.cost = cost
        self.contracts = contracts
        self.rules = rules
        self.heard: dict[str, int] = {}
        """When a partner was last heard of, or first asked for."""
        self.failed: set[str] = set()
        """Partners who did not answer when they should have."""
        self.resuming: set[LoanId] = set()
        """What does not run yet after a crash, for its readers have not said where it was."""
        self._commands: list[Command] = []
        self._questions: dict[Hashable, _Question] = {}

    def take_commands(self) -> list[Command]:
        commands, self._commands = self._commands, []
        return commands

    def do(self, command: Command) -> None:
        self._commands.append(command)

    def write(self, record: Record) -> None:
        self.books.write(record)
        self.do(Persist(record))

    def say(self, to: str, message: Message) -> None:
        self.do(Send(to, message))

    def ask(self, topic: Hashable, to: str, message: Message, now: int) -> None:
        """Say something, again and again until it is answered."""
        self.heard.setdefault(to, now)
        self._put(topic, Send(to, message), now)

    def fence(self, task: str, epoch: Epoch, now: int) -> None:
        self._put(("fence", task, epoch), Fence(task, epoch), now)

    def _put(self, topic: Hashable, command: Send | Fence, now: int) -> None:
        wait = self.rules.retry
        self._questions[topic] = _Question(command, now + wait, wait)
        self.do(command)

    def is_asking(self, topic: Hashable) -> bool:
        return topic in self._questions

    def answered(self, topic: Hashable) -> None:
        self._questions.pop(topic, None)

    def repeat(self, now: int) -> None:
        for question in self._questions.values():
            if question.due <= now:
                question.wait = min(2 * question.wait, SLOWEST * self.rules.retry)
                question.due = now + question.wait
                self.do(question.command)

    @property
    def due(self) -> int | None:
        return min((each.due for each in self._questions.values()), default=None)

    def hear(self, partner: str, now: int) -> None:
        self.heard[partner] = now
        self.failed.discard(partner)

    def is_silent(self, partner: str, now: int) -> bool:
        return now - self.heard.setdefault(partner, now) > self.rules.patience
