"""Holdfast: windowed stream analytics on Apache Spark that stay available and right under faults.

Importing this package is cheap on purpose: it loads neither Spark nor Arrow nor NumPy. What it
offers itself is loaded when it is first used, all else from its subpackages.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.pipeline.process.tail import read_stream
    from holdfast.spark.dataframe import window
    from holdfast.time_windows import sliding, tumbling
    from holdfast.windows.approximation import block_maxima, hops, max_error, max_leaves

__version__ = "0.1.0"
__all__ = [
    "__version__",
    "block_maxima",
    "hops",
    "max_error",
    "max_leaves",
    "read_stream",
    "sliding",
    "tumbling",
    "window",
]

_HOMES = {
    "read_stream": "holdfast.pipeline.process.tail",
    "window": "holdfast.spark.dataframe",
    "sliding": "holdfast.time_windows",
    "tumbling": "holdfast.time_windows",
    "block_maxima": "holdfast.windows.approximation",
    "hops": "holdfast.windows.approximation",
    "max_error": "holdfast.windows.approximation",
    "max_leaves": "holdfast.windows.approximation",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
