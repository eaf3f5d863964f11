"""What one neighbour has sent and the loop has not taken yet: whoever sends too much waits.

The threads of links put messages in; that they wait here is what the other side feels.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition
from typing import Final

from holdfast.parties.loop import Loop

__all__ = ["Inbox"]

MOST_BYTES: Final = 256 << 20
"""As much as the other side may have on its way."""
LOOK: Final = 0.2
"""Seconds between two looks whether the loop has ended."""


class Inbox:
    """Bounded in bytes; one message fits whatever its size."""

    def __init__(self, loop: Loop, most: int = MOST_BYTES) -> None:
        self._loop = loop
        self._most = most
        self._held = 0
        self._changed = Condition()

    def put(self, size: int, event: Callable[[int], None]) -> None:
        """Have it called in the loop's thread; wait while too much is before it. Not from the
        loop's own thread."""
        with self._changed:
            while not self._changed.wait_for(lambda: self._has_room(size), LOOK):
                if self._loop.ended.is_set():
                    return
            self._held += size

        def take(now: int) -> None:
            try:
                event(now)
            finally:
                with self._changed:
                    self._held -= size
                    self._changed.notify_all()

        self._loop.post(take)

    def _has_room(self, size: int) -> bool:
        return not self._held or self._held + size <= self._most
