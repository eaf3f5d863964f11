"""What runs a source: a thread that brings rows to the party of a stream until it is stopped.

Kinds of sources differ in `Bringer.bring` only. Where a source is after a restart is the party's
`place`, which is logged together with the rows.
"""

from __future__ import annotations

import logging
from collections import Counter
from threading import Event, Thread
from typing import Any, Protocol

import pyarrow as pa

from holdfast.parties.source import FullError

__all__ = ["Bringer", "Driver", "Inlet", "Party", "StoppedError"]

FULL = 0.2
"""Seconds before it is tried again when the log is full."""

logger = logging.getLogger(__name__)


class Party(Protocol):
    """The party of a stream, as sources see it."""

    place: Any

    def take(self, table: pa.Table, place: Any = None) -> None: ...

    def finish(self) -> None: ...


class StoppedError(Exception):
    """The source is to stop; never seen outside of it."""


class Inlet:
    """What a source brings its rows to."""

    def __init__(self, party: Party) -> None:
        self._party = party
        self.stopping = Event()
        self.counts: Counter[str] = Counter()
        """`rows` taken in, and whatever else the source counts."""

    @property
    def place(self) -> Any:
        """How far the source had come with what is logged; None at the very beginning."""
        return self._party.place

    def take(self, table: pa.Table, place: Any = None) -> None:
        """Bring rows; waits until they are safe, and while the log is full."""
        while True:
            try:
                self._party.take(table, place)
            except FullError:
                self.pause(FULL)
                continue
            self.counts["rows"] += len(table)
            return

    def finish(self) -> None:
        """No more rows will come."""
        while True:
            try:
                return self._party.finish()
            except FullError:
                self.pause(FULL)

    def pause(self, seconds: float) -> None:
        """Wait, unless the source is to stop."""
        if self.stopping.wait(max(seconds, 0)):
            raise StoppedError


class Bringer(Protocol):
    """One kind of source."""

    def bring(self, inlet: Inlet) -> None:
        """Bring rows until there are no more, or `inlet.stopping` is set."""


class Driver:
    """Runs a source."""

    def __init__(self, name: str, party: Party, bringer: Bringer) -> None:
        self.name = name
        self.ended = Event()
        """Set when it has brought all there is, has failed, or was stopped."""
        self.failure: str | None = None
        """What ended it, if it was not `stop` or the end of its input."""
        self._bringer = bringer
        self._inlet = Inlet(party)
        self._thread = Thread(target=self._run, name=f"holdfast source {name}", daemon=True)

    @property
    def counts(self) -> dict[str, int]:
        return dict(self._inlet.counts)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """What it is bringing is brought first. May be called again."""
        self._inlet.stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._bringer.bring(self._inlet)
        except StoppedError:
            pass
        except Exception as error:
            # Whoever runs it sees it and starts the party anew.
            logger.exception("%s: the source has failed", self.name)
            self.failure = f"{type(error).__name__}: {error}"
        finally:
            self.ended.set()
