"""An intake that compares replicas, told word by word what each of them says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from holdfast.pipeline.machine.messages import (
    Feed,
    Item,
    Message,
    Progress,
    Send,
    Stable,
    Subscribe,
    Unsubscribe,
)
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.machine.tuples import Row, Segment
from holdfast.pipeline.machine.vote_subscription import VoteIntake

__all__ = ["GRACE", "KEY", "NAMES", "SIZE", "Talk", "bucket", "buckets"]

SIZE, GRACE = 10, 20
NAMES = ("w", "x", "y", "z")
KEY = bytes(32)
"""A secret of samples."""


def bucket(number: int, value: object = "right") -> Segment:
    start = number * SIZE
    return Segment(start, start + SIZE, (Row(start + 3, "k", value),))


def buckets(*numbers: int, value: object = "right") -> list[Stable]:
    return [Stable(bucket(number, value)) for number in numbers]


class Talk:
    """Keeps the subscriptions of the intake, and numbers the feeds of its replicas."""

    def __init__(self, intake: VoteIntake, names: Sequence[str] = NAMES) -> None:
        self.intake = intake
        self.states = dict.fromkeys(names, State.STABLE)
        self.asked: dict[str, Subscribe] = {}
        """The subscription that each replica has now."""
        self.news: list[Item] = []
        self.heard: list[tuple[str, Message]] = []
        """All that the intake has said."""
        self._sent: Counter[str] = Counter()

    def look(self, now: int = 0, ends: Mapping[str, int] | None = None) -> None:
        self._hear(self.intake.read_on(self.states, ends or {}, now))

    def beat(self, name: str, now: int = 0, *, subscription: int | None = None) -> None:
        """The answer to a heartbeat; it says the truth about its subscription unless told what."""
        asked = self.asked.get(name)
        if subscription is None:
            subscription = -1 if asked is None else asked.subscription
        progress = Progress(State.STABLE, 0, 0, subscription, self._sent[name])
        self._hear(self.intake.check(name, progress, now, now))

    def say(self, name: str, items: Sequence[Item], now: int = 0) -> list[Item]:
        """What comes through when a replica says this, if it is read at all."""
        asked = self.asked.get(name)
        if asked is None:
            return []
        feed = Feed("s", asked.subscription, self._sent[name], tuple(items))
        self._sent[name] += 1
        news, sends = self.intake.take(name, feed, now)
        self.news += news
        self._hear(sends)
        return news

    def publish(self, name: str, until: int, now: int = 0) -> None:
        """Say all buckets up to this one that it is asked for."""
        before = -1
        while name in self.asked and before < (at := self.intake.place_of(name) // SIZE) < until:
            before = at
            self.say(name, buckets(*range(at, min(at + 32, until))), now)

    def readmit(self, name: str) -> None:
        news, sends = self.intake.readmit(name)
        self.news += news
        self._hear(sends)

    def _hear(self, sends: Sequence[Send]) -> None:
        for send in sends:
            self.heard.append((send.to, send.message))
            if isinstance(send.message, Subscribe):
                self.asked[send.to] = send.message
                self._sent[send.to] = 0
            elif isinstance(send.message, Unsubscribe):
                self.asked.pop(send.to, None)

    @property
    def released(self) -> list[Segment]:
        return [item.segment for item in self.news if isinstance(item, Stable)]
