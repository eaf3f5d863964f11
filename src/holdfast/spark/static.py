"""The same windows over a DataFrame that does not stream: every window ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from holdfast.spark.answers import tabulate
from holdfast.spark.packing import unpack
from holdfast.spark.plan import Plan
from holdfast.windows.shard.panes import FARTHEST

__all__ = ["answer_shard"]


def answer_shard(plan: Plan) -> Callable[[Any, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What `applyInArrow` is to do: all windows of one shard, from all of its blobs."""

    def answer(key: Any, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        window = plan.make_window()
        for batch in batches:
            for blob in batch["blob"]:
                window.merge(unpack(blob.as_py()).partials)
        yield from tabulate(plan, window.advance(FARTHEST)).to_batches()

    return answer
