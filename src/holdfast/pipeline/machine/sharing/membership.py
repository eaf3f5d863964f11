"""Membership of a replica among its colleagues: ring, take-over, fence, return.

Holds the address books and says whom to tell what; knows nothing of tuples. A take-over and a
reinstatement are the same thing, a claim of the next epoch to a seat, and are told in the order of
the digest: above, colleagues, below. Who learns late learns it when he is refused. (Digest of
tuple-delivery, §2 and §3.)
"""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.groups.detectors import Phi
from holdfast.pipeline.machine.sharing.messages import (
    Announce,
    Announced,
    Join,
    Ping,
    Pong,
    Send,
    TakeOver,
    View,
)
from holdfast.pipeline.machine.sharing.ownership import Book, Claim
from holdfast.pipeline.machine.sharing.plan import Plan, Rules

# Who is down, as one of a ring sees it: each pings the next live one.
#
# It is suspected when its silence is unlikely (phi) and several pings went unanswered: who was
# stopped himself has sent none, and suspects nobody when he wakes up. With nobody else alive nobody
# is pinged, least of all oneself.

LONGEST = 10
"""A pause of more periods than that says nothing of how regular it is."""


class Ring:
    def __init__(self, me: str, book: Book, rules: Rules) -> None:
        self.me = me
        self.suspects: set[str] = set()
        """Those nobody has taken over from yet."""
        self._book = book
        self._rules = rules
        self._target: str | None = None
        self._phi = self._detector(0)
        self._unanswered = 0

    def beat(self, now: int) -> str | None:
        """A period has passed: whom to ping now."""
        self.settle()
        target = self._book.next_live(self.me, self.suspects)
        if target == self._target and target is not None:
            self._unanswered += 1
            if (
                self._unanswered > self._rules.missed
                and self._phi.phi(now) >= self._rules.threshold
            ):
                self.suspects.add(target)
                target = self._book.next_live(self.me, self.suspects)
        if target != self._target:
            self._target = target
            self._unanswered = 0
            self._phi = self._detector(now)
        return target

    def heard(self, name: str, now: int) -> None:
        """It lives."""
        self.suspects.discard(name)
        if name == self._target:
            self._unanswered = 0
            self._phi.beat(now, LONGEST * self._rules.period)

    def settle(self) -> None:
        """Forget those who have been taken over from."""
        self.suspects = {name for name in self.suspects if self._book.life(name) is not None}

    def taker(self, failed: str) -> str | None:
        """Who is to take over from it."""
        return self._book.next_live(failed, self.suspects)

    def _detector(self, now: int) -> Phi:
        period = self._rules.period
        phi = Phi(min_deviation=max(1, period // 2), pause=period, first_estimate=period)
        phi.start(now)
        return phi


@dataclass(slots=True)
class _News:
    """Claims of mine that are being told, group by group."""

    number: int
    since: int
    due: int
    stage: int = 0
    told: set[str] = field(default_factory=set)


class Membership:
    """`life` 0 is the first start, with all others; any other one comes back and has to join."""

    def __init__(self, me: str, plan: Plan, rules: Rules, life: int, now: int) -> None:
        self.me = me
        self.plan = plan
        self.operator = plan.of(me)
        self.life = life
        self.is_active = life == 0
        self.books = {name: Book(plan.replicas(name)) for name in plan.near(self.operator)}
        self.own = self.books[self.operator]
        self._groups = plan.above(self.operator), (self.operator,), plan.below(self.operator)
        self._rules = rules
        self._ring = Ring(me, self.own, rules)
        self._beat = now
        self._pings = 0
        self._news: _News | None = None
        self._news_count = 0
        self._guests: dict[str, tuple[int, int]] = {}
        self._heard: set[str] = set()
        self._since = now
        self._join = now

    # Who is there.

    @property
    def claim(self) -> Claim:
        """Mine, to my own seat; a guest has none yet."""
        return self.own.home(self.me) if self.is_active else Claim(-1, self.me, self.life)

    @property
    def suspects(self) -> frozenset[str]:
        return frozenset(self._ring.suspects)

    def view(self, operator: str) -> View:
        return View(operator, self.books[operator].claims)

    def colleagues(self, now: int) -> set[str]:
        """Those who are to have my records: the live ones, and those who are on their way back."""
        fresh = {name for name, (_, at) in self._guests.items() if now - at <= self._rules.patience}
        return ({*self.own.live} | fresh) - {self.me}

    def life_of(self, name: str) -> int | None:
        """In which life to speak to a replica."""
        guest = self._guests.get(name)
        if guest is not None:
            return guest[0]
        return self.books[self.plan.of(name)].life(name)

    def is_guest(self, name: str, life: int) -> bool:
        guest = self._guests.get(name)
        return guest is not None and guest[0] == life

    def live(self, operators: tuple[str, ...]) -> list[str]:
        return [name for each in operators for name in self.books[each].live]

    # What is said.

    def learn(self, view: View) -> bool:
        """Whether it is news. Guests who hold their seat again are none any more."""
        book = self.books.get(view.operator)
        if book is None or len(view.claims) != len(book.replicas) or not book.learn(view.claims):
            return False
        self.settle()
        return True

    def settle(self) -> None:
        self._ring.settle()
        for name, (life, _) in list(self._guests.items()):
            held = self.own.life(name)
            if held is not None and held >= life:
                del self._guests[name]

    @property
    def is_fenced(self) -> bool:
        """Whether another has my seat."""
        return self.is_active and not self.own.is_live(self.me, self.life)

    def receive(self, sender: str, message: object, now: int) -> list[Send]:
        """Pings, take-overs and announcements. What they say of claims is learned already."""
        if isinstance(message, Announce):
            return [Send(sender, Announced(message.number))]
        if not self.is_active:
            return []
        match message:
            case Ping():
                self._ring.heard(sender, now)
                return [Send(sender, Pong(message.number, self.own.claims))]
            case Pong():
                self._ring.heard(sender, now)
            case TakeOver() if self._is_dead(message):
                self.take_over(message.failed, now)
                return self._tell(now)
            case TakeOver():
                return [Send(sender, self.view(self.operator))]
            case Announced() if self._news is not None and message.number == self._news.number:
                self._news.told.add(sender)
                return self._tell(now)
        return []

    def _is_dead(self, word: TakeOver) -> bool:
        return word.failed != self.me and self.own.is_live(word.failed, word.life)

    def wake(self, now: int) -> list[Send]:
        """What is due: a ping, a word to who has to take over, an announcement once more."""
        sends: list[Send] = []
        if now >= self._beat:
            self._beat = now + self._rules.period
            sends += self._ping(now)
        if self._news is not None:
            sends += self._tell(now)
        return sends

    @property
    def due(self) -> int:
        if not self.is_active:
            return self._join
        return self._beat if self._news is None else min(self._beat, self._news.due)

    def _ping(self, now: int) -> list[Send]:
        target = self._ring.beat(now)
        sends = []
        if target is not None:
            self._pings += 1
            sends.append(Send(target, Ping(self._pings, self.own.claims)))
        for failed in sorted(self._ring.suspects):
            taker, life = self._ring.taker(failed), self.own.life(failed)
            if life is None or taker is None:
                continue
            if taker == self.me:
                self.take_over(failed, now)
            else:
                sends.append(Send(taker, TakeOver(failed, life, self.own.claims)))
        return sends

    def take_over(self, failed: str, now: int) -> None:
        """Claim all seats of one that is down: its own, and those it had taken over."""
        self._claim(self.own.seats_of(failed), now)

    def _claim(self, seats: tuple[int, ...], now: int) -> None:
        self.own.take(self.me, self.life, seats)
        self.settle()
        self._news_count += 1
        self._news = _News(self.life * 1_000_000 + self._news_count, now, now)

    def _tell(self, now: int) -> list[Send]:
        """The next group is told when all of the one before have heard, or do not answer."""
        news = self._news
        while news is not None:
            groups = (
                self.plan.above(self.operator),
                (self.operator,),
                self.plan.below(self.operator),
            )
            if news.stage == len(groups):
                self._news = None
                return []
            silent = {*self.live(groups[news.stage])} - {self.me} - news.told
            if silent and now < news.since + self._rules.patience:
                if now < news.due:
                    return []
                news.due = now + self._rules.retry
                told = Announce(news.number, self.view(self.operator))
                return [Send(name, told) for name in sorted(silent)]
            news.stage += 1
            news.since = news.due = now
        return []

    def repeat(self) -> list[Send]:
        """Tell the neighbours once more: one that was away when it was told would never hear."""
        if all(claim.epoch == 0 for claim in self.own.claims):
            return []
        above, _, below = self._groups
        return [Send(name, self.view(self.operator)) for name in self.live((*above, *below))]

    # The way back.

    def fence(self, now: int) -> None:
        """Another has my seat: begin a new life, and join."""
        self.life += 1
        self.is_active = False
        self._news = None
        self._guests.clear()
        self._heard.clear()
        self._ring = Ring(self.me, self.own, self._rules)
        self._since = self._join = now

    def join(self, now: int) -> list[Send]:
        """Ask all colleagues for what they know, again and again."""
        if now < self._join:
            return []
        self._join = now + self._rules.retry
        others = [name for name in self.own.replicas if name != self.me]
        return [Send(name, Join(self.life)) for name in others]

    def welcome(self, name: str, life: int, now: int) -> bool:
        """A colleague is back: it hears of all records from now on. False if it is an old word."""
        if not self.is_active or life <= (self.own.life(name) or 0):
            return False
        if life < self._guests.get(name, (0, 0))[0]:
            return False
        self._guests[name] = life, now
        return True

    def met(self, name: str, now: int) -> None:
        """This colleague has told me what it knows."""
        if name not in self._heard:
            self._heard.add(name)
            self._since = now

    def may_return(self, now: int) -> bool:
        """Whether all live colleagues have told what they know; or nobody does."""
        missing = {*self.own.live} - {self.me} - self._heard
        return not self.is_active and (not missing or now >= self._since + self._rules.patience)

    @property
    def is_alone(self) -> bool:
        """Whether it came back to nobody."""
        return not self._heard

    def come_back(self, now: int) -> None:
        """Claim my seat, and those that I had taken over in a former life."""
        self.is_active = True
        self._beat = now
        self._claim(tuple({self.own.seat_of(self.me), *self.own.seats_of(self.me)}), now)
