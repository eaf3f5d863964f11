"""Python daemon of replicas, named by `spark.python.daemon.module`.

Its workers have what tasks of replicas import, and nothing else: no pandas.
"""

from __future__ import annotations

from typing import Final

from holdfast.spark.daemon import serve

DAEMON: Final = "holdfast.verify.process.daemon"
_PRELOAD: Final = (
    "holdfast.verify.process.slices",
    "holdfast.verify.process.computing",
    "holdfast.verify.process.client",
)

if __name__ == "__main__":
    serve(_PRELOAD)
