"""Messages on their way out of one link: a queue that never makes anybody wait.

Both ends of a link have one, and a thread that writes what is in it (`write_all`).
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from threading import Condition

from holdfast.errors import HoldfastError
from holdfast.wire.codec import encode, weight
from holdfast.wire.frames import BEAT, Message, frames_of

__all__ = ["Outbox"]

MOST_MESSAGES = 4096
MOST_BYTES = 256 << 20

logger = logging.getLogger(__name__)


class Outbox:
    """Bounded in messages and in bytes; what does not fit is dropped, as a bad link would."""

    def __init__(self, max_count: int = MOST_MESSAGES, max_bytes: int = MOST_BYTES) -> None:
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._changed = Condition()
        self._queue: deque[tuple[float, int, Message]] = deque()
        self._bytes = 0
        self._closed = False
        self.sent = 0
        self.sent_bytes = 0
        self.dropped = 0

    def send(self, message: Message) -> bool:
        """Put it in the queue; False if it was dropped. One message fits whatever its size."""
        size = weight(message)
        with self._changed:
            crowded = self._queue and self._bytes + size > self._max_bytes
            if self._closed or crowded or len(self._queue) >= self._max_count:
                self.dropped += 1
                return False
            self._queue.append((time.monotonic(), size, message))
            self._bytes += size
            self._changed.notify()
        return True

    def close(self) -> None:
        """Drop all, and let the writer end."""
        with self._changed:
            self._closed = True
            self._queue.clear()
            self._changed.notify_all()

    def forget(self, age: float) -> None:
        """Drop what has waited for more seconds than this."""
        with self._changed:
            while self._queue and time.monotonic() - self._queue[0][0] > age:
                self._bytes -= self._queue.popleft()[1]
                self.dropped += 1

    def write_all(
        self, write: Callable[[bytes], None], *, beat: float, ended: Callable[[], bool]
    ) -> None:
        """Write frames as they come, and a BEAT when there was nothing for so many seconds, until
        the outbox is closed, or `ended`, which `wake` makes it look at, or `write` raises."""
        while not ended():
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closed or ended(), timeout=beat)
                if self._closed or ended():
                    return
                message = None
                if self._queue:
                    _, size, message = self._queue.popleft()
                    self._bytes -= size
            if message is None:
                write(BEAT)
                continue
            try:
                data = encode(message)
            except HoldfastError as error:
                self.dropped += 1
                logger.error("a %s was not sent: %s", type(message).__name__, error)
                continue
            for frame in frames_of(data):
                write(frame)
            self.sent += 1
            self.sent_bytes += len(data)

    def wake(self) -> None:
        """Make the writer look whether it has ended."""
        with self._changed:
            self._changed.notify_all()
