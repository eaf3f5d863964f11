"""A process that can be killed and frozen, with a clock of its own that may be ahead."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from holdfast.sim.world import World

__all__ = ["Process"]


class Process:
    """Runs actions in virtual time, while it lives; what it had planned dies with it."""

    def __init__(self, world: World, ahead: int = 0) -> None:
        self.world = world
        self.ahead = ahead
        self.is_up = True
        self.set_clock: Callable[[], int] = lambda: self.ahead
        """How far ahead its clock is after a restart."""
        self._life = 0
        self._frozen_until = 0
        self._put_off: deque[Callable[[], None]] = deque()
        self._wake_at = math.inf

    @property
    def now(self) -> int:
        """The time by its own clock."""
        return self.world.now + self.ahead

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
            if self._wake_at == time:
                self._wake_at = math.inf
                wake()

        self._later(time - self.ahead, act)

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
        self._frozen_until = 0

    def freeze(self, until: int) -> None:
        self._frozen_until = max(self._frozen_until, until)
        self.world.at(until, self._thaw)

    def _thaw(self) -> None:
        """Do what was put off, in its order."""
        while self._put_off and self.world.now >= self._frozen_until:
            self._put_off.popleft()()
