"""The Python daemon of replicas: `spark.python.daemon.module` names it.

Its workers have what tasks of replicas import, and nothing else: no pandas.
"""

from __future__ import annotations

from typing import Final

from holdfast.spark.daemon import serve

__all__ = ["DAEMON"]

DAEMON: Final = "holdfast.verify.daemon"
_PRELOAD: Final = ("holdfast.verify.slices", "holdfast.verify.reading", "holdfast.verify.client")

if __name__ == "__main__":
    serve(_PRELOAD)
