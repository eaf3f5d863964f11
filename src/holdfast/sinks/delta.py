"""A Delta table, written without Spark: one commit for each batch, which has the position with it.

Delta keeps the newest version that an application has committed. Here that is the boundary up to
which the table has the stream, so a batch that is in the table is never put there again.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from holdfast.sources.extras import require

__all__ = ["DeltaStore"]


class DeltaStore:
    """The table in a folder; made with the first rows."""

    def __init__(self, folder: Path, application: str, place: str) -> None:
        """`application`: under which name the position is kept. `place`: in the topology."""
        require("deltalake", f"{place}: delta", "delta")
        self._folder = folder
        self._application = application
        self._position = self._committed()

    @property
    def position(self) -> int:
        return self._position

    def write(self, rows: pa.Table | None, end: int) -> None:
        from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

        if rows is None:
            if not DeltaTable.is_deltatable(str(self._folder)):
                return
            rows = pa.schema(DeltaTable(self._folder).schema().to_arrow()).empty_table()
        # Whoever else has begun to write by now is refused by Delta itself.
        if self._committed() < end:
            write_deltalake(
                self._folder,
                rows,
                mode="append",
                commit_properties=CommitProperties(
                    app_transactions=[Transaction(self._application, end)]
                ),
            )
        self._position = end

    def close(self) -> None:
        """Nothing is left open."""

    def _committed(self) -> int:
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(str(self._folder)):
            return 0
        return DeltaTable(self._folder).transaction_version(self._application) or 0
