"""The Python daemon of replicas: `spark.python.daemon.module` names it.

Its workers have at once what tasks import. To import it takes each of them a third of a second.
"""

from __future__ import annotations

from typing import Final

from holdfast.spark.daemon import serve

__all__ = ["DAEMON"]

DAEMON: Final = "holdfast.verify.daemon"
_PRELOAD: Final = ("holdfast.verify.slices", "holdfast.verify.reading", "holdfast.verify.client")

if __name__ == "__main__":
    serve(_PRELOAD)
