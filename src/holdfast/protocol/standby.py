"""A source with a hot standby: two proxies with a log each, which hold the same stream.

One of the two is the primary; each new one has a higher epoch. It proposes what comes next to the
standby, which logs it first and says so; then the primary logs it, and only what is in both logs is
shown to readers. So neither ever writes anything into its log that the other one could write
differently: one log is always the beginning of the other, and what was shown stays, whoever is
primary. A standby that hears nothing of the primary for a while takes over; the old primary, when
it hears of the higher epoch, is the standby and hands over the readings it has taken in.

Safety comes before availability: two proxies cannot tell a dead one from one that is cut off, so a
primary whose standby does not answer waits. The stream stalls, and gates downstream go on without
it, tentatively, until the other one answers or an operator, who knows that it shows nothing to
anybody, calls `go_alone`. (Digest of delay-process-correct, §3.14.)
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.states import State
from holdfast.tuples import Row, Segment

__all__ = [
    "Command",
    "Entry",
    "Hand",
    "Has",
    "Persist",
    "Propose",
    "Reading",
    "Show",
    "Tell",
    "Twin",
    "TwinMessage",
    "Vow",
]


@dataclass(frozen=True, slots=True)
class Reading:
    """The `number`-th reading of the device, from 1, and when it was taken in."""

    number: int
    key: Any
    value: Any
    stime: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the logs."""

    epoch: int
    segment: Segment
    last: int
    """The number of the newest reading up to here."""
    alone: bool = field(default=False, compare=False)
    """Whether it was shown without being in the other log."""


@dataclass(frozen=True, slots=True)
class Propose:
    """From the primary: my entry at `index`, or none: only that I am here."""

    epoch: int
    length: int
    """How many entries it has, and has shown."""
    shown: int
    index: int
    entry: Entry | None


@dataclass(frozen=True, slots=True)
class Has:
    """The answer: how many entries are in my log, and the newest."""

    epoch: int
    length: int
    last: Entry | None


@dataclass(frozen=True, slots=True)
class Hand:
    """From the standby: readings that it has taken in."""

    readings: tuple[Reading, ...]


TwinMessage = Propose | Has | Hand


@dataclass(frozen=True, slots=True)
class Tell:
    """A command: carry this to the other proxy. It may be lost, repeated or overtaken."""

    message: TwinMessage


@dataclass(frozen=True, slots=True)
class Persist:
    """A command: write this to the log as the entry at `index`, in place of what is there if there
    is anything, then call `persisted`."""

    index: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class Vow:
    """A command: write down that this is the epoch, then call `vowed`."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Show:
    """A command: this is final, publish it."""

    segment: Segment


Command = Tell | Persist | Vow | Show


class Twin:
    """One of the two proxies; `rank` 0 is the primary of the even epochs, 1 of the odd ones."""

    def __init__(
        self,
        rank: int,
        now: int,
        *,
        interval: int,
        period: int,
        patience: int,
        log: Sequence[Entry] = (),
        epoch: int = 0,
    ) -> None:
        """`interval`: between boundaries. `period`: between messages to the other proxy, which is
        missed after `patience`. `log`, `epoch`: what was written down before a restart."""
        if rank not in (0, 1):
            raise InvalidArgumentError(f"standby: rank is {rank}; give 0 to one, 1 to the other")
        if not 1 <= period < patience or interval < 1:
            raise InvalidArgumentError(
                f"standby: interval {interval}, period {period}, patience {patience}; give an "
                "interval and a period of at least 1, and more patience than the period"
            )
        self.rank = rank
        self.interval = interval
        self.period = period
        self.patience = patience
        self.log = list(log)
        self.epoch = max([epoch, *(entry.epoch for entry in self.log)])
        self.is_alone = False
        # All before an entry is in both logs when the entry is proposed.
        is_last_shown = bool(self.log) and self.log[-1].alone
        self.shown = len(self.log) if is_last_shown else max(len(self.log) - 1, 0)
        """How many entries are final."""
        self._agreed = 0
        """How many entries the standby is known to have."""
        self._held: deque[Reading] = deque()
        self._candidate: Entry | None = None
        self._writing: Persist | None = None
        self._vowing = False
        self._heard = now
        self._next = now

    @property
    def is_primary(self) -> bool:
        return self.epoch % 2 == self.rank and not self._vowing

    @property
    def settled(self) -> int:
        """The newest reading that is final: the device need not keep it any longer."""
        return self.log[self.shown - 1].last if self.shown else 0

    @property
    def next_wake(self) -> float:
        ready = self.is_primary and self._may_add
        return min(self._next, self._end + self.interval if ready else math.inf)

    def state(self, now: int) -> State:
        """What to say of the stream to readers, who find more with the other one if it is better
        off."""
        well = now < self._heard + self.patience or (self.is_alone and self.is_primary)
        return State.STABLE if well else State.UP_FAILURE

    @property
    def _end(self) -> int:
        return self.log[-1].segment.end if self.log else 0

    @property
    def _taken(self) -> int:
        if self._held:
            return self._held[-1].number
        return self.log[-1].last if self.log else 0

    @property
    def _may_add(self) -> bool:
        agreed = self._agreed == len(self.log) or self.is_alone
        return agreed and self._candidate is None and self._writing is None

    def offer(self, number: int, key: Any, value: Any, now: int) -> list[Command]:
        """The device has a reading. It offers all that are not `settled`, in their order, to either
        proxy or both, as often as it likes; one that has been taken in, or follows one that has
        not, is left."""
        if number == self._taken + 1:
            newest = self._held[-1].stime if self._held else self._end
            self._held.append(Reading(number, key, value, max(now, newest)))
        return self._advance(now)

    def wake(self, now: int) -> list[Command]:
        commands = self._advance(now)
        if now < self._next:
            return commands
        self._next = now + self.period
        if self.is_primary:
            return [*commands, self._propose()]
        if now >= self._heard + self.patience and self._writing is None and not self._vowing:
            return [*commands, *self._take_over()]
        if self._held:
            commands.append(Tell(Hand(tuple(self._held))))
        return commands

    def go_alone(self, now: int) -> list[Command]:
        """An operator's word that the other proxy shows nothing to anybody, has not gone alone
        since the two last spoke, and will not: show what there is, and go on until it answers."""
        if not self.is_primary:
            raise InvalidArgumentError(
                f"standby: proxy {self.rank} is not the primary; wait until it has taken over"
            )
        self.is_alone = True
        self._candidate = None
        return [*self._show(len(self.log)), *self._advance(now)]

    def _take_over(self) -> list[Command]:
        self.epoch += 1 if self.epoch % 2 != self.rank else 2
        self._vowing = True
        self._agreed = 0
        return [Vow(self.epoch)]

    def vowed(self, epoch: int, now: int) -> list[Command]:
        """The epoch is written down: whoever wakes again will not listen to older ones."""
        if epoch != self.epoch or not self._vowing:
            return []
        self._vowing = False
        return [self._propose(), *self._advance(now)]

    def _advance(self, now: int) -> list[Command]:
        """Make an entry of all intervals that have ended, if the last one is settled."""
        boundary = now // self.interval * self.interval
        start = self._end
        if not (self.is_primary and self._may_add) or boundary <= start:
            return []
        rows, last = [], self.log[-1].last if self.log else 0
        for reading in self._held:
            stime = max(reading.stime, start)
            if stime >= boundary:
                break
            rows.append(Row(stime, reading.key, reading.value))
            last = reading.number
        segment = Segment(start, boundary, tuple(rows))
        if self.is_alone:
            return [self._write(len(self.log), Entry(self.epoch, segment, last, alone=True))]
        self._candidate = Entry(self.epoch, segment, last)
        return [self._propose()]

    def _propose(self) -> Tell:
        """The first entry that the other one is not known to have, or the next one."""
        index = self._agreed
        entry = self.log[index] if index < len(self.log) else self._candidate
        return Tell(Propose(self.epoch, len(self.log), self.shown, index, entry))

    def _write(self, index: int, entry: Entry) -> Persist:
        self._writing = Persist(index, entry)
        return self._writing

    def persisted(self, index: int, entry: Entry, now: int) -> list[Command]:
        """The entry is in the log."""
        if self._writing != Persist(index, entry):
            return []
        self._writing = None
        self._keep(self.log[index:])
        self.log[index:] = [entry]
        self._candidate = None
        while self._held and self._held[0].number <= entry.last:
            self._held.popleft()
        commands = self._show(len(self.log)) if entry.alone else []
        if not self.is_primary:
            return [*commands, self._has()]
        if not self.is_alone:
            # It was the standby that had it first.
            commands += self._agree(len(self.log))
        return [*commands, *self._advance(now)]

    def _keep(self, entries: Sequence[Entry]) -> None:
        """Readings of an entry that is replaced, which nobody has seen, are to be handed on."""
        for entry in reversed(entries):
            rows = entry.segment.rows
            first = entry.last - len(rows) + 1
            self._held.extendleft(
                Reading(first + i, row.key, row.value, row.stime)
                for i, row in reversed(list(enumerate(rows)))
            )

    def _has(self) -> Tell:
        return Tell(Has(self.epoch, len(self.log), self.log[-1] if self.log else None))

    def _show(self, count: int) -> list[Command]:
        count = min(count, len(self.log))
        new = self.log[self.shown : count]
        self.shown = max(self.shown, count)
        return [Show(entry.segment) for entry in new]

    def receive(self, message: TwinMessage, now: int) -> list[Command]:
        match message:
            case Hand():
                commands: list[Command] = []
                for reading in message.readings if self.is_primary else ():
                    commands += self.offer(reading.number, reading.key, reading.value, now)
                return commands
            case Propose() | Has() if message.epoch > self.epoch:
                self.epoch = message.epoch
                self._vowing = self.is_alone = False
                self._candidate = None
        if isinstance(message, Has):
            return self._take_answer(message, now) if self.is_primary else []
        return self._take_proposal(message, now)

    def _take_proposal(self, asked: Propose, now: int) -> list[Command]:
        if self._vowing:
            # Nobody hears of an epoch that a crash could undo.
            return []
        if asked.epoch < self.epoch:
            return [self._propose() if self.is_primary else self._has()]
        self._heard = now
        if self.is_primary or self._writing is not None:
            return []
        unknown = self.log[asked.length : self.shown]
        if unknown and unknown[0].epoch < asked.epoch:
            # What this one has shown alone stands: the other one has to learn of it.
            return self._take_over()
        index, entry = asked.index, asked.entry
        length = len(self.log)
        same = index >= length or self.log[index:] == [entry]
        commands = self._show(min(asked.shown, length if same else length - 1))
        if entry is not None and self.shown <= index:
            replaced = self.log[index:]
            if index == length or (entry.alone and replaced != [entry]):
                return [*commands, self._write(index, entry)]
        return [*commands, self._has()]

    def _take_answer(self, answer: Has, now: int) -> list[Command]:
        if answer.epoch < self.epoch:
            return []
        self._heard = now
        if self._writing is not None:
            return []
        length, last = answer.length, answer.last
        if length == len(self.log) + 1 and last is not None:
            return [self._write(len(self.log), last)]
        if length > len(self.log):
            return []
        if length and last is not None and self.log[length - 1] != last:
            # One of the two went alone here, and nobody has seen the entry of the other.
            if last.alone and self.shown < length:
                return [self._write(length - 1, last)]
            self._agreed = length - 1
            return [self._propose()]
        commands = self._agree(length)
        return [*commands, *self._advance(now)]

    def _agree(self, length: int) -> list[Command]:
        """The other one has so much."""
        if length <= self._agreed:
            return []
        self._agreed = length
        if length == len(self.log):
            self.is_alone = False
        commands = self._show(length)
        if length < len(self.log):
            commands.append(self._propose())
        return commands
