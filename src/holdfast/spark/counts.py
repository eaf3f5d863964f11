"""What a window counts in each micro-batch: observed by its query, added up by the metrics."""

from __future__ import annotations

from typing import Final

__all__ = ["COUNTERS", "COUNTS", "LEVELS"]

COUNTERS: Final = (
    "rows",
    "late",
    "answers",
    "uncertain",
    "pairs_read",
    "pairs_written",
    "pairs_deleted",
    "combines",
    "bytes_read",
    "bytes_written",
)
"""How many of each in this batch."""

LEVELS: Final = ("panes", "open_panes", "keys")
"""How many of each there are at its end."""

COUNTS: Final = (*COUNTERS, *LEVELS)
