"""The command `holdfast edge sensor FILE NAME`: events into the sensor's state machine.

A child that does not keep up slows its sensors: no event is taken in while much waits to be sent to
an owner, or while the machine has no room for it.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, Protocol, cast

import numpy as np

from holdfast.edge.machine.sensor import Sensor, SensorOptions, incarnation
from holdfast.edge.process.config import Layout
from holdfast.edge.process.config import Sensor as Settings
from holdfast.edge.process.event_input import Batch, LineReader, Lines, Simulated
from holdfast.edge.process.hub import Hub
from holdfast.edge.process.runner import Clock, Runner, asked_to_end, logger, memory
from holdfast.edge.process.security import read_credentials
from holdfast.errors import InvalidArgumentError
from holdfast.runtime.adjusted_clock import steady

AT_ONCE: Final = 32_768
"""Most events taken in together."""
HIGH_WATER: Final = 1 << 20
"""Bytes waiting for one owner above which no more events are taken in."""
QUEUE: Final = 32 << 20
"""Bytes for one owner: a burst of events with the longest keys."""
REPORT: Final = 200_000
"""Microseconds between two reports."""
LINGER: Final = 30.0
"""Seconds that a sensor without more events stays, for those who may ask for them again."""
BEHIND: Final = 10_000_000
"""Microseconds: windows that wait longer for a sensor, again and again, are held up by it."""
SKEW: Final = 1_000_000
"""Microseconds that a clock may be wrong before that is said."""
REFUSED: Final = {
    "late": "they are older than what windows still wait for; give lateness, or a longer idle, or "
    "start the sensors of old events first",
    "early": "they are further ahead of the root's clock than `ahead` allows; set the clock that "
    "gave them their times",
}


class Feed(Protocol):
    """Where events come from."""

    def next(self, now: int, most: int) -> Batch | None:
        """The next ones that are due, without going on to those after them."""

    def took(self, count: int) -> None:
        """So many of them are dealt with."""

    @property
    def ended(self) -> bool: ...

    @property
    def bad(self) -> int:
        """What could not be read so far."""

    @property
    def has_more(self) -> bool:
        """Whether more can be read already."""

    def facts(self) -> dict[str, Any]: ...


class SimulatedFeed:
    bad = 0
    has_more = False

    def __init__(self, simulated: Simulated) -> None:
        self._simulated = simulated
        self._number = 0

    def next(self, now: int, most: int) -> Batch | None:
        stop = min(self._simulated.before(now), self._number + most)
        if stop <= self._number:
            return None
        return Batch(*self._simulated.events(self._number, stop))

    def took(self, count: int) -> None:
        self._number += count

    @property
    def ended(self) -> bool:
        return self._number == self._simulated.count

    def facts(self) -> dict[str, Any]:
        simulated = self._simulated
        return {
            "start": simulated.start,
            "emitted": self._number,
            "newest": simulated.time(self._number - 1) if self._number else 0,
        }


class LineFeed:
    """`descriptor`: of the file that lines are read from; `clock` stamps those without a time."""

    def __init__(self, kind: str, clock: Callable[[], int], descriptor: int) -> None:
        self._reader = LineReader(descriptor)
        self._kind = kind
        self._lines = Lines(kind, clock)
        self._waiting: Batch | None = None
        self._pieces: deque[bytes] = deque()
        """Looked at and not taken in yet."""
        self.has_begun = False
        """Whether there was an event among them, or the end."""
        self._emitted = 0
        self._over = False

    def look(self, since: int, now: int) -> int | None:
        """Look at the first lines without taking them in, if they have come: their earliest time
        that is not before `since`; None if they have none."""
        data = self._reader.next()
        if data is None:
            return None
        self._pieces.append(data)
        lines = Lines(self._kind, lambda: now)
        found = np.concatenate([lines.feed(piece).times for piece in self._pieces])
        self.has_begun = bool(len(found)) or not data
        given = found[(found >= since) & (found != now)]
        return int(given.min()) if len(given) else None

    def next(self, now: int, most: int) -> Batch | None:
        if self._waiting is None and not self._over:
            data = self._pieces.popleft() if self._pieces else self._reader.next()
            if data is None:
                return None
            self._over = not data
            found = self._lines.feed(data)
            self._waiting = found if len(found.times) else None
        batch = self._waiting
        if batch is None:
            return None
        return Batch(
            batch.times[:most],
            batch.values[:most],
            None if batch.keys is None else batch.keys[:most],
        )

    def took(self, count: int) -> None:
        batch = self._waiting
        assert batch is not None
        self._emitted += count
        rest = Batch(
            batch.times[count:],
            batch.values[count:],
            None if batch.keys is None else batch.keys[count:],
        )
        self._waiting = rest if len(rest.times) else None

    @property
    def ended(self) -> bool:
        return self._over and self._waiting is None

    @property
    def bad(self) -> int:
        return self._lines.bad

    @property
    def has_more(self) -> bool:
        return self._reader.has_more

    def facts(self) -> dict[str, Any]:
        return {"emitted": self._emitted, "bad_lines": self._lines.bad}


def run_sensor(
    layout: Layout,
    name: str,
    *,
    report: Path | None = None,
    routes: Mapping[str, str] | None = None,
) -> None:
    """Returns when it is asked to end, or has no more events and all of them are safe."""
    settings = layout.sensors[name] if name in layout.sensors else Settings()
    descriptor = -1 if settings.input == "simulated" else _input(name)
    # The root is asked for the time: of two answers the sensor can tell how far they are apart.
    clock = steady(Clock())
    children = layout.groups()[settings.group]
    addresses = {**layout.addresses(), **(routes or {})}
    # Of two processes of one name the one that was started last is the sensor.
    me = incarnation(name, clock())
    machine = Sensor(
        me,
        children,
        sensor_options(layout, settings),
        np.random.default_rng([settings.seed, clock()]),
    )
    runner = Runner(me, machine, clock)
    hub = Hub(
        me,
        read_credentials(layout.security, layout.home),
        runner.received,
        addresses={child: addresses[child] for child in children},
        queue=QUEUE,
    )
    runner.hub = hub
    hub.keep(*children)
    with asked_to_end() as ending:
        while not any(hub.is_open(child) for child in children) and not ending():
            hub.poll(0.05)
        lines, first = None, None
        if settings.input != "simulated":
            stamp = _root_clock(machine, clock)
            lines = LineFeed(settings.input, stamp, descriptor)
            deadline = clock() + int(settings.idle)
            since = clock() - int(layout.history)
            while not (ending() or lines.has_begun or clock() >= deadline):
                hub.poll(0.01)
                first = lines.look(since, clock())
        now = clock()
        runner.carry(machine.join(now if first is None else first, now, stamps=first is None))
        while not machine.is_member and not ending():
            runner.turn()
        logger.info("%s: takes part from %s on", name, _iso(machine.start))
        if abs(machine.ahead) > SKEW:
            logger.warning(
                "%s: the clock is %.1f s %s the root's; its events are given the root's time; set "
                "it",
                name,
                abs(machine.ahead) / 1e6,
                "ahead of" if machine.ahead > 0 else "behind",
            )
        sensing = _Sensing(layout, name, settings, machine, runner, report, lines)
        while not ending() and not sensing.done:
            sensing.step()
        sensing.report(clock(), left=True)
        hub.flush(1.0)
    hub.close()


def _input(name: str) -> int:
    # Without a standard input, as of some services, there is no such object.
    if sys.stdin is None:
        raise InvalidArgumentError(
            f"sensor {name!r}: has no standard input; pipe its lines into it, or </dev/null"
        )
    return sys.stdin.fileno()


def sensor_options(layout: Layout, settings: Settings) -> SensorOptions:
    """What a sensor is told of its file."""
    return SensorOptions(
        partitioner=layout.routing,
        capacity=layout.buffer,
        on_full=cast(Literal["wait", "drop"], layout.on_full),
        pulse=min(100_000, int(layout.frame) * 2),
        lateness=int(settings.lateness),
        # It looks for lines once in a frame.
        idle=max(int(settings.idle), 4 * int(layout.frame)),
        ahead=int(layout.ahead),
    )


def _root_clock(machine: Sensor, clock: Callable[[], int]) -> Callable[[], int]:
    return lambda: machine.root_time(clock())


def _iso(time: int) -> str:
    return datetime.fromtimestamp(time / 1e6, UTC).isoformat()


class Pace:
    """Tells a sensor that reads old events, and will have read them, from one whose events stay as
    old as they are."""

    def __init__(self) -> None:
        self._since: int | None = None
        self._behind = 0

    def is_held(self, now: int, behind: int) -> bool:
        """Whether events have been `behind` for a while, and hardly less so than before."""
        if behind <= BEHIND:
            self._since = None
        elif self._since is None:
            self._since, self._behind = now, behind
        elif now - self._since >= BEHIND:
            is_held = behind > self._behind - (now - self._since) // 2
            self._since, self._behind = now, behind
            return is_held
        return False


class _Sensing:
    """The loop of a sensor that takes part."""

    def __init__(
        self,
        layout: Layout,
        name: str,
        settings: Settings,
        machine: Sensor,
        runner: Runner,
        report: Path | None,
        lines: LineFeed | None,
    ) -> None:
        """`lines`: where events come from; None: they are simulated."""
        self._machine = machine
        self._runner = runner
        self._name = name
        self._path = report
        self._tick = int(layout.frame)
        self._reported = 0
        self._is_unreported = False
        self._bad = 0
        self._told: set[str] = set()
        self._paused = 0
        """How often no event was taken in, for others were behind."""
        now = runner.clock()
        start = max(machine.start, machine.root_time(now))
        self._is_simulated = lines is None
        self._feed: Feed = lines or SimulatedFeed(
            Simulated(name, start, settings.rate, settings.seed, settings.keys, settings.events)
        )
        self._next = now
        self._ended: int | None = None
        self._warned = {"late": 0, "early": 0}
        self._pace = Pace()
        self._has_told_pace = False

    @property
    def done(self) -> bool:
        """Whether there are no more events, nobody waits for any, and nobody will ask for the last
        ones again."""
        if self._ended is None:
            return False
        return self._machine.is_done or self._runner.clock() - self._ended > LINGER * 1e6

    def step(self) -> None:
        runner = self._runner
        now = runner.clock()
        if now >= self._next:
            self._bring(now)
            if self._next <= now:
                self._next = now + self._tick - now % self._tick
            if now >= self._reported + REPORT:
                self.report(now)
                self._tell_pace(now)
        runner.turn(max(0.0, min(0.2, (self._next - runner.clock()) / 1e6)))

    def _bring(self, now: int) -> None:
        if self._is_held_up():
            self._paused += 1
            self._next = now + 2_000
            return
        machine = self._machine
        if self._ended is not None:
            return
        batch = self._feed.next(machine.root_time(now), AT_ONCE)
        if self._feed.bad > self._bad:
            machine.reject("unreadable line", self._feed.bad - self._bad)
            self._bad = self._feed.bad
        self._warn()
        if batch is not None:
            count, sends = machine.emit(batch.times, batch.values, batch.keys, now)
            self._feed.took(count)
            self._runner.carry(sends)
            self._warn()
            if count < len(batch.times):
                self._paused += 1
                self._next = now + 2_000
            elif count == AT_ONCE or self._feed.has_more:
                self._next = now + 1
            return
        if self._feed.ended:
            self._ended = now
            self._runner.carry(machine.leave(now))
        elif self._is_simulated:
            # Nothing is due: no event before now will come.
            self._runner.carry(machine.advance(machine.root_time(now), now))
        else:
            self._runner.carry(machine.rest(now))

    def _warn(self) -> None:
        """Log the first events that are refused for their times, ten times as many, and so on, and
        once each other reason for which events are left out."""
        machine = self._machine
        for what, count in (("late", machine.late), ("early", machine.early)):
            if count >= 10 * self._warned[what] + 1:
                self._warned[what] = count
                logger.warning("%s: %d events refused: %s", self._name, count, REFUSED[what])
        for reason in machine.rejections.keys() - self._told:
            self._told.add(reason)
            logger.warning("%s: leaves out events and counts them: %s", self._name, reason)

    def _tell_pace(self, now: int) -> None:
        behind = self._machine.root_time(now) - self._machine.boundary
        is_held = self._ended is None and self._pace.is_held(now, behind)
        if is_held and not self._has_told_pace:
            self._has_told_pace = True
            logger.warning(
                "%s: its events stay %.0f s behind the root's clock, and all windows wait for "
                "them; if a wrong clock gave them their times, set it",
                self._name,
                behind / 1e6,
            )

    def _is_held_up(self) -> bool:
        hub = self._runner.hub
        return any(hub.backlog(owner) > HIGH_WATER for owner in set(self._machine.owners.values()))

    def report(self, now: int, *, left: bool = False) -> None:
        self._reported = now
        if self._path is None:
            return
        machine = self._machine
        facts = {
            "sensor": self._name,
            "at": now,
            **self._feed.facts(),
            "taken": machine.taken,
            "late": machine.late,
            "early": machine.early,
            "ahead": machine.ahead,
            "rejected": machine.rejected,
            "rejections": dict(machine.rejections),
            "buffered": machine.buffered,
            "paused": self._paused,
            "ended": self._ended is not None,
            "left": left,
            "owners": {str(partition): node for partition, node in machine.owners.items()},
            "memory": memory(),
            **{f"net_{key}": count for key, count in self._runner.hub.counts.items()},
        }
        temporary = self._path.with_suffix(".new")
        try:
            temporary.write_text(json.dumps(facts))
            temporary.replace(self._path)
        except OSError as error:
            if not self._is_unreported:
                # Events matter more than what is said about them.
                logger.warning(
                    "%s: cannot write its report %s (%s), and goes on without",
                    self._name,
                    self._path,
                    error.strerror,
                )
            self._is_unreported = True
            return
        self._is_unreported = False
