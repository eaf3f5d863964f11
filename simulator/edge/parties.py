"""Shells that drive the machines of the edge in virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

import numpy as np

from holdfast.edge.machine import Message, Send, Sensor
from holdfast.edge.machine.heartbeats import beat_of
from holdfast.edge.machine.messages import Payload
from holdfast.runtime.adjusted_clock import steady
from simulator.edge.scenario import EMITTING, END, Emission
from simulator.network import Network
from simulator.parties import Process


class Machine(Protocol):
    def receive(self, sender: str, message: Message, now: int) -> list[Send]: ...

    def wake(self, now: int) -> list[Send]: ...

    def due(self, now: int) -> int | None: ...


Watch = Callable[["Party", str, Message], bool]
"""Told of each message that is about to be received or sent: whether the process dies at it."""


class Party:
    """A child, an intermediate or the root. `make(now)` gives its machine, at each start."""

    def __init__(
        self,
        name: str,
        make: Callable[[int], Machine],
        process: Process,
        network: Network[Message],
        watch: Watch,
    ) -> None:
        self.name = name
        self.process = process
        self.network = network
        self._make = make
        self._watch = watch
        self.after: Callable[[], None] = lambda: None
        self.on_crash: Callable[[], None] = lambda: None
        self.busy: Counter[str] = Counter()
        """Nodes to which a long payload is on its way."""
        self.full = 0
        """Reasons why nothing can be written down, which the root has to do."""
        self._held: list[Send] | None = None
        """What follows from what could not be written down, while that is so."""
        self.machine = make(process.now)
        self._plan()

    @property
    def now(self) -> int:
        """The time that its machine is given."""
        return self.process.now

    @property
    def is_paused(self) -> bool:
        """Whether it waits until it can write: as the process of a root, it takes nothing in."""
        return self._held is not None

    def make_room(self) -> None:
        """One reason less why nothing can be written down."""
        self.full -= 1
        if not self.full and self._held is not None:
            held, self._held = self._held, None
            self.send(held)

    def crash(self) -> None:
        self._held = None
        self.process.kill()
        self.on_crash()

    def restart(self) -> None:
        if self.process.is_up:
            return
        self.process.start()
        self.machine = self._make(self.now)
        self._plan()

    def deliver(self, sender: str, message: Message) -> None:
        self.process.do(lambda: self._receive(sender, message))

    def send(self, sends: Sequence[Send]) -> None:
        if self.full:
            self._held = [*(self._held or ()), *sends]
            return
        for send in sends:
            if not self.process.is_up:
                return
            if self._watch(self, "sends", send.message):
                self.crash()
                return
            message = send.message
            if isinstance(message, Payload) and self.busy[send.to]:
                message = beat_of(message, self.now)
            self.network.send(self.name, send.to, message)
        self.after()
        self._plan()

    def _receive(self, sender: str, message: Message) -> None:
        if self.is_paused:
            return
        if self._watch(self, "receives", message):
            self.crash()
            return
        self.send(self.machine.receive(sender, message, self.now))

    def _wake(self) -> None:
        if self.is_paused:
            return
        self.send(self.machine.wake(self.now))

    def _plan(self) -> None:
        now = self.now
        due = self.machine.due(now)
        if due is not None:
            self.process.wake_at(self.process.now + max(due - now, 1), self._wake)


class SensorParty(Party):
    """A sensor with events of its own making. What it was given and could not take, it keeps."""

    def __init__(
        self,
        emission: Emission,
        children: Sequence[str],
        random: Random,
        process: Process,
        network: Network[Message],
        watch: Watch,
    ) -> None:
        self.emission = emission
        self.random = random
        self.sensor = Sensor(
            emission.name,
            children,
            emission.options,
            np.random.default_rng(random.randrange(2**32)),
        )
        self._clock = steady(process.clock)
        self._last = 0
        self._waiting: tuple[list[int], list[float], list[str]] = ([], [], [])
        super().__init__(emission.name, lambda now: self.sensor, process, network, watch)
        process.after(emission.joins, self._join)

    @property
    def now(self) -> int:
        """As the process of a sensor has it."""
        return self._clock()

    def _time(self) -> int:
        """Up to when there are events."""
        emission, world = self.emission, self.process.world
        if emission.stamps:
            return self.sensor.root_time(self.now)
        if emission.speed:
            return min(EMITTING, (world.now - emission.joins) * emission.speed)
        return self.now

    def _plan(self) -> None:
        if self.process.world.now >= self.emission.joins:
            super()._plan()

    def _join(self) -> None:
        now = self.now
        self.send(self.sensor.join(max(0, self._time()), now, stamps=self.emission.stamps))
        self.process.after(self.emission.every, self._emit)

    def _emit(self) -> None:
        if self.sensor.is_done:
            # Its process ends.
            self.crash()
            return
        now = self.now
        self.process.after(self.emission.every, self._emit)
        if not self.sensor.is_member:
            return
        if self.emission.stamps and not self._last:
            # What it stamps comes after it takes part.
            self._last = max(self.sensor.start, self._time())
        is_over = self._is_over and not self._waiting[0]
        if is_over and self.emission.over < END:
            self.send(self.sensor.leave(now))
            return
        if self.process.world.now >= self.emission.until and not self._waiting[0]:
            # All said: no event is left, and time goes on.
            self._pass(now)
            return
        self._think(now)
        if not self._waiting[0] and self.emission.rests:
            self._pass(now)
            return
        dealt, sends = self.sensor.emit(*self._waiting, now)
        for each in self._waiting:
            del each[:dealt]
        self.send(sends)

    @property
    def _is_over(self) -> bool:
        if self.emission.speed:
            return self._last >= EMITTING
        return self.process.world.now >= self.emission.over

    def _pass(self, now: int) -> None:
        """Nothing comes, and time goes on."""
        if self.emission.rests:
            self.send(self.sensor.rest(now))
        else:
            self.send(self.sensor.advance(self._time(), now))

    def _think(self, now: int) -> None:
        time = self._time()
        if self.process.world.now >= self.emission.silent or time <= self._last or self._is_over:
            if not self._waiting[0]:
                self._pass(now)
            return
        count = self.random.randrange(self.emission.most + 1)
        # Some are out of order, and some too late; some lie on the edges of panes.
        span = time - self._last
        times = sorted(self._last + self.random.randrange(span) for _ in range(count))
        times = [each - each % 50_000 if self.random.random() < 0.1 else each for each in times]
        if self.emission.is_orderly:
            times = sorted(max(self._last, each) for each in times)
        elif count > 1 and self.random.random() < 0.3:
            times[0], times[-1] = times[-1], times[0]
        self._last = time
        times_, values, keys = self._waiting
        times_ += [max(0, each) for each in times]
        values += [self.random.choice([0.1, 1e16, -1e16, 3.3, -7.0, 0.0]) for _ in times]
        keys += [self.random.choice(["a", "b", "c"]) for _ in times]
