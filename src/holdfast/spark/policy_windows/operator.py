"""Stateful operator of programmable windows: all keys of one shard.

`call` puts it into a query. It sees blobs of `rows` and answers blobs of results, with what it has
done beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import copysign
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    MapState,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from holdfast.spark.operator import StateMismatchError, StateShelf
from holdfast.spark.plan import WITHIN_BOUND
from holdfast.spark.policy_windows.plan import PolicyPlan
from holdfast.spark.policy_windows.rows import Rows, Waiting, join, unpack
from holdfast.spark.results import COUNTS, to_stream, write_late
from holdfast.windows.keyed import KeyedWindows, Rolled, roll_timed
from holdfast.windows.shard.saved import SignatureError

__all__ = ["PolicyProcessor", "answer_shard", "roll_rows"]


# Rows through their windows, in the order that does not depend on how they came.
#
# Used by `processor`, with windows that lie in the state, and by `static`, with windows in memory.

Roll = Callable[[Hashable, list[int], list[Any]], Rolled[Any]]
"""Rolls the window of a key: the times of updates and the updates, to what it then answers."""


def roll_rows(plan: PolicyPlan, rows: Rows, roll: Roll) -> pa.Table:
    """A result for each row: key by key, by time, at equal times by the values that are read."""
    rows = Rows(rows.keys, rows.batch.take(pa.array(np.lexsort((rows.times, rows.codes)))))
    codes, times = rows.codes, rows.times
    updates = _updates(plan, rows)
    _sort_ties(updates, (codes[1:] == codes[:-1]) & (times[1:] == times[:-1]))
    moments = times.tolist()
    bounds = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(rows)]
    states: list[Any] = []
    certain: list[bool | None] = []
    for start, stop in pairwise(bounds):
        key = rows.keys[codes[start]]
        rolled = roll(key, moments[start:stop], updates[start:stop])
        states += rolled.states
        certain += rolled.certain
    return plan.tabulate(rows.keys, codes, times, states, certain)


def _updates(plan: PolicyPlan, rows: Rows) -> list[Any]:
    columns = []
    for measure, scalar in zip(plan.measures, plan.scalars, strict=True):
        source = measure.source
        values = None if source is None else rows.batch[f"v{plan.sources.index(source)}"]
        columns.append(scalar.read(values, len(rows)))
    return list(zip(rows.times.tolist(), *columns, strict=True))


def _sort_ties(updates: list[Any], tied: Any) -> None:
    """Sort stretches of updates in place; `tied[i]` says that i and i + 1 are of one stretch."""
    if not tied.any():
        return
    edges = np.flatnonzero(np.diff(np.concatenate([[False], tied, [False]]).astype(np.int8)))
    for start, stop in edges.reshape(-1, 2).tolist():
        updates[start : stop + 1] = sorted(updates[start : stop + 1], key=_rank)


def _rank(value: Any) -> Any:
    """The place of a value in an order of all values of one type: NULL first, NaN last."""
    match value:
        case None:
            return (0,)
        case float():
            # -0.0 before 0.0
            return (2,) if value != value else (1, value, copysign(1.0, value))
        case list() | tuple():
            return (1, tuple(map(_rank, value)))
        case dict():
            return (1, tuple(map(_rank, value.values())))
    return (1, value)


class PolicyProcessor(StatefulProcessor):
    """Lets rows wait for the watermark, then rolls each through the window of its key."""

    def __init__(self, plan: PolicyPlan) -> None:
        self.plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._parts = handle.getMapState("parts", "name string, number long", "record binary")
        self._pairs = handle.getMapState(
            "pairs", "key long, level int, position long", "pair binary"
        )

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
        plan = self.plan
        parts, pairs = StateShelf(self._parts), StateShelf(_FlatKeys(self._pairs))  # type: ignore[arg-type]
        windows = self._open(parts, pairs)
        new = [unpack(bytes(blob)) for blob in blobs]
        # Until Spark has a watermark it says 0.
        watermark = timer.getCurrentWatermarkInMs() * 1000 or windows.watermark
        if not new and watermark == windows.watermark:
            return
        taken, late = self._take(shard, windows.version, new, watermark)
        waiting = Waiting(parts)
        due = waiting.exchange(taken, watermark)
        answers = None if due is None else roll_rows(plan, due, windows.roll)
        if watermark is not None:
            windows.advance(watermark)
        self._set_timer(parts, [waiting.earliest, windows.next_end()])
        windows.save()
        counts = (
            sum(map(len, taken)),
            late,
            0 if answers is None else len(answers),
            0 if answers is None else _uncertain(plan, answers),
            pairs.read_count,
            pairs.written_count,
            pairs.deleted_count,
            windows.combines,
            parts.bytes_read + pairs.bytes_read,
            parts.bytes_written + pairs.bytes_written,
            windows.held,
            len(waiting),
            windows.keys,
        )
        blob = None if answers is None else to_stream(answers)
        yield Row(shard=shard, blob=blob, **dict(zip(COUNTS, counts, strict=True)))

    def _open(self, parts: StateShelf, pairs: StateShelf) -> KeyedWindows[Any, Any, Any]:
        plan = self.plan
        try:
            return KeyedWindows(
                plan.monoid,
                plan.policy,
                plan.signature,
                parts,
                pairs,
                idle=plan.idle,
                approximate=plan.approximate,
            )
        except SignatureError as mismatch:
            raise StateMismatchError(mismatch) from None

    def _take(
        self, shard: int, version: int, new: list[Rows], watermark: int | None
    ) -> tuple[list[Rows], int]:
        """The rows that are not late, and how many are: those go where the user wants them.

        The watermark of a batch comes of the batches before it. What it has reached is late even if
        the shard has not, or else it would depend on other keys of the shard what is late.
        """
        taken, refused = new, []
        if watermark is not None:
            taken = [rows.where(rows.times > watermark) for rows in new]
            refused = [rows.where(rows.times <= watermark) for rows in new]
        late = sum(map(len, refused))
        if self.plan.late is not None:
            if late:
                whole = [pa.RecordBatch.from_struct_array(rows.batch["r"]) for rows in refused]
                write_late(self.plan.late, shard, version, pa.Table.from_batches(whole))
            taken = [Rows(rows.keys, rows.batch.drop_columns(["r"])) for rows in taken]
        return taken, late

    def _set_timer(self, parts: StateShelf, times: list[int | None]) -> None:
        """Be called at the first of these times, rows or not. A timer too many does no harm."""
        known = [time for time in times if time is not None]
        if not known:
            return
        moment = max(-(-min(known) // 1000), 1)
        if parts.read("timer", 0) != moment:
            self._handle.registerTimer(moment)
            parts.write("timer", 0, moment)


def _uncertain(plan: PolicyPlan, answers: pa.Table) -> int:
    """How many answers are not proven to be within their bound."""
    if not plan.bounded:
        return 0
    certain = answers[WITHIN_BOUND].to_pylist()
    return len(certain) - certain.count(True)


@dataclass(frozen=True)
class _FlatKeys:
    """Map state under (key, level, position) for a shelf under ((key, level), position)."""

    state: MapState

    def getValue(self, key: Any) -> Any:  # noqa: N802
        return self.state.getValue((*key[0], key[1]))

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802
        self.state.updateValue((*key[0], key[1]), value)

    def removeKey(self, key: Any) -> None:  # noqa: N802
        self.state.removeKey((*key[0], key[1]))


def answer_shard(
    plan: PolicyPlan,
) -> Callable[[Any, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What `applyInArrow` is to do: all windows of one shard, from all of its blobs.

    The rows of the shard are in memory at once.
    """

    def roll(_key: Hashable, times: list[int], updates: list[Any]) -> Rolled[Any]:
        return roll_timed(plan.make_window(), plan.policy, plan.idle, None, times, updates)

    def answer(_shard: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = [unpack(blob.as_py()) for batch in batches for blob in batch["blob"]]
        yield from roll_rows(plan, join(parts), roll).to_batches()

    return answer
