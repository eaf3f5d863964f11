"""Outlet of a stream: read, and stored or handed to a listener.

How far they were told is noted after the fact, so after a crash they are told the last piece again.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event
from typing import Any, Protocol

import pyarrow as pa
from rich.console import Console

from holdfast.errors import StoreCorruptError
from holdfast.pipeline.machine.tuples import Kind
from holdfast.pipeline.process.reader import Reader, Told
from holdfast.pipeline.process.tail import Lines
from holdfast.storage.atomic_file import make_folder, write_whole

# The way out of a stream: read, and put into a store or told to a listener.
#
# Those before the sink keep a row until it is safe where the sink has put it, and acknowledged.

LOOK = 0.1
"""Seconds between two looks whether to stop."""
AT_ONCE = 65_536
"""Rows that are stored together, about."""
WAITING = 1.0
"""Seconds that a row waits for others."""
SILENCE = 60.0
"""Seconds without rows after which a store notes how far the stream has come."""

MakeReader = Callable[[int, bool], Reader]
"""Makes a reader of the sink's stream that acknowledges, from a position, and with or without
tentative rows."""

logger = logging.getLogger(__name__)


class Store(Protocol):
    """Holds final rows, and its own position with them."""

    @property
    def position(self) -> int:
        """What of the stream is before this is safe here."""

    def write(self, rows: pa.Table | None, end: int) -> None:
        """Hold the rows between the position and the boundary `end`, all of them or none; None is
        for silence."""

    def close(self) -> None: ...


class Listener(Protocol):
    """Is told of a stream, for better or worse."""

    @property
    def position(self) -> int:
        """What is before this it has been told."""

    def tell(self, told: Told) -> None: ...

    def close(self) -> None: ...


class Outlet:
    """A stream as a sink reads it."""

    def __init__(self, name: str, make_reader: MakeReader) -> None:
        self.name = name
        self.stopping = Event()
        self.counts: Counter[str] = Counter()
        """`rows` put away, `batches` of them, and `gaps`: pieces that were lost before."""
        self._make_reader = make_reader
        self._boundary = 0
        """What is before this is safe."""
        self._links: Mapping[str, bool] = {}
        self._found: Mapping[str, Any] = {}

    def status(self) -> dict[str, Any]:
        """What a person or a program may want to know of the sink."""
        return {
            "party": self.name,
            "kind": "sink",
            **{f"sink_{what}": self.counts[what] for what in ("rows", "batches", "gaps")},
            "boundary": self._boundary,
            "lag_seconds": time.time() - self._boundary / 1e6,
            "links": self._links,
            **self._found,
        }

    def read(self, position: int, tentative: bool) -> Reader:
        """A reader of what follows."""
        self._boundary = position
        return self._make_reader(position, tentative)

    def acknowledge(self, reader: Reader, position: int) -> None:
        """What is before this is safe, and need not be kept for us."""
        self._boundary = position
        reader.acknowledge(position)

    def next(self, reader: Reader) -> Told | None:
        """What is told next, None if there is nothing just now."""
        told = reader.next(LOOK)
        self._links = reader.links
        self._found = reader.found
        gaps = reader.gaps
        for start, end in gaps[self.counts["gaps"] :]:
            logger.error(
                "%s: what lies between %d and %d was not kept for it and is missing; "
                "let retain be longer",
                self.name,
                start,
                end,
            )
        self.counts["gaps"] = len(gaps)
        return told


def store_in(open_store: Callable[[], Store], outlet: Outlet) -> None:
    """Move a stream into a store, many rows at a time."""
    store = open_store()
    try:
        with outlet.read(store.position, False) as reader:
            batches = _Batches(store, reader, outlet)
            while not outlet.stopping.is_set():
                told = outlet.next(reader)
                if told is not None and told.kind is Kind.INSERT:
                    batches.add(told)
                batches.write_if_due()
            batches.write()
    finally:
        store.close()


class _Batches:
    """Rows on their way into a store."""

    def __init__(self, store: Store, reader: Reader, outlet: Outlet) -> None:
        self._store = store
        self._reader = reader
        self._outlet = outlet
        self._tables: list[pa.Table] = []
        self._rows = 0
        self._end = store.position
        self._since = time.monotonic()
        """When the first of them came, or the last were written."""

    def add(self, told: Told) -> None:
        if told.rows is not None:
            if not self._tables:
                self._since = time.monotonic()
            self._tables.append(told.rows)
            self._rows += len(told.rows)
        self._end = max(self._end, told.boundary)

    def write_if_due(self) -> None:
        waited = time.monotonic() - self._since
        if self._rows >= AT_ONCE or waited >= (WAITING if self._tables else SILENCE):
            self.write()

    def write(self) -> None:
        """Store what there is, then say so."""
        self._since = time.monotonic()
        if self._end <= self._store.position:
            return
        rows = pa.concat_tables(self._tables) if self._tables else None
        self._store.write(rows, self._end)
        self._outlet.counts["rows"] += self._rows
        self._outlet.counts["batches"] += rows is not None
        self._tables, self._rows = [], 0
        self._outlet.acknowledge(self._reader, self._store.position)


def listen(open_listener: Callable[[], Listener], tentative: bool, outlet: Outlet) -> None:
    """Tell a listener of a stream, piece by piece."""
    listener = open_listener()
    try:
        with outlet.read(listener.position, tentative) as reader:
            while not outlet.stopping.is_set():
                told = outlet.next(reader)
                if told is None:
                    continue
                listener.tell(told)
                if told.rows is not None:
                    outlet.counts["rows"] += len(told.rows)
                outlet.acknowledge(reader, listener.position)
    finally:
        listener.close()


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
