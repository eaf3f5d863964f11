"""Context that the parts of a load manager share."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from holdfast.federation.machine.commands import Command, Fence, Keep, Persist, Rules, Send
from holdfast.federation.machine.contract import Contracts
from holdfast.federation.machine.costs import Cost, Load, total
from holdfast.federation.machine.messages import (
    Bound,
    Epoch,
    Hello,
    Letter,
    LoanId,
    Mark,
    Message,
    Post,
)
from holdfast.federation.machine.records import Begun, Record
from holdfast.federation.machine.state import Books

SLOWEST = 32
"""Times `Rules.retry`: how rarely something is said again at last."""
MOST_STRIKES = 6
"""Doublings of the time for which a partner is not asked again."""


@dataclass(slots=True)
class _Saying:
    to: str
    message: Message
    bound: Bound


@dataclass(slots=True)
class _Question:
    what: _Saying | Fence
    due: int
    wait: int


@dataclass(slots=True)
class _Strikes:
    count: int = 0
    until: int = 0

    def add(self, now: int, wait: int, more: int = 0) -> None:
        """One more, for `more` doublings longer; those of long ago are forgiven."""
        if now - self.until > wait << MOST_STRIKES:
            self.count = 0
        self.until = now + (wait << min(self.count, MOST_STRIKES) + more)
        self.count += 1


class Office:
    def __init__(
        self,
        books: Books,
        cost: Cost,
        contracts: Contracts,
        rules: Rules,
        now: int,
        bound: Mapping[str, Mark],
    ) -> None:
        """`bound`: what was said last that binds, by partner."""
        self.me = books.me
        self.books = books
        self.cost = cost
        self.contracts = contracts
        self.rules = rules
        self.started = now
        # With the time in it, one whose disk is lost does not begin a life that it has had.
        self.life = max(books.life + 1, now)
        self._bound = bound
        self._posts: dict[str, Post] = {}
        self.heard: dict[str, int] = {}
        """When a partner was last heard of, or first asked for."""
        self.failed: set[str] = set()
        """Partners who did not answer when they should have."""
        self.resuming: set[LoanId] = set()
        """What does not run yet after a crash, for its readers have not said where it was."""
        self.returning: set[LoanId] = set()
        """What is given back to its lender, and runs here until that one has prepared it."""
        self.wanted: set[LoanId] = set()
        """What lenders want back though it is lent on."""
        self.broken: frozenset[str] = frozenset()
        """Tasks that are to run here and do not."""
        self.expected: int | None = None
        """When it is called again at the latest, if it runs."""
        self._strikes: dict[tuple[str, str], _Strikes] = {}
        """What partners that sell, and tasks at them, have not kept of what they said."""
        self._buyers: dict[str, _Strikes] = {}
        self._commands: list[Command] = []
        self._questions: dict[Hashable, _Question] = {}

    def is_leaving(self, key: LoanId) -> bool:
        """True of a task that goes back to its lender, now or when it comes home."""
        return key in self.returning or key in self.wanted

    @property
    def staying(self) -> Load:
        """All that runs here for the time to come: what one sheds from. A task that is given back
        will be gone; counted in, it makes others seem dearer to keep than they are."""
        holdings = self.books.holdings.values()
        return total(
            each.task.load for each in holdings if each.is_idle and not self.is_leaving(each.key)
        )

    def take_commands(self) -> list[Command]:
        commands, self._commands = self._commands, []
        return commands

    def do(self, command: Command) -> None:
        self._commands.append(command)

    def write(self, record: Record) -> None:
        self.books.write(record)
        self.do(Persist(record))

    def say(self, to: str, message: Message) -> None:
        self._utter(_Saying(to, message, self._post(to).bind(message)))

    def ask(self, topic: Hashable, to: str, message: Message, now: int) -> None:
        """Say something, again and again until it is answered."""
        self.heard.setdefault(to, now)
        self._put(topic, _Saying(to, message, self._post(to).bind(message)), now)

    def fence(self, task: str, epoch: Epoch, now: int) -> None:
        self._put(("fence", task, epoch), Fence(task, epoch), now)

    def _put(self, topic: Hashable, what: _Saying | Fence, now: int) -> None:
        wait = self.rules.retry
        self._questions[topic] = _Question(what, now + wait, wait)
        self._utter(what)

    def _utter(self, what: _Saying | Fence) -> None:
        if isinstance(what, Fence):
            self.do(what)
            return
        if self.books.life != self.life:
            self.write(Begun(self.life))
        self.do(Send(what.to, self._post(what.to).write(what.message, what.bound)))

    def _post(self, partner: str) -> Post:
        if partner not in self._posts:
            self._posts[partner] = Post(self.life, self._bound.get(partner, (0, 0)))
        return self._posts[partner]

    def take_in(self, sender: str, letter: Letter, now: int) -> bool:
        """Whether the letter counts: one that was heard before or written to an earlier life does
        not, whoever has sent it again; nor does one that binds its sender and cannot be shown. One
        that was overtaken is no sign of life."""
        post = self._post(sender)
        if not post.is_new(letter):
            return False
        if not post.is_fresh(letter):
            if post.is_last(letter):
                self.say(sender, Hello())
            return False
        if not post.is_in_place(letter):
            return False
        if post.is_last(letter):
            self.hear(sender, now)
        if post.is_to_keep(letter):
            self.do(Keep())
        return True

    def say_again(self, partner: str) -> None:
        """All that it has not answered."""
        for question in self._questions.values():
            if isinstance(question.what, _Saying) and question.what.to == partner:
                self._utter(question.what)

    def is_asking(self, topic: Hashable) -> bool:
        return topic in self._questions

    def answered(self, topic: Hashable) -> None:
        self._questions.pop(topic, None)

    def repeat(self, now: int) -> None:
        for question in self._questions.values():
            if question.due <= now:
                question.wait = min(2 * question.wait, SLOWEST * self.rules.retry)
                question.due = now + question.wait
                self._utter(question.what)

    @property
    def due(self) -> int | None:
        return min((each.due for each in self._questions.values()), default=None)

    def look(self, now: int) -> int:
        """How long we have not been running. What partners have said meanwhile waits to be heard,
        so for that time nobody was silent, and there is some left to be heard in."""
        gap = 0 if self.expected is None else now - self.expected
        if gap <= self.rules.patience // 2:
            return 0
        for partner, heard in self.heard.items():
            excused = max(heard + gap, now - self.rules.patience // 2)
            self.heard[partner] = min(excused, now)
        return gap

    def hear(self, partner: str, now: int) -> None:
        self.heard[partner] = now
        self.failed.discard(partner)

    def is_silent(self, partner: str, now: int) -> bool:
        return now - self.heard.setdefault(partner, now) > self.rules.patience

    def wait(self, partner: str) -> int:
        """Before one who has refused is asked again."""
        if self.rules.backoff is not None:
            return self.rules.backoff
        contract = self.contracts.to(partner) or self.contracts.of(partner)
        if contract is not None and contract.duration is not None:
            return contract.duration
        return self.rules.period

    def strike(self, partner: str, now: int, task: str = "") -> None:
        """It has not done what it said: it loses its turn, each time for twice as long, and for
        this task longer than for others."""
        for key in {(partner, ""), (partner, task)}:
            strikes = self._strikes.setdefault(key, _Strikes())
            strikes.add(now, self.wait(partner), int(bool(key[1])))

    def strike_buyer(self, buyer: str, now: int) -> None:
        """It has not paid, or kept a place for nothing: nothing is taken from it for a while, each
        time for twice as long. Nothing that it does as a seller makes up for that."""
        self._buyers.setdefault(buyer, _Strikes()).add(now, self.wait(buyer))

    def is_buyer_held_off(self, buyer: str, now: int) -> bool:
        found = self._buyers.get(buyer)
        return found is not None and now < found.until

    def clear(self, partner: str, task: str = "") -> None:
        """It has done what it said."""
        for key in ((partner, ""), (partner, task)):
            self._strikes.pop(key, None)

    def strikes(self, partner: str) -> int:
        found = self._strikes.get((partner, ""))
        return 0 if found is None else found.count

    def is_held_off(self, partner: str, now: int, task: str = "") -> bool:
        found = self._strikes.get((partner, task))
        return found is not None and now < found.until
