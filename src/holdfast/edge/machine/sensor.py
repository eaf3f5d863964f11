"""A sensor: divides its events over partitions, numbers them, keeps them until acknowledged.

Its clock may be wrong: the root's counts. A sensor asks for it when it joins and now and then after
that; of the corrections that the answer allows the one nearest to the present one is chosen, so
that a slow network is not taken for a wrong clock.

One cursor for each partition says what has been sent. Whoever owns the partition sets it back with
`Resume`, after a take-over as after a gap; events are then sent again from there, new ones behind
them. A sensor that is started anew has lost its offsets, and calls itself by its name and a number
that is larger than before (`incarnation`): the root then lets it take the place of the old one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast.edge.machine.aggregates import invalid_keys
from holdfast.edge.machine.backlog import Backlog, Choice, Partitioner, partitioner
from holdfast.edge.machine.messages import (
    Events,
    Fenced,
    Guarantee,
    Lost,
    Message,
    Resume,
    RootTime,
    Safe,
    Send,
    SensorHello,
    SensorWelcome,
)
from holdfast.errors import InvalidArgumentError
from holdfast.groups import Claim


def incarnation(name: str, life: int) -> str:
    """What a sensor calls itself; `life` is larger than in all its earlier lives."""
    return f"{name}~{life}"


@dataclass(frozen=True, slots=True)
class SensorOptions:
    """`capacity`: events kept for each partition. `frame`: most events in a message. `burst`: most
    messages for one partition at a time, so that a long replay does not hold up the rest; the next
    follow `pause` later. `pulse`: how often a partition without events is told the boundary.
    `refresh`: how often a child is asked who owns what, should no word of it have come.
    `lateness`: how far events may be out of order. `idle`: a sensor that has nothing for so long
    says how far time has come without it; None: never. `ahead`: how far events may be ahead of the
    root's clock; None: any time."""

    partitioner: str = "round-robin"
    capacity: int = 65_536
    on_full: Literal["wait", "drop"] = "wait"
    frame: int = 4_096
    burst: int = 16
    pause: int = 1_000
    pulse: int = 100_000
    retry: int = 500_000
    refresh: int = 5_000_000
    lateness: int = 0
    idle: int | None = None
    ahead: int | None = None


@dataclass(slots=True)
class _Route:
    """One partition."""

    claim: Claim
    backlog: Backlog
    sent: int = 0
    """The last offset sent to the present owner."""
    furthest: int = 0
    """The last one sent to anybody."""
    told: int = 0
    """The boundary it was told."""
    told_at: int = 0
    safe: int = 0
    """The boundary that nobody will ask for again."""
    late: int = 0
    rejected: int = 0


class Sensor:
    def __init__(
        self,
        name: str,
        children: Sequence[str],
        options: SensorOptions | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        """`children`: at least one of the group; they are asked in turn."""
        if not children:
            raise InvalidArgumentError(f"sensor {name!r}: name at least one child to ask")
        self.name = name
        self.options = options or SensorOptions()
        self.start = 0
        self.taken = 0
        self.rejections: Counter[str] = Counter()
        """Events that no query could take, by reason."""
        self.late = 0
        self.early = 0
        """Events that were further ahead of the root's clock than is allowed."""
        self.boundary = 0
        self.ahead = 0
        """How far the clock of this sensor is ahead of the root's."""
        self._children = tuple(children)
        self._rng = rng
        self._asked = 0
        self._ask_at = 0
        self._first_time = 0
        self._stamps = False
        self._end: int | None = None
        self._has_left = False
        """The roster says so, as it asked."""
        self._is_measured = False
        self._reached = (0, 0)
        """The time of the last events, and of this sensor's clock when they came."""
        self._quiet: tuple[int, int] | None = None
        """Since when there is nothing, and when that was last seen."""
        self._guarantee: Guarantee = "exactly-once"
        self._routes: dict[int, _Route] = {}
        self._order: tuple[int, ...] = ()
        self._choose: Partitioner | None = None
        self._more_at: int | None = None
        self._newest = 0

    @property
    def rejected(self) -> int:
        return self.rejections.total()

    @property
    def is_member(self) -> bool:
        return bool(self._routes)

    @property
    def is_done(self) -> bool:
        """Whether it has left, and all that it said is safe."""
        return self._has_left and all(
            not len(route.backlog) and route.safe >= (self._end or 0)
            for route in self._routes.values()
        )

    @property
    def owners(self) -> dict[int, str]:
        return {partition: route.claim.node for partition, route in self._routes.items()}

    @property
    def buffered(self) -> int:
        return sum(len(route.backlog) for route in self._routes.values())

    def join(self, time: int, now: int, *, stamps: bool = False) -> list[Send]:
        """Ask to take part; `time`: about when the first event will be. `stamps`: events will get
        their times from `root_time`."""
        self._first_time = time
        self._stamps = stamps
        return self._ask(now)

    def leave(self, now: int) -> list[Send]:
        """No further event will come. The sensor is needed until `is_done`."""
        if self._end is None:
            self._end = max(self.boundary, self._newest + 1)
            self.boundary = self._end
            for route in self._routes.values():
                route.told_at = now - self.options.pulse
        asked = self._ask(now)
        return asked + self._flush(now) if self._routes else asked

    def root_time(self, now: int) -> int:
        """What the root's clock shows when this sensor's shows `now`."""
        return now - self.ahead

    def due(self, now: int) -> int | None:
        """When to call `wake`."""
        if not self._routes:
            return self._ask_at
        pulse = min(route.told_at for route in self._routes.values()) + self.options.pulse
        times = (pulse, self._ask_at, self._more_at)
        return min(time for time in times if time is not None)

    def wake(self, now: int) -> list[Send]:
        asked = self._ask(now) if now >= self._ask_at else []
        return asked + self._flush(now) if self._routes else asked

    def emit(
        self, times: ArrayLike, values: ArrayLike, keys: Sequence[Any] | None, now: int
    ) -> tuple[int, list[Send]]:
        """Take events. The first number is how many of them, from the front, are dealt with (taken,
        late or rejected): with `on_full="wait"` fewer than came when a partition has no room."""
        if self._choose is None:
            return 0, []
        when = np.asarray(times, np.int64)
        what = np.asarray(values, np.float64)
        whose = None if keys is None else _objects(keys)
        if not len(when):
            return 0, []
        late, early, broken = self._refused(when, what, now)
        invalid = None if whose is None else invalid_keys(whose)
        if invalid is not None:
            invalid &= ~broken
            late, early, broken = late & ~invalid, early & ~invalid, broken | invalid
        refused = late | early | broken
        good = np.flatnonzero(~refused) if refused.any() else None
        if good is not None:
            when, what = when[good], what[good]
            whose = None if whose is None else whose[good]
        has_good = len(when) > 0
        choices = self._choose(self.taken, whose, len(when))
        limit = self._limit(choices, len(when)) if self.options.on_full == "wait" else len(when)
        if limit < len(when):
            when, what = when[:limit], what[:limit]
            whose = None if whose is None else whose[:limit]
            choices = [_until(choice, limit) for choice in choices]
        for partition, choice in zip(self._order, choices, strict=True):
            some = when[choice]
            if len(some):
                self._keep(self._routes[partition], some, what[choice], whose, choice)
        self.taken += len(when)
        if len(when):
            self._reached = int(when.max()), now
            self._newest = max(self._newest, self._reached[0])
            self.boundary = max(self.boundary, self._newest - self.options.lateness)
        dealt = limit
        if good is not None:
            dealt = len(late) if limit == len(good) else int(good[limit])
            self.late += int(late[:dealt].sum())
            self.early += int(early[:dealt].sum())
            keyless = 0 if invalid is None else int(invalid[:dealt].sum())
            self.rejections["invalid key"] += keyless
            self.rejections["not a number"] += int(broken[:dealt].sum()) - keyless
            # Told in one partition, so that it is counted once.
            self._routes[self._order[0]].late = self.late + self.early
            self._tell_rejected()
        if has_good:
            self._quiet = None
            return dealt, self._flush(now)
        # Events that are refused are no reason to wait for more of them.
        return dealt, self.rest(now) + self._flush(now)

    def reject(self, reason: str, count: int) -> None:
        """So many events were left out before they could be given to `emit`."""
        self.rejections[reason] += count
        self._tell_rejected()

    def _tell_rejected(self) -> None:
        self.rejections = +self.rejections
        if self._order:
            self._routes[self._order[0]].rejected = self.rejected

    def advance(self, time: int, now: int) -> list[Send]:
        """No event before this time will come: for a sensor that has nothing to say."""
        self.boundary = max(self.boundary, time)
        return self._flush(now) if self._routes else []

    def rest(self, now: int) -> list[Send]:
        """There is no event at present. After `idle` time goes on from the last events at the pace
        of the clock, `idle` behind: whether they were of now or of long ago."""
        idle = self.options.idle
        if idle is None or not self._routes:
            return []
        since, seen = self._quiet or (now, now)
        if now - seen > idle:
            # It was this sensor that stood still: there may be events that it has not seen yet.
            since = now
        self._quiet = since, now
        if now - since < idle:
            return []
        time, at = self._reached
        return self.advance(time + now - at - idle - self.options.lateness, now)

    def receive(self, sender: str, message: Message, now: int) -> list[Send]:
        match message:
            case RootTime():
                self._measure(message, now)
            case SensorWelcome():
                return self._enter(sender, message, now)
            case Resume() if message.partition in self._routes:
                return self._resume(sender, message, now)
            case Fenced() if message.partition in self._routes:
                # The owner notices what is missing, and says from where on it needs events.
                self._learn([Claim(message.partition, message.epoch, message.node)])
            case Safe() if message.partition in self._routes:
                route = self._routes[message.partition]
                claim = Claim(message.partition, message.epoch, message.node)
                if claim.rank < route.claim.rank:
                    return [_fenced(sender, route)]
                # What was not sent to the present owner is safe with nobody.
                route.backlog.drop(min(message.offset, route.sent))
                route.safe = max(route.safe, message.boundary)
        return []

    def _ask(self, now: int) -> list[Send]:
        child = self._children[self._asked % len(self._children)]
        self._asked += 1
        self._ask_at = now + (self.options.refresh if self._routes else self.options.retry)
        hello = SensorHello(
            self.name, self._first_time, clock=now, stamps=self._stamps, end=self._end
        )
        return [Send(child, hello)]

    def _measure(self, message: RootTime, now: int) -> None:
        self._is_measured = True
        self.ahead = min(max(self.ahead, message.asked - message.at), now - message.at)

    def _learn(self, claims: Iterable[Claim]) -> None:
        for claim in claims:
            route = self._routes.get(claim.partition)
            if route is not None and claim.rank > route.claim.rank:
                route.claim = claim

    def _enter(self, sender: str, message: SensorWelcome, now: int) -> list[Send]:
        nodes = (claim.node for claim in message.claims)
        self._children = tuple(dict.fromkeys((*self._children, *nodes)))
        self._has_left |= message.end is not None
        if self._routes:
            self._learn(message.claims)
            # One that has not heard of a taker, and the taker is dead: nobody else knows.
            routes = ((self._routes.get(claim.partition), claim) for claim in message.claims)
            return [
                _fenced(sender, route) for route, claim in routes if route and claim != route.claim
            ]
        if not message.claims or not self._is_measured:
            return []
        self._ask_at = now + self.options.refresh
        self.start = message.start
        self.boundary = max(self.boundary, message.start)
        self._guarantee = message.guarantee
        self._order = tuple(sorted(claim.partition for claim in message.claims))
        self._choose = partitioner(self.options.partitioner, self.name, self._order, self._rng)
        self._reached = self.root_time(now), now
        self._routes = {
            claim.partition: _Route(
                claim, Backlog(self.options.capacity), told_at=now - self.options.pulse
            )
            for claim in message.claims
        }
        return self._flush(now)

    def _resume(self, sender: str, message: Resume, now: int) -> list[Send]:
        route = self._routes[message.partition]
        claim = Claim(message.partition, message.epoch, message.node)
        if claim.rank < route.claim.rank:
            return [_fenced(sender, route)]
        sends = []
        if claim.rank > route.claim.rank:
            before, route.claim = route.claim, claim
            if before.node != claim.node:
                sends.append(_fenced(before.node, route))
        gone = route.backlog.gone(message.offset, message.since)
        if gone and self._guarantee != "at-most-once":
            lost = Lost(
                self.name,
                message.partition,
                claim.epoch,
                message.offset,
                message.since,
                tuple(gone),
            )
            return [*sends, Send(message.node, lost)]
        route.sent = max(message.offset, route.backlog.first - 1)
        route.sent = min(route.sent, route.backlog.next - 1)
        route.told = -1
        return [*sends, *self._flush(now)]

    def _refused(
        self, times: NDArray[np.int64], values: NDArray[np.float64], now: int
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
        """Which come after their boundary, which are too far ahead of the root's clock, and which
        are no numbers. Events of one call have an order as well."""
        broken = np.isnan(values)
        early = np.zeros(len(times), np.bool_)
        if self.options.ahead is not None:
            early = (times > self.root_time(now) + self.options.ahead) & ~broken
        out = early | broken
        counted = np.where(out, self.boundary, times) if out.any() else times
        latest = np.maximum.accumulate(counted) - self.options.lateness
        bounds = np.maximum(np.concatenate(([self.boundary], latest[:-1])), self.boundary)
        return (times < bounds) & ~out, early, broken

    def _limit(self, choices: Sequence[Choice], count: int) -> int:
        """How many events, from the front, all partitions have room for."""
        limit = count
        for partition, choice in zip(self._order, choices, strict=True):
            room = self._routes[partition].backlog.room
            if isinstance(choice, slice):
                if len(range(choice.start, choice.stop, choice.step)) > room:
                    limit = min(limit, choice.start + room * choice.step)
            elif len(choice) > room:
                limit = min(limit, int(choice[room]))
        return limit

    def _keep(
        self,
        route: _Route,
        times: NDArray[np.int64],
        values: NDArray[np.float64],
        keys: NDArray[Any] | None,
        choice: Choice,
    ) -> None:
        some = None if keys is None else keys[choice]
        for begin in range(0, len(times), self.options.capacity):
            end = begin + self.options.capacity
            route.backlog.append(
                times[begin:end], values[begin:end], None if some is None else some[begin:end]
            )

    def _flush(self, now: int) -> list[Send]:
        """Send on, from where each cursor is."""
        sends: list[Send] = []
        self._more_at = None
        for partition in self._order:
            route = self._routes[partition]
            # What had to make room before it was sent is a gap that the owner will notice.
            route.sent = max(route.sent, route.backlog.first - 1)
            for _ in range(self.options.burst):
                if route.sent >= route.backlog.next - 1:
                    break
                sends.append(self._frame(partition, route, now))
            else:
                if route.sent < route.backlog.next - 1:
                    self._more_at = now + self.options.pause
                    continue
            if now >= route.told_at + self.options.pulse:
                sends.append(self._pulse(partition, route, now))
        return sends

    def _frame(self, partition: int, route: _Route, now: int) -> Send:
        piece = route.backlog.read(route.sent + 1, self.options.frame)
        last = piece.first + len(piece.times) - 1
        boundary = self.boundary
        if last < route.backlog.next - 1:
            boundary = min(boundary, route.backlog.time(last + 1) - self.options.lateness)
        replayed = piece.first <= route.furthest
        route.sent = last
        route.furthest = max(route.furthest, last)
        route.told, route.told_at = boundary, now
        if self._guarantee == "at-most-once":
            route.backlog.drop(last)
        message = Events(
            self.name,
            partition,
            route.claim.epoch,
            piece.first,
            piece.times,
            piece.values,
            boundary,
            piece.keys,
            replayed,
            route.late,
            self._newest,
            route.rejected,
        )
        return Send(route.claim.node, message)

    def _pulse(self, partition: int, route: _Route, now: int) -> Send:
        """No events, but the boundary; and if the last events were lost, the owner notices."""
        route.told, route.told_at = self.boundary, now
        nothing = np.empty(0, np.int64), np.empty(0, np.float64)
        message = Events(
            self.name,
            partition,
            route.claim.epoch,
            route.sent + 1,
            *nothing,
            self.boundary,
            late=route.late,
            newest=self._newest,
            rejected=route.rejected,
        )
        return Send(route.claim.node, message)


def _objects(keys: Sequence[Any]) -> NDArray[Any]:
    # One by one: lists among them are no further dimension.
    return np.fromiter(keys, object, len(keys))


def _until(choice: Choice, limit: int) -> Choice:
    if isinstance(choice, slice):
        return slice(choice.start, min(choice.stop, limit), choice.step)
    return choice[: int(np.searchsorted(choice, limit))]


def _fenced(to: str, route: _Route) -> Send:
    claim = route.claim
    return Send(to, Fenced(claim.partition, claim.epoch, claim.node))
