"""Stateful operator: all windows of one shard, on Spark's state store.

`dataframe` puts it into a query. It sees blobs of `partials` and answers blobs of `results`,
with what it has done beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    MapState,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from holdfast.spark.partials import unpack
from holdfast.spark.plan import Plan
from holdfast.spark.results import COUNTS, portions, tabulate, to_stream, write_late
from holdfast.windows.shard.saved import SavedShard, SignatureError
from holdfast.windows.stores.codec import StateCodec

__all__ = ["OUTPUT", "ShardProcessor", "StateMismatchError", "StateShelf"]


_CODEC: Final = StateCodec()


@dataclass
class StateShelf:
    """Records of the shard that Spark is at, under (name, number)."""

    state: MapState
    read_count: int = 0
    written_count: int = 0
    deleted_count: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    def read(self, name: Any, number: int) -> Any:
        found = self.state.getValue((name, number))
        if found is None:
            return None
        record = bytes(found[0])
        self.read_count += 1
        self.bytes_read += len(record)
        return _CODEC.decode(record)

    def write(self, name: Any, number: int, record: Any) -> None:
        encoded = _CODEC.encode(record)
        self.state.updateValue((name, number), (encoded,))
        self.written_count += 1
        self.bytes_written += len(encoded)

    def delete(self, name: Any, number: int) -> None:
        self.state.removeKey((name, number))
        self.deleted_count += 1

    def clear(self) -> None:
        self.state.clear()

    def raw_items(self) -> Iterator[tuple[Any, int, bytes]]:
        """All records as they lie there, one at a time: several may be too much for Spark."""
        for name, number in list(self.state.keys()):
            found = self.state.getValue((name, number))
            if found is not None:
                yield name, number, bytes(found[0])

    def write_raw(self, name: Any, number: int, record: bytes) -> None:
        """Write a record that is encoded already."""
        self.state.updateValue((name, number), (record,))

    def items(self) -> Iterator[tuple[Any, int, Any]]:
        """All records, with their names and numbers."""
        for (name, number), (record,) in self.state.iterator():
            yield name, number, _CODEC.decode(bytes(record))


NOTHING: Final = (0,) * len(COUNTS)
OUTPUT: Final = ", ".join(["shard int", "blob binary", *(f"{count} long" for count in COUNTS)])


class StateMismatchError(SignatureError):
    """The checkpoint is of another window; nothing was read from it."""

    def __init__(self, mismatch: SignatureError) -> None:
        super().__init__(mismatch.saved, mismatch.wanted)
        self.args = (
            f"the checkpoint holds {mismatch.saved}, but the query now asks for "
            f"{mismatch.wanted}. Go back to the former window, or start the new one with another "
            "checkpointLocation: it then builds its windows from the rows it reads",
        )


class ShardProcessor(StatefulProcessor):
    """Merges what came, advances to the watermark, answers what has ended."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._parts = handle.getMapState("parts", "name string, number long", "record binary")
        self._pairs = handle.getMapState("pairs", "level int, position long", "pair binary")

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        return self._batch(key[0], (row.blob for row in rows), timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        return self._batch(key[0], (), timerValues)

    def close(self) -> None:
        """Spark owns the state."""

    def _batch(self, shard: int, blobs: Iterable[Any], timer: TimerValues) -> Iterator[Row]:
        parts, pairs = StateShelf(self._parts), StateShelf(self._pairs)
        try:
            saved = SavedShard(self.plan.make_window, self.plan.signature, parts, pairs)
        except SignatureError as mismatch:
            raise StateMismatchError(mismatch) from None
        window = saved.window
        late, changed = [], False
        for blob in blobs:
            packed = unpack(bytes(blob))
            refused = window.merge(packed.partials)
            changed = True
            if len(refused) and packed.rows is not None:
                late.append(packed.rows_of(refused))
        if late:
            assert self.plan.late is not None
            write_late(self.plan.late, shard, saved.version, pa.concat_tables(late))
        watermark = timer.getCurrentWatermarkInMs()
        ended, shown = [], []
        # Until Spark has a watermark it says 0.
        if watermark > 0 and window.watermark != watermark * 1000:
            changed = True
            ended = window.advance(watermark * 1000)
        if not changed:
            return
        if self.plan.early:
            shown = window.preview()
        self._set_timer(parts, window.next_end())
        saved.save()
        answers = uncertain = 0
        for emissions, final in ((ended, True), (shown, False)):
            for portion in portions(emissions):
                table = tabulate(self.plan, portion, final=final)
                answers += len(table)
                uncertain += sum(emission.uncertain for emission in portion)
                yield _row(shard, to_stream(table), NOTHING)
        stats = window.stats
        counts = (
            stats.rows,
            stats.late,
            answers,
            uncertain,
            pairs.read_count,
            pairs.written_count,
            pairs.deleted_count,
            stats.combines,
            parts.bytes_read + pairs.bytes_read,
            parts.bytes_written + pairs.bytes_written,
            stats.panes,
            stats.open_panes,
            stats.registered,
        )
        yield _row(shard, None, counts)

    def _set_timer(self, parts: StateShelf, end: int | None) -> None:
        """Be called when the next window ends, rows or not. A timer too many does no harm."""
        if end is None:
            return
        moment = -(-end // 1000)
        if parts.read("timer", 0) != moment:
            self._handle.registerTimer(moment)
            parts.write("timer", 0, moment)


def _row(shard: int, blob: bytes | None, counts: Sequence[int]) -> Row:
    return Row(shard=shard, blob=blob, **dict(zip(COUNTS, counts, strict=True)))
