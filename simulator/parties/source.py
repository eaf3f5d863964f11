"""A source in the simulator: a device that hands readings over until they are logged."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from holdfast.pipeline.machine.messages import Message, Send
from holdfast.pipeline.machine.source import EventClock, Log, Persist, Source
from holdfast.pipeline.machine.tuples import Row
from simulator.network import Network
from simulator.parties.process import Process

WRITING: Final = 500
"""How long the log takes to write an entry, and again until it has said so."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """A reading that was taken in, and when."""

    key: Any
    value: Any
    at: int
    time: int


@dataclass(frozen=True, slots=True)
class Told:
    """What people are told when something is published, and what is so."""

    time: int
    wall: int
    """The machine's clock."""
    end: int
    """The boundary."""
    lag: int
    ahead: int


class SourceParty:
    """The proxy of a device and its log, which outlives it."""

    def __init__(
        self,
        name: str,
        make: Callable[[Sequence[Log]], Source],
        process: Process,
        network: Network,
        event_clock: EventClock | None = None,
        look: int = 0,
    ) -> None:
        """`event_clock`: what it starts with if readings say their own times. `look`: how often it
        then looks whether silence has lasted."""
        self.name = name
        self.process = process
        self.network = network
        self.log: list[Log] = []
        self.refused = 0
        self.late = 0
        self.has_guessed = False
        """Whether silence has moved it by the machine's clock alone."""
        self.delays: list[tuple[int, int]] = []
        """When each reading in the log was taken in, and when it was logged."""
        self.told: list[Told] = []
        self.unlogged: deque[_Taken] = deque()
        """What was taken in and is not in the log."""
        self._make = make
        self._event_clock = event_clock
        self._look = look
        self._held: deque[tuple[Any, Any, int]] = deque()
        """What nobody has taken in yet."""
        self._begin()

    def _begin(self) -> None:
        self.source = self._make(self.log)
        self._times: EventClock | None = None
        self._has_heard = False
        self._kept: list[_Taken] = []
        """What is not to be published yet, since earlier readings may come."""
        clock, end = self.process.clock, self.source.line.end
        if self._event_clock is None:
            clock.not_before(end)
        else:
            self._times = replace(self._event_clock, closed=end)
            self._times.hear(clock.passed())
        handed, self.unlogged = self.unlogged, deque()
        for taken in handed:
            self._hand_over(taken)
        self._take()
        self._plan_wake()

    @property
    def is_silent(self) -> bool:
        """Whether nothing has come for so long that the time that passes moves it."""
        return self._times is not None and self._times.is_idle(self.process.clock.passed())

    @property
    def rows(self) -> list[Row]:
        """All that was ever logged."""
        return [row for entry in self.log for row in entry.segment.rows]

    def read(self, key: Any, value: Any, at: int = 0) -> None:
        """The device has a reading, whether or not there is somebody to take it. `at`: the time
        that it says."""
        self._held.append((key, value, at))
        self.process.do(self._take)

    def _take(self) -> None:
        while self._held:
            taken = _Taken(*self._held.popleft(), self.process.world.now)
            self._hand_over(taken, self.process.clock.passed())
            self._has_heard = True
        if self._times is not None:
            self._plan_wake()

    def _hand_over(self, taken: _Taken, passed: int | None = None) -> None:
        """`passed`: when it came, if that is now."""
        if self._times is not None:
            self._hold(self._times, taken, passed)
            return
        before = self.source.refused
        entries = self.source.record(taken.key, taken.value, self.process.now)
        if self.source.refused > before:
            self.refused += 1
            return
        self.unlogged.append(taken)
        self._persist(entries)

    def _hold(self, times: EventClock, taken: _Taken, passed: int | None) -> None:
        times.hear(self.process.clock.passed())
        times.see(taken.at, passed)
        if taken.at < times.closed:
            self.late += 1
            return
        self.unlogged.append(taken)
        self._kept.append(taken)
        self._publish(times)

    def _publish(self, times: EventClock) -> None:
        """Log what no earlier reading may come to any more."""
        closed = times.close()
        due = sorted((each for each in self._kept if each.at < closed), key=lambda each: each.at)
        self._kept = [each for each in self._kept if each.at >= closed]
        for each in due:
            self._persist(self.source.record(each.key, each.value, each.at))
        self._persist(self.source.wake(closed))

    def deliver(self, sender: str, message: Message) -> None:
        self.process.do(lambda: self._receive(sender, message))

    def _receive(self, sender: str, message: Message) -> None:
        self._send(self.source.receive(sender, message))
        self._plan_wake()

    def crash(self) -> None:
        self.process.kill()

    def restart(self) -> None:
        self.process.start()
        self._begin()

    def _wake(self) -> None:
        clock = self.process.clock
        if self._times is None:
            self._persist(self.source.wake(self.process.now))
        elif self._times.wake(clock() - clock.ahead(), clock.passed()):
            self.has_guessed |= not self._has_heard
            self._publish(self._times)
        self._plan_wake()

    def _plan_wake(self) -> None:
        due: float = self.source.next_wake
        if self._times is not None:
            clock = self.process.clock
            ahead = clock.ahead()
            due = self._times.next_wake(clock() - ahead, clock.passed()) + ahead
            due = min(due, self.process.now + self._look)
        self.process.wake_at(due, self._wake)

    def _persist(self, commands: Sequence[Persist]) -> None:
        for command in commands:
            entry = command.entry
            self.process.after(WRITING, lambda entry=entry: self._write(entry))  # type: ignore[misc]

    def _write(self, entry: Log) -> None:
        self.log.append(entry)
        for row in entry.segment.rows:
            self.delays.append((self._logged(row).time, self.process.world.now))
        self.process.after(WRITING, lambda: self._show(entry))

    def _logged(self, row: Row) -> _Taken:
        """The reading that has become this row."""
        if self._times is None:
            return self.unlogged.popleft()
        found = next(
            each
            for each in self.unlogged
            if (each.at, each.key, each.value) == (row.stime, row.key, row.value)
        )
        self.unlogged.remove(found)
        return found

    def _show(self, entry: Log) -> None:
        self._send(self.source.persisted(entry))
        clock, end = self.process.clock, self.source.line.end
        self.told.append(
            Told(self.process.world.now, self.process.wall, end, clock.behind(end), clock.ahead())
        )

    def _send(self, sends: Sequence[Send]) -> None:
        for send in sends:
            self.network.send(self.name, send.to, send.message)
