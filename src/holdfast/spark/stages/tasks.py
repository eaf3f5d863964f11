"""What a stage with state does with one shard of it: merge what came, go on to a boundary, answer.

The processor opens a task on the records of the base or of the fork, and saves it when it is done.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from holdfast.errors import StoreCorruptError
from holdfast.spark.answers import portions, tabulate, to_stream
from holdfast.spark.packing import unpack
from holdfast.spark.plan import Plan
from holdfast.windows.shard.saved import SavedShard
from holdfast.windows.shard.shelves import Shelf

__all__ = ["Task", "WindowTask"]


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
