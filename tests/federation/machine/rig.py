"""Two or more load managers and the hands of a test: it carries messages, or does not."""

from __future__ import annotations

from typing import TypeVar

from holdfast.federation.machine import (
    SECOND,
    Books,
    Command,
    Contract,
    Contracts,
    Fence,
    Halt,
    Letter,
    Load,
    Manager,
    Message,
    Persist,
    Prepare,
    Record,
    Rules,
    Send,
    Task,
)
from holdfast.federation.machine.messages import LOOSE, Bound

__all__ = ["RULES", "Rig", "ones", "square"]

M = TypeVar("M")

RULES = Rules(
    period=10 * SECOND,
    gather=SECOND // 10,
    answer=SECOND,
    retry=SECOND,
    prepare=30 * SECOND,
    beat=SECOND,
    patience=5 * SECOND,
)


def square(load: Load) -> float:
    """The price of level P is P."""
    return load.cpu**2 / 2


def ones(name: str, count: int, kind: str = "stage") -> list[Task]:
    return [Task(f"{name}{at}", Load(1.0), kind) for at in range(count)]


class Rig:
    """Messages wait in `posted` until they are carried."""

    def __init__(self, contracts: list[Contract], **tasks: list[Task]) -> None:
        self.now = 0
        self.unable: set[str] = set()
        """Tasks that do not start anywhere but where they are."""
        self.numbers = 0
        """Of letters."""
        self.lives: dict[str, int] = {}
        self.behind: dict[str, int] = {}
        """Microseconds by which the time of a participant is behind that of others."""
        self.has_readers = False
        """Whether readers answer, when they are told of an epoch."""
        self.contracts = contracts
        self.posted: list[tuple[str, str, Message]] = []
        self.journals: dict[str, list[Record]] = {name: [] for name in tasks}
        self.commands: list[tuple[str, Command]] = []
        self.managers = {name: self._make(name) for name in tasks}
        for name, given in tasks.items():
            for task in given:
                self.obey(name, self.managers[name].own(task))

    def _make(self, name: str) -> Manager:
        self.lives[name] = max(Books(name, self.journals[name]).life + 1, self.time(name))
        mine = [each for each in self.contracts if name in (each.buyer, each.seller)]
        return Manager(
            name,
            square,
            Contracts(name, mine),
            RULES,
            journal=self.journals[name],
            now=self.time(name),
        )

    def time(self, name: str) -> int:
        """Of one participant."""
        return self.now - self.behind.get(name, 0)

    def obey(self, name: str, commands: list[Command]) -> None:
        for command in commands:
            self.commands.append((name, command))
            match command:
                case Persist(record):
                    self.journals[name].append(record)
                case Send(to, letter):
                    self.posted.append((name, to, letter.message))
                case Prepare(task, epoch) if task in self.unable:
                    self.obey(name, self.managers[name].unable(task, epoch, self.time(name)))
                case Prepare(task, epoch):
                    self.obey(name, self.managers[name].prepared(task, epoch, self.time(name)))
                case Fence(task, epoch) if self.has_readers:
                    self.obey(name, self.managers[name].fenced(task, epoch, 9))
                case Halt(task, epoch):
                    self.obey(name, self.managers[name].halted(task, epoch, 7, self.time(name)))

    def say(self, sender: str, to: str, message: Message) -> None:
        """In a letter that is new."""
        self.numbers += 1
        heard = (self.lives[to], 0)
        mark = (self.lives[sender], self.numbers)
        bound = Bound() if isinstance(message, LOOSE) else Bound(mark)
        letter = Letter(mark, heard, bound, message)
        self.obey(to, self.managers[to].receive(sender, letter, self.time(to)))

    def wake(self, *names: str) -> None:
        for name in names or self.managers:
            self.obey(name, self.managers[name].wake(self.time(name)))

    def take(self, kind: type[M]) -> list[M]:
        """Take all messages of this kind out of the post."""
        found = [each for _, _, each in self.posted if isinstance(each, kind)]
        self.posted = [each for each in self.posted if not isinstance(each[2], kind)]
        return found

    def carry(self) -> None:
        while self.posted:
            self.say(*self.posted.pop(0))

    def settle(self, span: int = SECOND) -> None:
        """Let time pass, everybody awake and every message carried."""
        end = self.now + span
        while self.now < end:
            self.wake()
            self.carry()
            self.now += SECOND // 10

    def fall_silent(self, span: int, *names: str) -> None:
        """Let time pass in which these are awake and no message is carried."""
        end = self.now + span
        while self.now < end:
            self.now += SECOND // 4
            self.wake(*names)
            self.posted.clear()

    def crash(self, name: str) -> None:
        self.managers[name] = self._make(name)
        commands = self.managers[name].recover(self.time(name))
        self.obey(name, commands)
        for command in commands:
            if isinstance(command, Fence):
                self.obey(name, self.managers[name].fenced(command.task, command.epoch, 3))

    def runs(self, name: str) -> list[str]:
        return sorted(each.task.id for each in self.managers[name].books.here)
