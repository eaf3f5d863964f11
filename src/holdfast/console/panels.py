"""Tables that other parts of the system have for the page: a panel appears when one is registered.

Each is asked in a thread of its own, so that one that is slow delays nobody.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event, Thread
from typing import Final

from holdfast.errors import HoldfastError

__all__ = ["Panel", "PanelWatch", "Table"]

EVERY: Final = 1.0
MOST_ROWS: Final = 500

logger = logging.getLogger(__name__)

Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class Table:
    """What a panel shows now."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """`ask` may take its time and may raise a HoldfastError, which is shown in its place. The same
    thread calls `close` at the end."""

    name: str
    title: str
    ask: Callable[[], Table]
    close: Callable[[], None] = lambda: None


class PanelWatch:
    """Asks one panel until it is closed."""

    def __init__(self, panel: Panel, every: float = EVERY) -> None:
        self.panel = panel
        self.table = Table((), (), "nothing is known yet")
        self._every = every
        self._closing = Event()
        self._thread = Thread(target=self._run, name=f"console panel {panel.name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                found = self.panel.ask()
                self.table = Table(found.columns, found.rows[:MOST_ROWS], found.note)
            except HoldfastError as error:
                self.table = Table((), (), str(error)[:300])
            except Exception:
                logger.exception("console: the panel %s has failed", self.panel.name)
                self.table = Table((), (), "it has failed; the log of the console says why")
            self._closing.wait(self._every)
        self.panel.close()

    def close(self) -> None:
        self._closing.set()

    def join(self) -> None:
        self._thread.join(5)
