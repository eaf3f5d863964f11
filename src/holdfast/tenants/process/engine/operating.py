"""Operate: the results of a bundle, in the tasks of Spark, without state of its own.

A window that has to let go of very much at once needs more of itself than was brought along: then
there is no outcome, and whoever has the store at hand does it (`storing.complete`).

Tasks make the rows of the store too, so that the driver, of which there is one, only inserts them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from holdfast.tenants.machine.columns import SettledColumns, settle_columns
from holdfast.tenants.machine.pages import SHORTEST_PAGE, is_plain, pages_of, unpacked
from holdfast.tenants.machine.settling import (
    Calculation,
    Lag,
    Limits,
    Part,
    Settled,
    World,
    settle,
)
from holdfast.tenants.machine.updates import Failure, Update
from holdfast.tenants.machine.windows import Fetch, SavedWindow, Window
from holdfast.tenants.process.engine.planning import Bundle
from holdfast.tenants.process.expressions import compiled_or_broken
from holdfast.tenants.process.store.pages import PageRow, page_row

FetchOf = Callable[[SavedWindow], Fetch]
"""Of a window: where its pairs come from that were not brought along."""


StoredRow = tuple[str, int, int, int, str, int, str, str, float | None, float | None]
"""One of the table `updates`."""
COLUMNS: Final = (
    *("path", "number", "position", "timestamp", "partition_key", "late", "body", "words"),
    *("latitude", "longitude"),
)


class Outcome(msgspec.Struct):
    """Of one bundle."""

    rows: list[StoredRow] = []
    pages: list[PageRow] = []
    """Plain updates that there are many of; no row has them."""
    positions: list[int] = []
    """Log entries that it came of; each has a row of its own."""
    latest: list[tuple[str, str, str]] = []
    """Path, partition and body of the last update, where there is a new one."""
    numbers: dict[str, int] = {}
    """The next offset of each composite stream with a result."""
    failures: list[Failure] = []
    calls: list[tuple[str, str, str]] = []
    """Actions, and the origin and the body of the updates that set them off."""
    lags: list[tuple[str, str, Lag | None]] = []
    windows: list[SavedWindow] = []
    runs: int = 0
    discarded: int = 0
    work: dict[str, int] = {}
    """For each stream that was published to, the most steps that an update set off."""

    @property
    def results(self) -> int:
        paged = sum(row[3] for row in self.pages)
        return len(self.rows) + paged - len(self.positions)


def operate(
    bundle: Bundle,
    limits: Limits = Limits(),  # noqa: B008
    fetch: FetchOf | None = None,
) -> Outcome:
    part = Part(bundle.nodes)
    world = _world(bundle, part, fetch)
    calculations: dict[str, Calculation] = {
        node.path: compiled_or_broken(node.stream, bundle.types[node.path]) for node in bundle.nodes
    }
    if not bundle.entries:
        columns = settle_columns(bundle.pages, part, world, calculations, limits)
        if columns is not None:
            return _of_columns(columns)
    outcome = Outcome()
    lags: dict[tuple[str, str], Lag | None] = {}
    made = _Made()
    for update in bundle.updates:
        settled = settle(update, part, world, calculations, limits)
        _note(outcome, update, settled, made)
        if settled.lags:
            lags |= settled.lags
    made.put_into(outcome)
    outcome.lags = [(path, source, lag) for (path, source), lag in sorted(lags.items())]
    outcome.windows = [
        window.saved(path, scope)
        for (path, scope), window in sorted(world.windows.items())
        if window.changed
    ]
    return outcome


class _Made:
    """Updates of a bundle, some of which become pages."""

    def __init__(self) -> None:
        self._plain: dict[str, list[Update]] = {}
        self._others: list[tuple[Update, int]] = []
        self._last: dict[tuple[str, str], Update] = {}

    def add(self, update: Update, *, late: bool = False) -> None:
        if not late:
            self._last[update.stream, update.key] = update
        if late or not is_plain(update):
            self._others.append((update, int(late)))
        else:
            self._plain.setdefault(update.stream, []).append(update)

    def put_into(self, outcome: Outcome) -> None:
        for some in self._plain.values():
            if len(some) < SHORTEST_PAGE:
                self._others += ((update, 0) for update in some)
            else:
                outcome.pages += map(page_row, pages_of(some))
        outcome.rows += (row_of(update, late) for update, late in self._others)
        outcome.latest += (
            (path, key, _JSON(update).decode()) for (path, key), update in self._last.items()
        )


def _of_columns(settled: SettledColumns) -> Outcome:
    outcome = Outcome(runs=settled.runs, work=settled.work)
    for column in settled.columns:
        if len(column.offsets) < SHORTEST_PAGE:
            outcome.rows += (
                row_of(update, 0) for page in column.pages() for update in unpacked(page)
            )
        else:
            outcome.pages += map(page_row, column.pages())
        last = column.last
        outcome.latest.append((last.stream, "", _JSON(last).decode()))
        if column.is_composite:
            outcome.numbers[last.stream] = last.offset + 1
        else:
            outcome.positions += column.positions
    return outcome


def _note(outcome: Outcome, update: Update, settled: Settled, made: _Made) -> None:
    outcome.positions.append(update.position)
    made.add(update, late=settled.late)
    for each in settled.updates:
        made.add(each)
        outcome.numbers[each.stream] = each.offset + 1
    outcome.failures += settled.failures
    outcome.calls += [
        (call.action, f"{call.update.stream}@{call.update.offset}", _JSON(call.update).decode())
        for call in settled.calls
    ]
    outcome.runs += settled.runs
    outcome.discarded += settled.discarded
    outcome.work[update.stream] = max(settled.work, outcome.work.get(update.stream, 0))


def row_of(update: Update, late: int) -> StoredRow:
    values = update.values
    words = ""
    for value in values.values():
        if isinstance(value, str):
            words = " ".join(each for each in values.values() if isinstance(each, str)).casefold()
            break
    latitude, longitude = values.get("latitude"), values.get("longitude")
    if not (isinstance(latitude, float) and isinstance(longitude, float)):
        latitude = longitude = None
    return (
        update.stream,
        update.offset,
        update.position,
        update.timestamp,
        update.key,
        late,
        _JSON(update).decode(),
        words,
        latitude,
        longitude,
    )


def _world(bundle: Bundle, part: Part, fetch: FetchOf | None) -> World:
    world = World(
        offsets=dict(bundle.numbers),
        lags={(path, source): lag for path, source, lag in bundle.lags},
    )
    for update in bundle.latest:
        world.know(update)
    for saved in bundle.windows:
        aggregate = part.nodes[saved.path].window
        assert aggregate is not None
        world.closed[saved.path, saved.scope] = partial(
            Window, aggregate, saved, None if fetch is None else fetch(saved)
        )
    return world


_JSON = msgspec.json.Encoder(order="deterministic").encode
_ENCODER = msgspec.msgpack.Encoder(order="deterministic")
_DECODER = msgspec.msgpack.Decoder(Outcome)


def write_outcome(outcome: Outcome) -> bytes:
    return _ENCODER.encode(outcome)


def read_outcome(data: bytes) -> Outcome:
    return _DECODER.decode(data)
