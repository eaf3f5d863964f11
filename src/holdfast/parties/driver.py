"""What works beside a party's protocol: a thread that brings rows to a source, or runs a sink."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from threading import Event, Thread
from typing import Generic, Protocol, TypeVar

__all__ = ["Driver", "StoppedError", "Way"]

logger = logging.getLogger(__name__)


class StoppedError(Exception):
    """The work is to stop; never seen outside of it."""


class Way(Protocol):
    """Into a stream, or out of it."""

    stopping: Event
    """Whoever works on it ends soon after this is set."""
    counts: Counter[str]


AnyWay = TypeVar("AnyWay", bound=Way)


class Driver(Generic[AnyWay]):
    """Runs until it is stopped, has failed, or has no more to do."""

    def __init__(self, what: str, name: str, way: AnyWay, work: Callable[[AnyWay], None]) -> None:
        """`what`: a source or a sink."""
        self.name = name
        self.way = way
        self.ended = Event()
        """Set when it has done all there is, has failed, or was stopped."""
        self.failure: str | None = None
        """What ended it, if it was not `stop` or the end of its work."""
        self._what = what
        self._work = work
        self._thread = Thread(target=self._run, name=f"holdfast {what} {name}", daemon=True)

    @property
    def counts(self) -> dict[str, int]:
        return dict(self.way.counts)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """What it is about is finished first. May be called again."""
        self.way.stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._work(self.way)
        except StoppedError:
            pass
        except Exception as error:
            # Whoever runs it sees it and starts it anew.
            logger.exception("%s: the %s has failed", self.name, self._what)
            self.failure = f"{type(error).__name__}: {error}"
        finally:
            self.ended.set()
