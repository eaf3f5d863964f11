"""Sinks that only tell: a console, and functions of the user.

How far they were told is noted after the fact, so after a crash they are told the last piece again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from holdfast.errors import StoreCorruptError
from holdfast.parties.reader import Told
from holdfast.parties.whole_files import make_folder, write_whole
from holdfast.tail.lines import Lines
from holdfast.tuples import Kind

__all__ = ["CallbackListener", "ConsoleListener", "Note"]


class Note:
    """A small file with the position."""

    def __init__(self, path: Path) -> None:
        self._path = path
        make_folder(path.parent)
        self.is_new = not path.exists()
        try:
            self.position = 0 if self.is_new else int(path.read_text())
        except ValueError:
            raise StoreCorruptError(
                f"{path}: has no position; delete it, and all that is kept is told again"
            ) from None

    def write(self, told: Told) -> None:
        """Final rows count, tentative ones come again."""
        if told.kind is Kind.INSERT and told.boundary > self.position:
            write_whole(self._path, str(told.boundary).encode())
            self.position = told.boundary


class ConsoleListener:
    """Prints rows, coloured by their kind."""

    def __init__(self, note: Note, console: Console) -> None:
        self._note = note
        self._lines = Lines(console)

    @property
    def position(self) -> int:
        return self._note.position

    def tell(self, told: Told) -> None:
        self._lines.show(told)
        self._note.write(told)

    def close(self) -> None:
        """The console is not ours."""


class CallbackListener:
    """Calls a function with the kind, the boundary and the rows, a `pyarrow.Table` or None.

    When tentative rows are wanted, the first call after a restart is an UNDO: what was tentative
    before does not stand."""

    def __init__(
        self, note: Note, function: Callable[[Kind, int, Any], object], *, tentative: bool
    ) -> None:
        self._note = note
        self._function = function
        if tentative and not note.is_new:
            function(Kind.UNDO, note.position, None)

    @property
    def position(self) -> int:
        return self._note.position

    def tell(self, told: Told) -> None:
        if told.rows is not None or told.kind in (Kind.UNDO, Kind.REC_DONE):
            self._function(told.kind, told.boundary, told.rows)
        self._note.write(told)

    def close(self) -> None:
        """The function is not ours."""
