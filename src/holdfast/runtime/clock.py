"""Clock of a process: that of its machine, for any of its threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Final

from holdfast.runtime import adjusted_clock as clock


def _wall() -> int:
    return time.time_ns() // 1000


_STEADY: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The one that counts while the machine is suspended too, where there is one."""


def _steady() -> int:
    return time.clock_gettime_ns(_STEADY) // 1000


class Clock(clock.Clock):
    """Microseconds since 1970 that follow the machine's clock and never go back."""

    def __init__(
        self,
        wall: Callable[[], int] = _wall,
        steady: Callable[[], int] = _steady,
        start: int = 0,
    ) -> None:
        self._lock = Lock()
        super().__init__(wall, steady, start)

    def _look(self) -> tuple[int, int]:
        with self._lock:
            return super()._look()
