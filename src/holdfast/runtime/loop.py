"""Event loop of a process: one thread, events in turn, wake-ups in time.

The threads of links put messages in; that they wait here is what the other side feels.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from queue import Empty, SimpleQueue
from threading import Condition, Event, Thread
from typing import Final, TypeVar

from holdfast.errors import HoldfastError, StoreUnavailableError
from holdfast.runtime.clock import Clock

__all__ = ["Clock", "Inbox", "Loop"]


LONGEST_SLEEP = 1.0

Answer = TypeVar("Answer")

logger = logging.getLogger(__name__)


class Loop:
    """Calls what is posted to it, one after the other, and `wake` when `next_wake` says so."""

    def __init__(
        self,
        name: str,
        clock: Callable[[], int],
        wake: Callable[[int], None],
        next_wake: Callable[[], float],
    ) -> None:
        self.name = name
        self._clock = clock
        self._wake = wake
        self._next_wake = next_wake
        self._events: SimpleQueue[Callable[[int], None] | None] = SimpleQueue()
        self.error: BaseException | None = None
        """What ended it, if it was not `stop`."""
        self.ended = Event()
        self._thread = Thread(target=self._run, name=f"holdfast {name}", daemon=True)

    @property
    def failure(self) -> str | None:
        """What ended it, in words."""
        return None if self.error is None else f"{type(self.error).__name__}: {self.error}"

    def start(self) -> None:
        self._thread.start()

    def post(self, event: Callable[[int], None]) -> None:
        """Have it called with the time, in the loop's thread. Never waits."""
        self._events.put(event)

    def call(self, question: Callable[[int], Answer], patience: float = 30.0) -> Answer:
        """The same, and wait for what it answers. Not from the loop's own thread."""
        answer: Future[Answer] = Future()

        def ask(now: int) -> None:
            try:
                answer.set_result(question(now))
            except HoldfastError as error:
                answer.set_exception(error)

        self.post(ask)
        deadline = time.monotonic() + patience
        while True:
            try:
                return answer.result(timeout=0.1)
            except FutureTimeoutError:
                if self.ended.is_set() or time.monotonic() > deadline:
                    raise StoreUnavailableError(
                        "the party does not answer; see its log, and start it again"
                    ) from None

    def hand_over(self, event: Callable[[int], None]) -> None:
        """Have it called, and wait until it has been, for however long. Not from the loop's own
        thread."""
        done = Event()

        def do(now: int) -> None:
            event(now)
            done.set()

        self.post(do)
        while not done.wait(0.2):
            if self.ended.is_set():
                raise StoreUnavailableError(f"{self.name}: has stopped; start it again")

    def stop(self) -> None:
        self._events.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            while self._turn():
                pass
        except BaseException as error:
            # The party is of no use any more: whoever runs it sees it and starts it anew.
            logger.exception("the loop has failed")
            self.error = error
        finally:
            self.ended.set()

    def _turn(self) -> bool:
        now = self._clock()
        due = self._next_wake()
        if due <= now:
            self._wake(now)
            due = self._next_wake()
        rest = LONGEST_SLEEP if due == math.inf else (due - self._clock()) / 1e6
        try:
            event = self._events.get(timeout=min(max(rest, 0.0), LONGEST_SLEEP))
        except Empty:
            return True
        if event is None:
            return False
        event(self._clock())
        return True


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
