"""Tables that other parts of the system have for the page: a panel appears when one is registered.

Each is asked in a thread of its own, so that one that is slow delays nobody. What it said is kept
for an hour, so that one can go back to it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any, Final, Literal

import msgspec

from holdfast.console.history import Past
from holdfast.errors import HoldfastError

EVERY: Final = 1.0
MOST_ROWS: Final = 500

logger = logging.getLogger(__name__)

Look = Literal["stable", "tentative", "correcting", "silent", "gone"]
"""In whose colour something is shown."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A word or number that stands out."""

    text: str | float
    look: Look


@dataclass(frozen=True, slots=True)
class Moment:
    """A time, which each browser shows by its own clock."""

    at: float
    """In milliseconds since 1970."""


Cell = str | int | float | Mark | Moment | None


@dataclass(frozen=True, slots=True)
class Table:
    """`note` is shown below it, `title` above it if a panel has several."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """`ask` may take its time and may raise a HoldfastError, which is shown in its place. The same
    thread calls `close` at the end. `every`: seconds between two questions."""

    name: str
    title: str
    ask: Callable[[], Table | Sequence[Table]]
    close: Callable[[], None] = lambda: None
    every: float = EVERY


class PanelWatch:
    """Asks one panel until it is closed."""

    def __init__(self, panel: Panel, clock: Callable[[], float] = time.time) -> None:
        self.panel = panel
        self._clock = clock
        self._past = Past()
        self.shown = self._written([_words("nothing is known yet")])
        """As the page gets it."""
        self._closing = Event()
        self._thread = Thread(target=self._run, name=f"console panel {panel.name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._closing.is_set():
            tables = self._ask()
            if tables != self.shown["tables"]:
                self.shown = self._written(tables)
            self._past.add(self._clock(), msgspec.json.encode(tables))
            self._closing.wait(self.panel.every)
        self.panel.close()

    def _ask(self) -> list[Any]:
        try:
            found = self.panel.ask()
        except HoldfastError as error:
            return [_words(str(error)[:300])]
        except Exception:
            logger.exception("console: the panel %s has failed", self.panel.name)
            return [_words("it has failed; the log of the console says why")]
        tables = [found] if isinstance(found, Table) else found
        return [_plain(table) for table in tables]

    def _written(self, tables: Any) -> dict[str, Any]:
        return {"name": self.panel.name, "title": self.panel.title, "tables": tables}

    def at(self, at: float) -> dict[str, Any]:
        """What it said at a time."""
        said = self._past.at(at)
        if said is None:
            return self._written([_words("nothing is known of then")])
        return self._written(msgspec.Raw(said))

    def close(self) -> None:
        self._closing.set()

    def join(self) -> None:
        self._thread.join(5)


def _words(said: str) -> dict[str, Any]:
    return _plain(Table((), (), said))


def _plain(table: Table) -> dict[str, Any]:
    """Of types that JSON has."""
    rows = [list(row) for row in table.rows[:MOST_ROWS]]
    left = len(table.rows) - len(rows)
    more = f"and {left} more" if left else ""
    return {
        "title": table.title,
        "columns": list(table.columns),
        "rows": msgspec.to_builtins(rows),
        "note": "; ".join(filter(None, (more, table.note))),
    }
