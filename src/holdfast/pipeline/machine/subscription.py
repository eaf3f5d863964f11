"""Subscription to one input stream: the replica that is read, and what has come.

`switch`: the current replica gives the freshest data there is; while that is tentative, another one
may send corrections in the background. Stable segments are taken from either, for they are the same
on all replicas; what is out of place is left, and what was lost is noticed and asked for again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, Protocol

from holdfast.pipeline.machine.messages import (
    Again,
    Feed,
    Gap,
    Item,
    Preview,
    Progress,
    Read,
    RecDone,
    Send,
    Stable,
    Subscribe,
    Undo,
    Unsubscribe,
)
from holdfast.pipeline.machine.replica_selection import Choice, choose
from holdfast.pipeline.machine.states import State, best_state
from holdfast.pipeline.machine.tuples import Segment


class Intake(Protocol):
    """One input stream: its replicas and what has been read of it."""

    stream: str
    position: int
    caught_up: set[str]
    is_paused: bool

    @property
    def needed(self) -> int:
        """Nothing before this will be read again."""

    def best(self, states: Mapping[str, State]) -> State:
        """How good the stream is, by the states of its replicas."""

    def newest(self, ends: Mapping[str, int]) -> int:
        """How far the stream goes, by the boundaries that some of its replicas name."""

    def place_of(self, replica: str) -> int:
        """How far it has been read from this replica."""

    def read_on(self, states: Mapping[str, State], ends: Mapping[str, int], now: int) -> list[Send]:
        """Read from where the states of the replicas say it is best."""

    def take(self, replica: str, feed: Feed, now: int) -> tuple[list[Item], list[Send]]:
        """What of a feed is news, and what to say."""

    def confirm(self, replica: str) -> list[Send]:
        """The word to a replica that what it sent has been read, once that is enough."""

    def check(self, replica: str, progress: Progress, beat: int, now: int) -> list[Send]:
        """The replica says, asked by a heartbeat at `beat`, what it has sent: subscribe anew if
        some of it was lost."""

    def pause(self) -> list[Send]:
        """Stop reading: there is no room."""

    def resume(self) -> None:
        """Read again, from `read_on` on."""

    def gap(self, states: Mapping[str, State], *, hasty: bool = False) -> int | None:
        """Where the stream goes on if no replica has what comes next; None while one may.

        `hasty`: do not wait for those that cannot be reached."""

    def jump(self, boundary: int) -> list[Item]:
        """Give up what is before the boundary; what is already there of what follows it."""


OVERTAKEN: Final = 256
"""So many messages may overtake one before it is taken for lost."""
HEAVY: Final = 64 << 20
"""So many bytes of them are held at most."""
CONFIRM: Final = 8
"""A reader confirms what it has read after so many segments,"""
CONFIRM_BYTES: Final = 2 << 20
"""or so many bytes: both well within the publisher's window, which so never closes on a reader that
keeps up."""
LOST: Final = 4
"""When so many have overtaken one that a reader waits for, it asks again at once."""


@dataclass(slots=True)
class Subscription:
    """A feed from one replica, as its reader knows it."""

    number: int
    asked: int
    """When it was asked for."""
    grace: int
    """A heartbeat sent so much later does not overtake it."""
    expected: int = 0
    """The number of the next message."""
    due: int = 0
    """How many had been sent when the replica last said so: by now they have arrived, or never."""
    has_gap: bool = False
    """Whether its stable line did not go on from where ours ends."""
    beyond: deque[Segment] = field(default_factory=deque)
    """What came after the gap,"""
    beyond_bytes: int = 0
    """and how many bytes that is."""
    is_cut: bool = False
    """Whether there was more than that, which has to be asked for again."""
    early: dict[int, Feed] = field(default_factory=dict)
    """Messages that have overtaken others."""
    unconfirmed: int = 0
    """Stable segments read since the last confirmation, and their bytes."""
    unconfirmed_bytes: int = 0

    def confirm(self, stream: str, replica: str, place: int) -> list[Send]:
        """The word that all up to this place has been read, once enough has."""
        if self.unconfirmed < CONFIRM and self.unconfirmed_bytes < CONFIRM_BYTES:
            return []
        self.unconfirmed = self.unconfirmed_bytes = 0
        return [Send(replica, Read(stream, self.number, place))]

    def take(self, feed: Feed) -> Iterator[Item]:
        """The items of a message, and of those that had overtaken it, each once and in order."""
        if feed.subscription == self.number and feed.number >= self.expected:
            self.early[feed.number] = feed
            if feed.number > self.expected and self._is_crowded:
                self.early.clear()
        while (following := self.early.pop(self.expected, None)) is not None:
            self.expected += 1
            for item in following.items:
                if isinstance(item, Stable):
                    self.unconfirmed += 1
                    self.unconfirmed_bytes += item.segment.weight
                yield item

    @property
    def _is_crowded(self) -> bool:
        return len(self.early) > OVERTAKEN or sum(map(_weight, self.early.values())) > HEAVY

    def is_lost(self, progress: Progress, beat: int) -> bool:
        """Whether the replica's word shows that a message was lost, theirs or ours."""
        if progress.subscription != self.number:
            return beat >= self.asked + self.grace
        missing = self.expected < self.due
        self.due = progress.sent
        return missing


def _weight(feed: Feed) -> int:
    """About how many bytes it takes."""
    segments = [item.segment for item in feed.items if isinstance(item, Stable | Preview | Again)]
    return 100 * len(feed.items) + sum(segment.weight for segment in segments)


class SwitchIntake:
    """Reads one stream from the best of its replicas."""

    def __init__(
        self, stream: str, replicas: Sequence[str], *, grace: int, position: int = 0
    ) -> None:
        """`grace`: a heartbeat sent so much later than a subscription does not overtake it."""
        self.stream = stream
        self.grace = grace
        self.replicas = tuple(replicas)
        self.position = position
        """Up to where the stable line has been read."""
        self.shown = position
        """Up to where anything has been read, be it previews."""
        self._has_previews = False
        self._owes_done = False
        self._stands = position
        """Where the last stable segment ended."""
        self.choice = Choice(self.replicas[0])
        self.caught_up: set[str] = set()
        """Replicas that have said, since the failure began, that all is corrected."""
        self.is_paused = False
        self._subscriptions: dict[str, Subscription] = {}
        self._too_new: dict[str, int] = {}
        """Replicas that keep the stream only from a place beyond ours."""
        self._holes: dict[str, tuple[int, int]] = {}
        """Where those go on that have a hole at our place, and until when we shall not ask again:
        what they say of themselves with every heartbeat is only where they begin."""
        self._done: set[str] = set()
        """Replicas that have said so since they last told their state."""
        self._latest = -1
        self._failed_us = dict.fromkeys(self.replicas, -1)
        """When each replica last kept something from us that it or another had published."""
        self._overtaken: dict[str, tuple[int, int]] = {}
        """Of each replica that has published more than we have: what we had when it first said so,
        and when that was."""

    @property
    def needed(self) -> int:
        return self.position

    def place_of(self, replica: str) -> int:
        subscription = self._subscriptions.get(replica)
        if subscription is not None and subscription.beyond:
            return subscription.beyond[-1].end
        return self.position

    def read_on(self, states: Mapping[str, State], ends: Mapping[str, int], now: int) -> list[Send]:
        """Go to other replicas if the states of the replicas say so."""
        usable = {name: self._usable(name, state) for name, state in states.items()}
        before = self.choice
        self.choice = choose(self._leave_a_bad_link(usable), usable, ends)
        if self.is_paused:
            return []
        sends = [
            self._unsubscribe(name) for name in list(self._subscriptions) if not self._reads(name)
        ]
        for name in (self.choice.current, self.choice.background):
            if name is None or usable[name] is State.FAILURE:
                continue
            was_background = before.background == name and self.choice.current == name
            if was_background or not self._is_read(name):
                sends.append(self._subscribe(name, now))
        return sends

    def _leave_a_bad_link(self, states: Mapping[str, State]) -> Choice:
        """Of replicas in the same state, read the one that has failed us longest ago."""
        current, background = self.choice.current, self.choice.background
        equals = [
            name for name, state in states.items() if state is states[current] is not State.FAILURE
        ]
        best = min(equals, key=self._failed_us.__getitem__, default=current)
        if best == background or self._failed_us[best] == self._failed_us[current]:
            return self.choice
        return Choice(best, background)

    @property
    def sources(self) -> Set[str]:
        """The replicas that are asked to send what they have."""
        return self._subscriptions.keys()

    def _is_read(self, name: str) -> bool:
        """Whether its feed is the right one: one with a gap is not, once there is none any more."""
        subscription = self._subscriptions.get(name)
        if subscription is None:
            return False
        return not subscription.has_gap or self._too_new[name] > self.position

    def _usable(self, name: str, state: State) -> State:
        if self._too_new.get(name, 0) > self.position:
            # Its stable line is of no use yet, its previews are.
            return max(state, State.UP_FAILURE)
        return State.STABLE if name in self._done and state is not State.FAILURE else state

    def _reads(self, name: str) -> bool:
        return name in (self.choice.current, self.choice.background)

    def _subscribe(self, name: str, now: int) -> Send:
        # Numbers should grow over a restart too, so they are times; `check` mends it if not.
        self._latest = max(self._latest + 1, now)
        self._subscriptions[name] = Subscription(self._latest, now, self.grace)
        previews = name == self.choice.current
        ask = Subscribe(
            self.stream, self._latest, self.position, self.shown, previews, self._has_previews
        )
        return Send(name, ask)

    def best(self, states: Mapping[str, State]) -> State:
        return best_state(states)

    def newest(self, ends: Mapping[str, int]) -> int:
        return max(ends.values())

    def _unsubscribe(self, name: str) -> Send:
        return Send(name, Unsubscribe(self.stream, self._subscriptions.pop(name).number))

    def pause(self) -> list[Send]:
        """Stop reading: there is no room."""
        self.is_paused = True
        return [self._unsubscribe(name) for name in list(self._subscriptions)]

    def resume(self) -> None:
        """Read again, from `read_on` on."""
        self.is_paused = False

    def check(self, replica: str, progress: Progress, beat: int, now: int) -> list[Send]:
        if replica not in self.replicas:
            return []
        self._done.discard(replica)
        beyond_hole, until = self._holes.get(replica, (0, now))
        self._too_new[replica] = max(progress.start, beyond_hole if now < until else 0)
        self._latest = max(self._latest, progress.subscription)
        self._compare(replica, progress, beat, now)
        subscription = self._subscriptions.get(replica)
        if subscription is None and progress.subscription >= 0:
            # It has not heard that it was left.
            return [Send(replica, Unsubscribe(self.stream, progress.subscription))]
        if subscription is None or not subscription.is_lost(progress, beat):
            return []
        self._failed_us[replica] = now
        return [self._subscribe(replica, now)]

    def _compare(self, replica: str, progress: Progress, beat: int, now: int) -> None:
        """Notice that a replica has had for a while what the one we read does not give us. Where
        words take long, that is no fault of his before an answer could have come."""
        if progress.previewed <= self.shown:
            self._overtaken.pop(replica, None)
            return
        had, since = self._overtaken.get(replica, (-1, now))
        current = self._subscriptions.get(self.choice.current)
        if had != self.shown:
            self._overtaken[replica] = self.shown, now
        elif current is not None and beat > max(since, current.asked):
            self._failed_us[self.choice.current] = now

    def take(self, replica: str, feed: Feed, now: int) -> tuple[list[Item], list[Send]]:
        subscription = self._subscriptions.get(replica)
        if subscription is None:
            return [], []
        news: list[Item] = []
        sends: list[Send] = []
        for item in subscription.take(feed):
            if isinstance(item, Gap):
                if item.start > self.position:
                    self._too_new[replica] = item.start
                    self._holes[replica] = item.start, now + self.grace * len(self.replicas)
                    subscription.has_gap = True
                    subscription.beyond.clear()
                    subscription.beyond_bytes = 0
            elif isinstance(item, RecDone):
                sends += self._cut_over(replica, now)
                self._owes_done = True
            elif isinstance(item, Stable) and subscription.has_gap:
                if len(subscription.beyond) < OVERTAKEN and subscription.beyond_bytes < HEAVY:
                    subscription.beyond.append(item.segment)
                    subscription.beyond_bytes += item.segment.weight
                else:
                    subscription.is_cut = True
                news += self._cross_gaps()
            else:
                news += self._read(replica, item)
        if self._subscriptions.get(replica) is subscription and len(subscription.early) >= LOST:
            self._failed_us[replica] = now
            sends.append(self._subscribe(replica, now))
        return news + self._cross_gaps() + self._end_corrections(), sends

    def confirm(self, replica: str) -> list[Send]:
        known = self._subscriptions.get(replica)
        if known is None:
            return []
        return known.confirm(self.stream, replica, self.place_of(replica))

    def _cross_gaps(self) -> list[Item]:
        """Read what came after a gap, if there is none any more."""
        news: list[Item] = []
        for name, subscription in self._subscriptions.items():
            beyond = subscription.beyond
            while beyond and beyond[0].start <= self.position:
                segment = beyond.popleft()
                subscription.beyond_bytes -= segment.weight
                news += self._read(name, Stable(segment))
                subscription.has_gap = bool(beyond) or subscription.is_cut
        return news

    def _end_corrections(self) -> list[Item]:
        """Pass a REC_DONE on when the stable line has come as far as anything was shown, be it by
        another replica."""
        if not self._owes_done or self._has_previews or self.position < self.shown:
            return []
        self._owes_done = False
        return [RecDone()]

    def _read(self, replica: str, item: Item) -> list[Item]:
        if isinstance(item, Stable):
            segment = item.segment.after(self.position)
            if segment.start > self.position or segment.end <= self.position:
                return []
            withdrawn: list[Item] = [Undo(self._stands)] if self._has_previews else []
            self._has_previews = False
            self.position = self._stands = segment.end
            self.shown = max(self.shown, segment.end)
            return [*withdrawn, Stable(segment)]
        if not isinstance(item, Preview) or replica != self.choice.current:
            # The UNDO that counts here is the one before our own next stable segment.
            return []
        if item.segment.end <= self.shown:
            return []
        # Replicas cut differently: what of it stands already is not shown twice.
        segment = item.segment.after(self.shown if self._has_previews else self.position)
        self.shown = segment.end
        self._has_previews = True
        return [Preview(segment)]

    def _cut_over(self, replica: str, now: int) -> list[Send]:
        """All is corrected there: the background replica becomes the current one."""
        self.caught_up.add(replica)
        self._done.add(replica)
        if replica != self.choice.background:
            return []
        left = self.choice.current
        self.choice = Choice(replica)
        sends = [self._unsubscribe(left)] if left in self._subscriptions else []
        return [*sends, self._subscribe(replica, now)]

    def gap(self, states: Mapping[str, State], *, hasty: bool = False) -> int | None:
        starts = [
            self._too_new.get(name, 0)
            for name, state in states.items()
            if state is not State.FAILURE or not hasty
        ]
        if not starts or min(starts) <= self.position:
            return None
        return min(starts)

    def jump(self, boundary: int) -> list[Item]:
        # The feeds go on: what of them is before the boundary is left.
        if boundary > self.position:
            self.position = boundary
            self.shown = max(self.shown, boundary)
        return self._cross_gaps() + self._end_corrections()
