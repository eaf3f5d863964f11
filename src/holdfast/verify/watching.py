"""Looks at how the job stands while a replica computes, and ends what need not be computed.

A replica that has gone on from something that is outvoted meanwhile begins again at once, and not
when it is through with it. So nobody loses time by not having waited.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import Final, Protocol, Self

from holdfast.errors import HoldfastError
from holdfast.protocol.verification import Standing

__all__ = ["News", "Watcher"]

PATIENCE: Final = 5.0
"""Seconds to wait for news at a time."""
AGAIN: Final = 0.2
"""Seconds until it is ended again: code of a stage may begin something between two of Spark's jobs;
and until verifiers are asked again that did not answer."""

logger = logging.getLogger("holdfast")


class News(Protocol):
    """The verifiers, for this thread alone."""

    def consult(self) -> Standing: ...

    def await_news(self, seconds: float) -> None: ...


@dataclass(eq=False)
class _Watched:
    wants_no_more: Callable[[Standing], bool]
    is_stale: bool = False


class Watcher:
    """See `Watch`. A context manager, whose end waits for news: that the job is done, mostly."""

    def __init__(self, verifiers: News, cancel: Callable[[], None]) -> None:
        """`cancel`: ends what is computed, from another thread; it raises there."""
        self._verifiers = verifiers
        self._cancel = cancel
        self._lock = Lock()
        self._watched: _Watched | None = None
        self._closing = Event()
        self._thread = Thread(target=self._watch, name="holdfast watch", daemon=True)

    @contextmanager
    def over(self, is_stale: Callable[[Standing], bool]) -> Iterator[_Watched]:
        watched = _Watched(is_stale)
        with self._lock:
            self._watched = watched
        try:
            yield watched
        finally:
            # Nothing is cancelled any more once the lock was had.
            with self._lock:
                self._watched = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._closing.is_set():
            try:
                if self._look():
                    self._closing.wait(AGAIN)
                else:
                    self._verifiers.await_news(PATIENCE)
            except HoldfastError as error:
                logger.debug("%s", error)
                self._closing.wait(AGAIN)

    def _look(self) -> bool:
        """End what is stale; whether there was such a thing."""
        standing = self._verifiers.consult()
        with self._lock:
            watched = self._watched
            if watched is None or self._closing.is_set():
                return False
            if watched.wants_no_more(standing):
                watched.is_stale = True
                self._cancel()
            return watched.is_stale
