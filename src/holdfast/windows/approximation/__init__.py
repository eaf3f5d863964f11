"""Approximate windows: buckets of updates for leaves, with the error or the memory under control.

`max_error`, `block_maxima`, `hops` and `max_leaves` say how; `ApproximateWindow` does it, and
`holdfast.window(..., approximate=...)` on Spark. `Shadow` tries settings out beside the exact
window. Pure: no Spark, no files, no clock, no randomness.
"""

from holdfast.windows.approximation.methods import (
    Method,
    block_maxima,
    hops,
    max_error,
    max_leaves,
)
from holdfast.windows.approximation.shadow import Shadow, ShadowReport
from holdfast.windows.approximation.window import ApproximateWindow, Guarantee

__all__ = [
    "ApproximateWindow",
    "Guarantee",
    "Method",
    "Shadow",
    "ShadowReport",
    "block_maxima",
    "hops",
    "max_error",
    "max_leaves",
]
