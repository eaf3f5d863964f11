"""Shells that drive the machines of the edge in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

import numpy as np

from holdfast.protocol.edge import Message, Send, Sensor
from holdfast.sim.edge.scenario import EMITTING, Emission
from holdfast.sim.network import Network
from holdfast.sim.parties import Process

__all__ = ["Party", "SensorParty"]


class Machine(Protocol):
    def receive(self, sender: str, message: Message, now: int) -> list[Send]: ...

    def wake(self, now: int) -> list[Send]: ...

    def due(self, now: int) -> int | None: ...


Watch = Callable[["Party", str, Message], bool]
"""Told of each message that is about to be received or sent: whether the process dies at it."""


class Party:
    """A child, an intermediate or the root. `make(life, now)` gives its machine, at each start."""

    def __init__(
        self,
        name: str,
        make: Callable[[int, int], Machine],
        process: Process,
        network: Network[Message],
        watch: Watch,
    ) -> None:
        self.name = name
        self.process = process
        self.network = network
        self.lives = 1
        self._make = make
        self._watch = watch
        self.after: Callable[[], None] = lambda: None
        self.machine = make(1, process.now)
        self._plan()

    def crash(self) -> None:
        self.process.kill()

    def restart(self) -> None:
        if self.process.is_up:
            return
        self.process.start()
        self.lives += 1
        self.machine = self._make(self.lives, self.process.now)
        self._plan()

    def deliver(self, sender: str, message: Message) -> None:
        self.process.do(lambda: self._receive(sender, message))

    def send(self, sends: Sequence[Send]) -> None:
        for send in sends:
            if not self.process.is_up:
                return
            if self._watch(self, "sends", send.message):
                self.crash()
                return
            self.network.send(self.name, send.to, send.message)
        self.after()
        self._plan()

    def _receive(self, sender: str, message: Message) -> None:
        if self._watch(self, "receives", message):
            self.crash()
            return
        self.send(self.machine.receive(sender, message, self.process.now))

    def _wake(self) -> None:
        self.send(self.machine.wake(self.process.now))

    def _plan(self) -> None:
        due = self.machine.due(self.process.now)
        if due is not None:
            self.process.wake_at(max(due, self.process.now + 1), self._wake)


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
        self._last = 0
        self._waiting: tuple[list[int], list[float], list[str]] = ([], [], [])
        super().__init__(emission.name, lambda life, now: self.sensor, process, network, watch)
        process.after(emission.joins, self._join)

    def _plan(self) -> None:
        if self.process.world.now >= self.emission.joins:
            super()._plan()

    def _join(self) -> None:
        self.send(self.sensor.join(max(0, self.process.now), self.process.now))
        self.process.after(self.emission.every, self._emit)

    def _emit(self) -> None:
        now = self.process.now
        self.process.after(self.emission.every, self._emit)
        if not self.sensor.is_member:
            return
        if self.process.world.now >= EMITTING and not self._waiting[0]:
            # All said: no event is left, and time goes on.
            self.send(self.sensor.advance(now, now))
            return
        self._think(now)
        dealt, sends = self.sensor.emit(*self._waiting, now)
        for each in self._waiting:
            del each[:dealt]
        self.send(sends)

    def _think(self, now: int) -> None:
        if self.process.world.now >= self.emission.silent or now <= self._last:
            if not self._waiting[0]:
                self.send(self.sensor.advance(now, now))
            return
        count = self.random.randrange(self.emission.most + 1)
        # Some are out of order, and some too late; some lie on the edges of panes.
        span = now - self._last
        times = sorted(self._last + self.random.randrange(span) for _ in range(count))
        times = [each - each % 50_000 if self.random.random() < 0.1 else each for each in times]
        if count > 1 and self.random.random() < 0.3:
            times[0], times[-1] = times[-1], times[0]
        self._last = now
        times_, values, keys = self._waiting
        times_ += [max(0, each) for each in times]
        values += [self.random.choice([0.1, 1e16, -1e16, 3.3, -7.0, 0.0]) for _ in times]
        keys += [self.random.choice(["a", "b", "c"]) for _ in times]
