"""A sensor: divides its events over partitions, numbers them, keeps them until they are safe.

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

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.edge.aggregates import invalid_keys
from holdfast.protocol.edge.backlog import Backlog
from holdfast.protocol.edge.messages import (
    Events,
    Fenced,
    Guarantee,
    Lost,
    Message,
    Resume,
    Safe,
    Send,
    SensorHello,
    SensorWelcome,
)
from holdfast.protocol.edge.partitioners import Choice, Partitioner, partitioner
from holdfast.protocol.groups import Claim

__all__ = ["Sensor", "SensorOptions", "incarnation"]


def incarnation(name: str, life: int) -> str:
    """What a sensor calls itself; `life` is larger than in all its earlier lives."""
    return f"{name}~{life}"


@dataclass(frozen=True, slots=True)
class SensorOptions:
    """`capacity`: events kept for each partition. `frame`: most events in a message. `burst`: most
    messages for one partition at a time, so that a long replay does not hold up the rest; the next
    follow `pause` later. `pulse`: how often a partition without events is told the boundary.
    `refresh`: how often a child is asked who owns what, should no word of it have come.
    `lateness`: how far events may be out of order."""

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
        self.boundary = 0
        self._children = tuple(children)
        self._rng = rng
        self._asked = 0
        self._ask_at = 0
        self._first_time = 0
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
    def owners(self) -> dict[int, str]:
        return {partition: route.claim.node for partition, route in self._routes.items()}

    @property
    def buffered(self) -> int:
        return sum(len(route.backlog) for route in self._routes.values())

    def join(self, time: int, now: int) -> list[Send]:
        """Ask to take part; `time`: about when the first event will be."""
        self._first_time = time
        return self._ask(now)

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
        late, broken = self._refused(when, what)
        invalid = None if whose is None else invalid_keys(whose)
        if invalid is not None:
            invalid &= ~broken
            late, broken = late & ~invalid, broken | invalid
        good = np.flatnonzero(~(late | broken)) if late.any() or broken.any() else None
        if good is not None:
            when, what = when[good], what[good]
            whose = None if whose is None else whose[good]
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
            self._newest = max(self._newest, int(when.max()))
            self.boundary = max(self.boundary, self._newest - self.options.lateness)
        dealt = limit
        if good is not None:
            dealt = len(late) if limit == len(good) else int(good[limit])
            self.late += int(late[:dealt].sum())
            keyless = 0 if invalid is None else int(invalid[:dealt].sum())
            self.rejections["invalid key"] += keyless
            self.rejections["not a number"] += int(broken[:dealt].sum()) - keyless
            # Told in one partition, so that it is counted once.
            self._routes[self._order[0]].late = self.late
            self._tell_rejected()
        return dealt, self._flush(now)

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

    def receive(self, sender: str, message: Message, now: int) -> list[Send]:
        match message:
            case SensorWelcome():
                return self._enter(message, now)
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
        return []

    def _ask(self, now: int) -> list[Send]:
        child = self._children[self._asked % len(self._children)]
        self._asked += 1
        self._ask_at = now + (self.options.refresh if self._routes else self.options.retry)
        return [Send(child, SensorHello(self.name, self._first_time))]

    def _learn(self, claims: Iterable[Claim]) -> None:
        for claim in claims:
            route = self._routes.get(claim.partition)
            if route is not None and claim.rank > route.claim.rank:
                route.claim = claim

    def _enter(self, message: SensorWelcome, now: int) -> list[Send]:
        nodes = (claim.node for claim in message.claims)
        self._children = tuple(dict.fromkeys((*self._children, *nodes)))
        if self._routes:
            self._learn(message.claims)
            return []
        if not message.claims:
            return []
        self._ask_at = now + self.options.refresh
        self.start = message.start
        self.boundary = max(self.boundary, message.start)
        self._guarantee = message.guarantee
        self._order = tuple(sorted(claim.partition for claim in message.claims))
        self._choose = partitioner(self.options.partitioner, self.name, self._order, self._rng)
        self._routes = {
            claim.partition: _Route(claim, Backlog(self.options.capacity))
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
        self, times: NDArray[np.int64], values: NDArray[np.float64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which come after their boundary, and which are no numbers. Events of one call have an
        order as well."""
        broken = np.isnan(values)
        latest = np.maximum.accumulate(times) - self.options.lateness
        bounds = np.maximum(np.concatenate(([self.boundary], latest[:-1])), self.boundary)
        return (times < bounds) & ~broken, broken

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
