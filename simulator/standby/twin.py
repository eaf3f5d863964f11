"""One of the two proxies of a stream: events go in, commands come out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.machine.tuples import Segment
from simulator.standby.commands import Command, Persist, Show, Tell, Vow
from simulator.standby.log import Log
from simulator.standby.messages import Entry, Hand, Has, Propose, Reading, TwinMessage
from simulator.standby.readings import Readings


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
        self._log = Log(log)
        self.epoch = max(epoch, self._log.epoch)
        self.is_alone = False
        self._agreed = 0
        """How many entries the standby is known to have."""
        self._held = Readings()
        self._candidate: Entry | None = None
        self._writing: Persist | None = None
        self._vowing = False
        self._heard = now
        self._next = now

    @property
    def is_primary(self) -> bool:
        return self.epoch % 2 == self.rank and not self._vowing

    @property
    def shown(self) -> int:
        """How many entries are final."""
        return self._log.shown

    @property
    def settled(self) -> int:
        """The newest reading that is final: the device need not keep it any longer."""
        return self._log.settled

    @property
    def next_wake(self) -> float:
        ready = self.is_primary and self._may_add
        return min(self._next, self._log.end + self.interval if ready else math.inf)

    def state(self, now: int) -> State:
        """What to say of the stream to readers: it is well as long as all is shown in time, whoever
        is primary. That the other one is heard is not enough, for it may hear nothing."""
        due = self._log.shown_end + self.interval + self.patience
        return State.STABLE if now < due else State.UP_FAILURE

    @property
    def _may_add(self) -> bool:
        agreed = self._agreed == len(self._log) or self.is_alone
        return agreed and self._candidate is None and self._writing is None

    def offer(self, number: int, key: Any, value: Any, now: int) -> list[Command]:
        """The device has a reading. It offers all that are not `settled`, in their order, to either
        proxy or both, as often as it likes; one that has been taken in, or follows one that has
        not, is left."""
        newest = self._held.newest
        if number == 1 + (self._log.last if newest is None else newest.number):
            earliest = self._log.end if newest is None else newest.stime
            self._held.append(Reading(number, key, value, max(now, earliest)))
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
        return [*self._show(len(self._log)), *self._advance(now)]

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
        start = self._log.end
        if not (self.is_primary and self._may_add) or boundary <= start:
            return []
        segment = Segment(start, boundary, tuple(self._held.rows(start, boundary)))
        last = self._log.last + len(segment.rows)
        if self.is_alone:
            return [self._write(len(self._log), Entry(self.epoch, segment, last, alone=True))]
        self._candidate = Entry(self.epoch, segment, last)
        return [self._propose()]

    def _propose(self) -> Tell:
        """The first entry that the other one is not known to have, or the next one."""
        index = self._agreed
        entry = self._log[index] if index < len(self._log) else self._candidate
        return Tell(Propose(self.epoch, len(self._log), self.shown, index, entry))

    def _write(self, index: int, entry: Entry) -> Persist:
        self._writing = Persist(index, entry)
        return self._writing

    def persisted(self, index: int, entry: Entry, now: int) -> list[Command]:
        """The entry is in the log."""
        if self._writing != Persist(index, entry):
            return []
        self._writing = None
        self._held.put_back(self._log.put(index, entry))
        self._candidate = None
        self._held.drop(entry.last)
        commands = self._show(len(self._log)) if entry.alone else []
        if not self.is_primary:
            return [*commands, self._has()]
        if not self.is_alone:
            # It was the standby that had it first.
            commands += self._agree(len(self._log))
        return [*commands, *self._advance(now)]

    def _has(self) -> Tell:
        return Tell(Has(self.epoch, len(self._log), self._log.newest))

    def _show(self, count: int) -> list[Command]:
        return [Show(segment) for segment in self._log.show(count)]

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
        if asked.length < self.shown and self._log[asked.length].epoch < asked.epoch:
            # What this one has shown alone stands: the other one has to learn of it.
            return self._take_over()
        index, entry = asked.index, asked.entry
        length = len(self._log)
        same = index >= length or self._log.since(index) == [entry]
        commands = self._show(min(asked.shown, length if same else length - 1))
        is_new = index == length or not same
        if entry is not None and is_new and self.shown <= index and (entry.alone or same):
            return [*commands, self._write(index, entry)]
        return [*commands, self._has()]

    def _take_answer(self, answer: Has, now: int) -> list[Command]:
        if answer.epoch < self.epoch:
            return []
        self._heard = now
        if self._writing is not None:
            return []
        length, last = answer.length, answer.last
        if length == len(self._log) + 1 and last is not None:
            return [self._write(len(self._log), last)]
        if length > len(self._log):
            return []
        if length and last is not None and self._log[length - 1] != last:
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
        if length == len(self._log):
            self.is_alone = False
        commands = self._show(length)
        if length < len(self._log):
            commands.append(self._propose())
        return commands
