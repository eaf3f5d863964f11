"""Spark's Python daemon, which starts its workers: `spark.python.daemon.module` names it.

A worker begins with what the daemon has loaded, so that it has less to import. Spark starts new
ones when tasks have failed, and after a minute without work.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Final

from holdfast.spark.python import without_archive

__all__ = ["DAEMON", "serve"]

DAEMON: Final = "holdfast.spark.daemon"
_PRELOAD: Final = (
    "pandas",
    "pyarrow.pandas_compat",
    "pyspark.sql.conversion",
    "pyspark.sql.streaming.proto.StateMessage_pb2",
    "pyspark.sql.streaming.stateful_processor_util",
    "holdfast.spark.operator",
    "holdfast.pipeline.stages.operator",
    "holdfast.pipeline.stages.operator",
)
"""What the tasks of streaming queries import."""


def serve(preload: Sequence[str]) -> None:
    """Be the daemon. Workers have these modules from their start, as far as there are such."""
    sys.path[:] = without_archive(sys.path)
    for name in preload:
        with suppress(ImportError):
            import_module(name)
    from pyspark.daemon import manager

    # What workers have from the daemon is never looked at by their collectors, so it stays shared.
    gc.freeze()
    manager()


if __name__ == "__main__":
    serve(_PRELOAD)
