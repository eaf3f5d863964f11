"""Stateful operator of a stage: orders of the journal on one shard, with forks.

It keeps a base, which sees complete buckets only, and beside it a fork while there are previews to
be made. Spark's state store holds both, and the numbers of the last entry that was carried out and
of the last one that changed the base: entries of the journal are carried out one after the other,
and a replica compares the base with its log before it takes part.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Protocol

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from holdfast.errors import StoreCorruptError
from holdfast.pipeline.stages.entries import Order
from holdfast.pipeline.stages.rows import ROWS
from holdfast.pipeline.stages.states import NO_COPY, file_name, read_records, write_records
from holdfast.spark.operator import StateShelf
from holdfast.spark.partials import unpack
from holdfast.spark.plan import Plan
from holdfast.spark.results import portions, tabulate, to_stream
from holdfast.windows.shard.saved import SavedShard
from holdfast.windows.shard.shelves import MemoryShelf, Shelf
from holdfast.windows.stores.codec import StateCodec

# Shelves with a fork: records of the base, and those in which the fork differs from it.
#
# A fork costs nothing to make. Who writes keeps the other's view: the fork writes beside the base's
# records, and before the base changes a record that the fork still shares, the fork gets the old
# one. Dropping a fork deletes what lies beside.

GONE: Final = "gone"
"""In the place of a record that the base has and the fork has not."""


class Records(Protocol):
    """Where records lie, under (name, number)."""

    def read(self, name: Any, number: int) -> Any: ...

    def write(self, name: Any, number: int, record: Any) -> None: ...

    def delete(self, name: Any, number: int) -> None: ...

    def raw_items(self) -> Iterator[tuple[Any, int, bytes]]: ...

    def write_raw(self, name: Any, number: int, record: bytes) -> None: ...

    def clear(self) -> None: ...

    def items(self) -> Iterator[tuple[Any, int, Any]]: ...


class ForkableShelf:
    """The records of the base, with those of its fork beside them."""

    def __init__(self, base: Records, beside: Records, *, forked: bool) -> None:
        self._base = base
        self._beside = beside
        self.forked = forked

    def fork(self) -> None:
        self._beside.clear()
        self.forked = True

    def drop(self) -> None:
        self._beside.clear()
        self.forked = False

    @property
    def base(self) -> _BaseView:
        return _BaseView(self)

    @property
    def tip(self) -> _ForkView:
        """The fork."""
        return _ForkView(self)

    def records(self) -> Iterator[tuple[Any, int, bytes]]:
        """Those of the base, encoded."""
        return self._base.raw_items()

    def install(self, name: Any, number: int, record: bytes) -> None:
        """Put an encoded record into the base."""
        self.keep_for_fork(name, number)
        self._base.write_raw(name, number, record)

    def clear_base(self) -> None:
        if self.forked:
            for name, number, _ in list(self._base.items()):
                self.keep_for_fork(name, number)
        self._base.clear()

    def keep_for_fork(self, name: Any, number: int) -> None:
        """The base is about to change this record."""
        if self.forked and self._beside.read(name, number) is None:
            old = self._base.read(name, number)
            self._beside.write(name, number, GONE if old is None else (old,))


class _BaseView:
    def __init__(self, shelf: ForkableShelf) -> None:
        self._shelf = shelf

    def read(self, name: Any, number: int) -> Any:
        return self._shelf._base.read(name, number)

    def write(self, name: Any, number: int, record: Any) -> None:
        self._shelf.keep_for_fork(name, number)
        self._shelf._base.write(name, number, record)

    def delete(self, name: Any, number: int) -> None:
        self._shelf.keep_for_fork(name, number)
        self._shelf._base.delete(name, number)


class _ForkView:
    def __init__(self, shelf: ForkableShelf) -> None:
        self._shelf = shelf

    def read(self, name: Any, number: int) -> Any:
        own = self._shelf._beside.read(name, number)
        if own is None:
            return self._shelf._base.read(name, number)
        return None if own == GONE else own[0]

    def write(self, name: Any, number: int, record: Any) -> None:
        self._shelf._beside.write(name, number, (record,))

    def delete(self, name: Any, number: int) -> None:
        if self._shelf._base.read(name, number) is None:
            self._shelf._beside.delete(name, number)
        else:
            self._shelf._beside.write(name, number, GONE)


# What a stage with state does with one shard of it: merge what came, go on to a boundary, answer.
#
# The processor opens a task on the records of the base or of the fork, and saves it when it is
# done.


class Task(Protocol):
    """The state of a shard while it is worked on."""

    def take(self, which: int, bucket: int, blob: bytes) -> None:
        """Rows of an input in a bucket; buckets come in order, and inputs within them."""

    def advance(self, boundary: int) -> Iterator[bytes]:
        """All rows before the boundary have come: what that answers, as Arrow streams."""

    def save(self) -> None:
        """Put on the shelves what has changed."""


class WindowTask:
    """The windows of a shard."""

    def __init__(self, plan: Plan, parts: Shelf, pairs: Shelf) -> None:
        self._plan = plan
        self._saved = SavedShard(plan.make_window, plan.signature, parts, pairs)

    def take(self, which: int, bucket: int, blob: bytes) -> None:
        if len(self._saved.window.merge(unpack(blob).partials)):
            # The gate gives buckets in order, so nothing is late.
            raise StoreCorruptError(
                f"bucket {bucket} of an entry of the journal is in the state already; start the "
                "replica with an empty folder, it gets its state from a peer or its inputs"
            )

    def advance(self, boundary: int) -> Iterator[bytes]:
        for portion in portions(self._saved.window.advance(boundary)):
            yield to_stream(tabulate(self._plan, portion))

    def save(self) -> None:
        self._saved.save()


PACKED: Final = "shard int, entry long, order int, input int, bucket long, place long, blob binary"
"""What it is given: packed rows and orders."""
ANSWERS: Final = "shard int, entry long, order int, bucket long, place long, blob binary"
"""What it answers: Arrow streams of rows, and the orders that it has carried out, as it was given
them. With a copy or an installation comes the folder of the state's files, and what each step with
state has written there: who is asked for a copy adds its own report at the end, who is to install
one takes the file of the first and passes the others on. Who drops its fork adds the number of the
last entry that changed its base."""

CHANGES_BASE: Final = (Order.WORK, Order.RESTART, Order.INSTALL)
_CODEC: Final = StateCodec()
_SHELVES: Final = {
    "parts": "name string, number long",
    "pairs": "level int, position long",
}


def order_body(order: int, state: bytes) -> bytes | None:
    """What comes with an order, for every shard. `state`: that of the entry."""
    match order:
        case Order.COPY:
            return _CODEC.encode((state.decode(), []))
        case Order.INSTALL:
            return _CODEC.encode((state.decode(), 0))
    return None


class StageProcessor(StatefulProcessor):
    def __init__(self, make_task: Callable[[Any, Any], Task]) -> None:
        self._make_task = make_task

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._forked = handle.getValueState("forked", "forked boolean")
        self._carried_out = handle.getValueState("carried_out", "entry long, base long")
        self._states = {
            name: (
                handle.getMapState(name, key, "record binary"),
                handle.getMapState(f"{name}_beside", key, "record binary"),
            )
            for name, key in _SHELVES.items()
        }

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        shard = key[0]
        shelves = _Shelves(self._states, self._forked)
        in_order = sorted(rows, key=lambda row: (row.entry, row.order == ROWS))
        last, base = self._carried_out.get() or (None, 0)
        for entry, some in groupby(in_order, key=lambda row: row.entry):
            order, *packed = some
            if last is not None and entry != last + 1:
                raise StoreCorruptError(
                    f"entry {entry} of the journal does not follow entry {last}, the last one in "
                    "the state; start the replica with an empty folder, it gets its state from a "
                    "peer or its inputs"
                )
            last = entry
            if order.order in CHANGES_BASE and not order.place:
                base = entry
            body = order.blob
            match order.order:
                case Order.WORK:
                    for answer in self._work(order, packed, shelves):
                        yield _row(shard, entry, ROWS, blob=answer)
                case Order.RERUN:
                    scratch = self._make_task(MemoryShelf(), MemoryShelf())
                    for answer in _go_through(scratch, order, packed):
                        yield _row(shard, entry, ROWS, blob=answer)
                case Order.FORK:
                    shelves.fork()
                case Order.DROP:
                    shelves.drop()
                    named = [] if body is None else _CODEC.decode(bytes(body))
                    body = _CODEC.encode([*named, base])
                case Order.RESTART:
                    shelves.clear_base()
                case Order.INSTALL:
                    folder, step = _CODEC.decode(bytes(body))
                    shelves.install(read_records(Path(folder) / file_name(step, shard)))
                    body = _CODEC.encode((folder, step + 1))
                case Order.COPY:
                    folder, reports = _CODEC.decode(bytes(body))
                    path = Path(folder) / file_name(len(reports), shard)
                    try:
                        report = write_records(path, shelves.records())
                    except OSError as error:
                        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                            raise
                        # It must not end what has the only state that is right, perhaps.
                        report = NO_COPY
                    body = _CODEC.encode((folder, [*reports, report]))
                case _:
                    raise StoreCorruptError(
                        f"entry {entry} of the journal has rows but no order; start the replica "
                        "with an empty folder"
                    )
            yield _row(shard, entry, order.order, order.bucket, order.place, body)
        self._carried_out.update((last, base))
        shelves.save()

    def close(self) -> None:
        """Spark owns the state."""

    def _work(self, order: Any, packed: Sequence[Any], shelves: _Shelves) -> Iterator[bytes]:
        if order.place and not shelves.forked:
            raise StoreCorruptError(
                f"entry {order.entry} of the journal is for a fork, and there is none; start the "
                "replica with an empty folder"
            )
        task = self._make_task(*(shelves.tips if order.place else shelves.bases))
        yield from _go_through(task, order, packed)
        task.save()


class _Shelves:
    """The records of a shard, as they lie in Spark's state."""

    def __init__(self, states: Mapping[str, tuple[Any, Any]], forked: Any) -> None:
        self._kept = forked
        found = forked.get()
        self._was_forked = found is not None and bool(found[0])
        self._each = {
            name: ForkableShelf(StateShelf(base), StateShelf(beside), forked=self._was_forked)
            for name, (base, beside) in states.items()
        }

    @property
    def forked(self) -> bool:
        return self._each["parts"].forked

    @property
    def bases(self) -> list[Any]:
        return [shelf.base for shelf in self._each.values()]

    @property
    def tips(self) -> list[Any]:
        return [shelf.tip for shelf in self._each.values()]

    def fork(self) -> None:
        for shelf in self._each.values():
            shelf.fork()

    def drop(self) -> None:
        for shelf in self._each.values():
            shelf.drop()

    def clear_base(self) -> None:
        for shelf in self._each.values():
            shelf.clear_base()

    def records(self) -> Iterator[tuple[str, Any, int, bytes]]:
        """Those of the base."""
        for name, shelf in self._each.items():
            for record in shelf.records():
                yield (name, *record)

    def install(self, records: Iterable[tuple[str, Any, int, bytes]]) -> None:
        """Make a copy the base."""
        self.clear_base()
        for name, key, number, record in records:
            self._each[name].install(key, number, record)

    def save(self) -> None:
        if self.forked != self._was_forked:
            self._kept.update((self.forked,))


def _go_through(task: Task, order: Any, packed: Sequence[Any]) -> Iterator[bytes]:
    for row in sorted(packed, key=lambda row: (row.bucket, row.input)):
        task.take(row.input, row.bucket, bytes(row.blob))
    yield from task.advance(order.bucket)


def _row(
    shard: int,
    entry: int,
    order: int,
    bucket: int | None = None,
    place: int | None = None,
    blob: bytes | None = None,
) -> Row:
    return Row(shard=shard, entry=entry, order=order, bucket=bucket, place=place, blob=blob)
