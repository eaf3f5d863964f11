"""Smaller batches after a batch that ended the engine twice.

A recorded batch is run again after a failure, and that would fail for ever with a heap that is too
small for it. Nothing of it is stored, so another one may take its number.
"""

from __future__ import annotations

import logging
from typing import Final

from holdfast.tenants.process.engine.storing import last_batch
from holdfast.tenants.process.store.database import Database

MOST_CAUTION: Final = 6
"""Batches are then 4,096 times smaller: one entry, as a rule."""
REASSURING: Final = 1_000
"""Batches stored by one engine, after which the next begins with batches of full size."""

logger = logging.getLogger("holdfast")


class Caution:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._pending: int | None = None
        """The batch that was recorded and not stored when the last engine was started."""
        self._stored = 0
        self.level = 0

    def before_start(self) -> int:
        """The caution that the next engine is to have; call it before each start."""
        with self._database.transaction() as work:
            stored = last_batch(work)
            recorded = work.rows("SELECT batch FROM plans WHERE batch > ?", (stored,))
            pending = int(recorded[0][0]) if recorded else None
            if stored - self._stored >= REASSURING:
                self.level = 0
            if pending is not None and pending == self._pending:
                self.level = min(self.level + 1, MOST_CAUTION)
                work.run("DELETE FROM plans WHERE batch > ?", (stored,))
                logger.warning(
                    "batch %d has failed twice; batches are made smaller (caution %d); give Spark "
                    "more memory with --memory if this goes on",
                    pending,
                    self.level,
                )
        self._pending, self._stored = pending, stored
        return self.level
