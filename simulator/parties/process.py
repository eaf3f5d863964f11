"""A process that can be killed and frozen, on a machine with a clock that may be ahead and set."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Final

from holdfast.runtime.adjusted_clock import Clock
from simulator.world import World

LONGEST_SLEEP: Final = 1_000_000
"""As in the loop of a process that is shipped: however late it is to be woken, it looks at its
clock so often."""


class Process:
    """Runs actions in virtual time, while it lives; what it had planned dies with it."""

    def __init__(self, world: World, ahead: int = 0, *, counts_sleep: bool = True) -> None:
        """`counts_sleep`: whether the steady clock goes on while the machine is suspended."""
        self.world = world
        self.ahead = ahead
        """How far the machine's clock is ahead."""
        self.counts_sleep = counts_sleep
        self.is_up = True
        self.set_clock: Callable[[], int] = lambda: self.ahead
        """How far ahead its clock is after a restart."""
        self._life = 0
        self._frozen_until = 0
        self._put_off: deque[Callable[[], None]] = deque()
        self._wake_at = math.inf
        self._slept = self._asleep_until = 0
        self.clock = self._start_clock()

    def _start_clock(self) -> Clock:
        return Clock(lambda: self.wall, lambda: self.world.now - self._slept)

    @property
    def wall(self) -> int:
        """The time by the machine's clock."""
        return self.world.now + self.ahead

    @property
    def now(self) -> int:
        """The time by its own clock."""
        return self.clock()

    def do(self, action: Callable[[], None]) -> None:
        """Do it now, when thawed, or not at all if it is down by then."""
        if not self.is_up:
            return
        if self._put_off or self.world.now < self._frozen_until:
            self._put_off.append(action)
        else:
            action()

    def after(self, delay: int, action: Callable[[], None]) -> None:
        """Do it after so long."""
        self._later(self.world.now + delay, action)

    def wake_at(self, time: float, wake: Callable[[], None]) -> None:
        """Wake it at that time of its own clock, unless it is to be woken before."""
        if time >= self._wake_at:
            return
        self._wake_at = time

        def act() -> None:
            if self._wake_at != time:
                return
            if self.now < int(time):
                plan()
                return
            self._wake_at = math.inf
            wake()

        def plan() -> None:
            self.after(min(int(time) - self.now, LONGEST_SLEEP), act)

        plan()

    def _later(self, time: float, action: Callable[[], None]) -> None:
        life = self._life

        def act() -> None:
            if life == self._life:
                self.do(action)

        self.world.at(time, act)

    def kill(self) -> None:
        self.is_up = False
        self._life += 1
        self._wake_at = math.inf
        self._put_off.clear()

    def start(self) -> None:
        self.is_up = True
        self.ahead = self.set_clock()
        self.clock = self._start_clock()
        self._frozen_until = 0

    def freeze(self, until: int) -> None:
        self._frozen_until = max(self._frozen_until, until)
        self.world.at(until, self._thaw)

    def suspend(self, until: int) -> None:
        """Freeze the whole machine."""
        if not self.counts_sleep:
            self._slept += max(0, until - max(self.world.now, self._asleep_until))
            self._asleep_until = max(until, self._asleep_until)
        self.freeze(until)

    def _thaw(self) -> None:
        """Do what was put off, in its order."""
        while self._put_off and self.world.now >= self._frozen_until:
            self._put_off.popleft()()
