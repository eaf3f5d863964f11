"""Rows that came after their pane was closed, as Parquet files that the user can read.

Called by `processor`, in the executors. One file for each batch and shard that has any. A batch
that is repeated writes the same file again, so each late row is there once.
"""

from __future__ import annotations

import os
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark import TaskContext

__all__ = ["late_folder", "write_late"]

QUERY_ID = "sql.streaming.queryId"


def late_folder(path: str) -> str:
    """The folder as all processes see it."""
    return path if "://" in path else os.path.abspath(path)


def write_late(folder: str, shard: int, version: int, rows: pa.Table) -> None:
    """`version` is the number of the batch as this shard counts them."""
    system, path = fs.FileSystem.from_uri(folder)
    system.create_dir(path, recursive=True)
    name = f"{_query_id()}-{shard:05d}-{version:012d}.parquet"
    # Readers pass over names that begin with a dot: a file is there whole or not at all.
    hidden = f"{path}/.{name}-{uuid4().hex}"
    pq.write_table(rows, hidden, filesystem=system)
    system.move(hidden, f"{path}/{name}")


def _query_id() -> str:
    context = TaskContext.get()
    return (context and context.getLocalProperty(QUERY_ID)) or "query"
