"""One input stream that is read from all its replicas at once, through a gate that compares them.

For `vote`, `vote-latest`, `sample`, `first` and `latest`: the gate decides on digests which copy of
a bucket goes through; the rows wait here. Nothing tentative passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.protocol.gates.gate import Accuse, Command, Copy, Gate, Giveup, Redo, Release, Taint
from holdfast.protocol.messages import (
    Again,
    Feed,
    Gap,
    Item,
    Progress,
    Recalculate,
    Send,
    Stable,
    Subscribe,
    Unsubscribe,
)
from holdfast.protocol.states import State
from holdfast.tuples import Segment, digest

__all__ = ["VoteIntake"]


@dataclass(slots=True)
class _Source:
    """One replica as it is read."""

    bucket: int = 0
    """The next one to read."""
    subscription: int | None = None
    asked: int = 0
    expected: int = 0
    unusable_before: int = 0


@dataclass(slots=True)
class Findings:
    """What the gate has found out about the replicas."""

    accused: list[Accuse] = field(default_factory=list)
    tainted: list[Taint] = field(default_factory=list)
    gave_up: Giveup | None = None
    redone: int = 0


class VoteIntake:
    """Reads one stream from all its replicas; `gate` says what goes through."""

    def __init__(self, stream: str, gate: Gate, replicas: tuple[str, ...], *, size: int) -> None:
        self.stream = stream
        self.gate = gate
        self.size = size
        self.position = 0
        self.caught_up: set[str] = set()
        self.is_paused = False
        self.findings = Findings()
        self.grace = 0
        self._sources = {name: _Source() for name in replicas}
        self._rows: dict[tuple[int, bytes], Segment] = {}
        self._attempts: dict[int, int] = {}
        self._latest = -1

    @property
    def held(self) -> int:
        """How many copies wait for a decision."""
        return len(self._rows)

    def read_on(self, states: Mapping[str, State], ends: Mapping[str, int], now: int) -> list[Send]:
        sends: list[Send] = []
        for name, source in self._sources.items():
            if self.is_paused or states[name] is State.FAILURE or not self._has_room(name):
                continue
            if source.subscription is None:
                sends.append(self._subscribe(name, now))
        return sends

    def _has_room(self, name: str) -> bool:
        wanted = self.gate.wants(name)
        return len(wanted) > 0 and self._sources[name].bucket < wanted.stop

    def _subscribe(self, name: str, now: int) -> Send:
        source = self._sources[name]
        wanted = self.gate.wants(name)
        self._latest = max(self._latest + 1, now)
        source.bucket = max(source.bucket, wanted.start) if wanted else source.bucket
        source.subscription, source.expected, source.asked = self._latest, 0, now
        place = source.bucket * self.size
        return Send(name, Subscribe(self.stream, self._latest, place, place, previews=False))

    def _unsubscribe(self, name: str) -> list[Send]:
        source = self._sources[name]
        if source.subscription is None:
            return []
        left, source.subscription = source.subscription, None
        return [Send(name, Unsubscribe(self.stream, left))]

    def check(self, replica: str, progress: Progress, now: int) -> list[Send]:
        source = self._sources.get(replica)
        if source is None or source.subscription is None or now < source.asked + self.grace:
            return []
        same = progress.subscription == source.subscription
        if same and progress.sent <= source.expected:
            return []
        return [self._subscribe(replica, now)]

    def take(self, replica: str, feed: Feed, now: int) -> tuple[list[Item], list[Send]]:
        source = self._sources.get(replica)
        if source is None or source.subscription != feed.subscription:
            return [], []
        if feed.number < source.expected:
            return [], []
        if feed.number > source.expected:
            return [], [self._subscribe(replica, now)]
        source.expected += 1
        news: list[Item] = []
        sends: list[Send] = []
        for item in feed.items:
            if isinstance(item, Stable | Again):
                if not self._has_room(replica) and isinstance(item, Stable):
                    sends += self._unsubscribe(replica)
                    break
                more, say = self._take_copy(replica, item)
                news += more
                sends += say
            elif isinstance(item, Gap):
                source.bucket = max(source.bucket, -(-item.start // self.size))
        if news:
            sends += self.read_on(dict.fromkeys(self._sources, State.STABLE), {}, now)
        return news, sends

    def _take_copy(self, replica: str, item: Stable | Again) -> tuple[list[Item], list[Send]]:
        segment = item.segment
        number = segment.start // self.size
        attempt = item.attempt if isinstance(item, Again) else 0
        if isinstance(item, Stable):
            self._sources[replica].bucket = max(self._sources[replica].bucket, number + 1)
        if (segment.start, segment.end) != (number * self.size, (number + 1) * self.size):
            return [], []
        said = digest(segment.rows)
        if number in self.gate.wants(replica):
            self._rows.setdefault((number, said), segment)
        return self._carry_out(self.gate.take(Copy(replica, number, said, attempt)))

    def _carry_out(self, commands: list[Command]) -> tuple[list[Item], list[Send]]:
        news: list[Item] = []
        sends: list[Send] = []
        for command in commands:
            match command:
                case Release():
                    news += self._release(command)
                case Accuse():
                    self.findings.accused.append(command)
                case Taint():
                    self.findings.tainted.append(command)
                case Giveup():
                    self.findings.gave_up = command
                case Redo():
                    sends += self._redo(command)
        return news, sends

    def _release(self, release: Release) -> list[Item]:
        released = self._rows[release.bucket, release.digest]
        self._rows = {key: rows for key, rows in self._rows.items() if key[0] > release.bucket}
        start, self.position = self.position, released.end
        return [Stable(Segment(start, released.end, released.rows))]

    def _redo(self, redo: Redo) -> list[Send]:
        self.findings.redone += 1
        start = redo.bucket * self.size
        ask = Recalculate(self.stream, start, start + self.size, redo.attempt)
        return [Send(name, ask) for name in self._sources]

    def pause(self) -> list[Send]:
        self.is_paused = True
        return [send for name in self._sources for send in self._unsubscribe(name)]

    def resume(self) -> None:
        self.is_paused = False

    def gap(self, states: Mapping[str, State]) -> int | None:
        return None

    def jump(self, boundary: int) -> None:
        self.position = max(self.position, boundary)
