"""Waiting for what other threads and processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

__all__ = ["wait_for"]


def wait_for(
    what: str | Callable[[], str],
    condition: Callable[[], Any],
    seconds: float,
    every: float = 0.05,
) -> Any:
    """What the condition answers, once it is true. `what` says what was waited for in vain."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            told = what if isinstance(what, str) else what()
            raise AssertionError(f"waited {seconds:g} seconds for {told}")
        time.sleep(every)
    return found
