"""Holdfast: windowed stream analytics on Apache Spark that stay available and right under faults.

All that a DataFrame user needs is here; topologies are in `holdfast.pipeline.topology`, verified
jobs in `holdfast.verify`. Importing this package loads neither Spark nor Arrow nor NumPy: each name
is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast import aggregates, errors, windows
    from holdfast.errors import HoldfastError
    from holdfast.pipeline.process.reader import Reader, Told
    from holdfast.pipeline.process.spark_source import HoldfastSource
    from holdfast.pipeline.process.tail import read_stream
    from holdfast.pipeline.topology import Topology
    from holdfast.spark.dataframe import window
    from holdfast.spark.metrics import progress_line, serve_metrics, watch
    from holdfast.spark.sessions import local_session
    from holdfast.time_windows import TimeWindow, sliding, tumbling
    from holdfast.transport.client import LogClient
    from holdfast.windows import Monoid, monoids, policies
    from holdfast.windows.approximation import block_maxima, hops, max_error, max_leaves

__version__ = "0.1.0"
__all__ = [
    "HoldfastError",
    "HoldfastSource",
    "LogClient",
    "Monoid",
    "Reader",
    "TimeWindow",
    "Told",
    "Topology",
    "__version__",
    "aggregates",
    "block_maxima",
    "errors",
    "hops",
    "local_session",
    "max_error",
    "max_leaves",
    "monoids",
    "policies",
    "progress_line",
    "read_stream",
    "serve_metrics",
    "sliding",
    "tumbling",
    "watch",
    "window",
    "windows",
]

_MODULES = {
    "aggregates": "holdfast.aggregates",
    "errors": "holdfast.errors",
    "monoids": "holdfast.windows.monoids",
    "policies": "holdfast.windows.policies",
    "windows": "holdfast.windows",
}
_HOMES = {
    "HoldfastError": "holdfast.errors",
    "Reader": "holdfast.pipeline.process.reader",
    "Told": "holdfast.pipeline.process.reader",
    "HoldfastSource": "holdfast.pipeline.process.spark_source",
    "read_stream": "holdfast.pipeline.process.tail",
    "Topology": "holdfast.pipeline.topology",
    "window": "holdfast.spark.dataframe",
    "progress_line": "holdfast.spark.metrics",
    "serve_metrics": "holdfast.spark.metrics",
    "watch": "holdfast.spark.metrics",
    "local_session": "holdfast.spark.sessions",
    "TimeWindow": "holdfast.time_windows",
    "sliding": "holdfast.time_windows",
    "tumbling": "holdfast.time_windows",
    "LogClient": "holdfast.transport.client",
    "Monoid": "holdfast.windows",
    "block_maxima": "holdfast.windows.approximation",
    "hops": "holdfast.windows.approximation",
    "max_error": "holdfast.windows.approximation",
    "max_leaves": "holdfast.windows.approximation",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
