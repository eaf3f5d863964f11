"""The way into a stream, as sources see it: rows that wait until they are safe.

Kinds of sources differ in `Bringer.bring` only. Where a source is after a restart is the party's
`place`, which is logged together with the rows.
"""

from __future__ import annotations

from collections import Counter
from threading import Event
from typing import Any, Protocol

import pyarrow as pa

from holdfast.parties.driver import StoppedError
from holdfast.parties.source import FullError

__all__ = ["Bringer", "Inlet", "Party"]

FULL = 0.2
"""Seconds before it is tried again when the log is full."""


class Party(Protocol):
    """The party of a stream, as sources see it."""

    place: Any
    in_touch: bool

    def take(self, table: pa.Table, place: Any = None) -> None: ...

    def finish(self) -> None: ...


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

    def say_in_touch(self, is_so: bool) -> None:
        """Whether rows would come if there were any. A source that never says so always is."""
        self._party.in_touch = is_so

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
