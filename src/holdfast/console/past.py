"""What was said of one thing during the last hour: each word from when it was new, compressed.

For what changes as a whole and is looked at rarely: tables of panels, votes. Nothing here looks at
a clock: times, in seconds since 1970, are given.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left, bisect_right
from threading import Lock
from typing import Final

__all__ = ["HOUR", "Past"]

HOUR: Final = 3600
MOST_BYTES: Final = 8 << 20


class Past:
    """Written by one thread, read by others. With more than `most` bytes the oldest goes first."""

    def __init__(self, most: int = MOST_BYTES, seconds: float = HOUR) -> None:
        self._most = most
        self._seconds = seconds
        self._times: list[float] = []
        self._words: list[bytes] = []
        self._last = b""
        self._bytes = 0
        self._lock = Lock()

    def add(self, at: float, said: bytes) -> None:
        """From now on this is said; the same again is no news."""
        if said == self._last and self._times:
            return
        self._last = said
        pressed = zlib.compress(said, 1)
        with self._lock:
            self._times.append(at)
            self._words.append(pressed)
            self._bytes += len(pressed)
            # The last one before the hour says how it was when the hour began.
            old = max(0, bisect_left(self._times, at - self._seconds) - 1)
            over = self._bytes - sum(map(len, self._words[:old])) - self._most
            while over > 0 and old < len(self._words) - 1:
                over -= len(self._words[old])
                old += 1
            self._bytes -= sum(map(len, self._words[:old]))
            del self._times[:old], self._words[:old]

    def at(self, at: float) -> bytes | None:
        """What was said at a time; None if nothing was, or is known of it."""
        with self._lock:
            place = bisect_right(self._times, at)
            pressed = self._words[place - 1] if place else None
        return None if pressed is None else zlib.decompress(pressed)
