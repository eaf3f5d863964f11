"""The stateful operator of a stage: carries out the orders of the journal on one shard.

It keeps a base, which sees complete buckets only, and beside it a fork while there are previews to
be made. Spark's state store holds both, and the numbers of the last entry that was carried out and
of the last one that changed the base: entries of the journal are carried out one after the other,
and a replica compares the base with its log before it takes part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from holdfast.errors import StoreCorruptError
from holdfast.spark.stages.entries import Order
from holdfast.spark.stages.forks import ForkableShelf
from holdfast.spark.stages.rows import ROWS
from holdfast.spark.stages.tasks import Task
from holdfast.spark.state import StateShelf
from holdfast.windows.shard.shelves import MemoryShelf
from holdfast.windows.stores.codec import StateCodec

__all__ = ["ANSWERS", "PACKED", "StageProcessor"]

PACKED: Final = "shard int, entry long, order int, input int, bucket long, place long, blob binary"
"""What it is given: packed rows and orders."""
ANSWERS: Final = "shard int, entry long, order int, bucket long, place long, blob binary"
"""What it answers: Arrow streams of rows, and the orders that it has carried out, as it was given
them. An order may have states with it, one for each step with state: who is asked for a copy adds
its own at the end, who is to install one takes the first. Who drops its fork adds the number of the
last entry that changed its base."""

CHANGES_BASE: Final = (Order.WORK, Order.RESTART, Order.INSTALL)
_CODEC: Final = StateCodec()
_SHELVES: Final = {
    "parts": "name string, number long",
    "pairs": "level int, position long",
}


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
                    body = _CODEC.encode([*_states_in(body), base])
                case Order.RESTART:
                    shelves.clear_base()
                case Order.INSTALL:
                    body = _install(body, shelves)
                case Order.COPY:
                    body = _CODEC.encode([*_states_in(body), shelves.copy()])
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

    def copy(self) -> bytes:
        """The base."""
        records = [
            (name, *record) for name, shelf in self._each.items() for record in shelf.records()
        ]
        return _CODEC.encode(records)

    def install(self, copy: bytes) -> None:
        """Make a copy the base."""
        self.clear_base()
        for name, key, number, record in _CODEC.decode(copy):
            self._each[name].base.write(key, number, record)

    def save(self) -> None:
        if self.forked != self._was_forked:
            self._kept.update((self.forked,))


def _go_through(task: Task, order: Any, packed: Sequence[Any]) -> Iterator[bytes]:
    for row in sorted(packed, key=lambda row: (row.bucket, row.input)):
        task.take(row.input, row.bucket, bytes(row.blob))
    yield from task.advance(order.bucket)


def _states_in(body: Any) -> list[bytes]:
    return [] if body is None else _CODEC.decode(bytes(body))


def _install(body: Any, shelves: _Shelves) -> bytes | None:
    """Answers what is left for the steps behind."""
    states = _states_in(body)
    if not states:
        shelves.clear_base()
        return None
    shelves.install(states[0])
    return _CODEC.encode(states[1:])


def _row(
    shard: int,
    entry: int,
    order: int,
    bucket: int | None = None,
    place: int | None = None,
    blob: bytes | None = None,
) -> Row:
    return Row(shard=shard, entry=entry, order=order, bucket=bucket, place=place, blob=blob)
