"""One aggregate over a column of a known type: rows to states, states to answers.

Made by `measure_of` on the driver, pickled to the executors. Never combines states: `columns` is
for shard windows to do that with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.types import DataType

from holdfast.spark.measures.strategies import Stretches, Way
from holdfast.windows.columns import Column, Columns, State

__all__ = ["Measure"]


@dataclass(frozen=True, eq=False)
class Measure:
    name: str
    """What its column of the result is called."""
    source: str | None
    """The column that it reads, if any."""
    signature: str
    """What its states depend on; those of another signature are never to be read."""
    result_type: DataType
    arrow_type: pa.DataType
    """The type of its answers."""
    way: Way

    @property
    def columns(self) -> Columns:
        return self.way.columns

    def partial(
        self,
        values: pa.Array | None,
        times: Column,
        order: Column | None,
        starts: Column | None,
        segments: int,
    ) -> State:
        """One state for each of so many stretches of rows, of `source` at these times.

        `order` puts the rows in order (None: they are), stretch i begins at `starts[i]` of that and
        is not empty (None: each row is one). `values` is None only if there is no source.
        """
        if not segments:
            # Nothing can be reduced to nothing.
            order, starts = np.empty(0, np.int64), None
        return self.way.partial(values, Stretches(times, order, starts))

    def answer(self, state: State) -> pa.Array:
        """What each row of a state answers."""
        return self.way.answer(state)

    def nothing(self, rows: int) -> pa.Array:
        """What so many windows without rows answer: 0 for counts, NULL otherwise."""
        if self.way.nothing is None:
            return pa.nulls(rows, self.arrow_type)
        return pa.array(np.full(rows, self.way.nothing), self.arrow_type)
