"""How long the four stages took, summed up since the server began: what `/health` shows."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final, NamedTuple

__all__ = ["STAGES", "Stages", "StoredBatch"]

STAGES: Final = ("dispatch", "fetch", "operate", "store")


class StoredBatch(NamedTuple):
    end: int
    """How far the log has been settled."""
    cursors: dict[str, int]
    """For each tenant in it, how far its entries have been."""
    seconds: dict[str, float]
    """Of each stage."""
    counts: dict[str, int]
    work: dict[str, int]
    """For each stream that was published to, the steps that one update set off in its owner's."""


class Stages:
    """Counters; several threads may use them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds = dict.fromkeys(STAGES, 0.0)
        self._counts = {"batches": 0, "updates": 0, "results": 0, "failures": 0, "discarded": 0}

    def add(self, seconds: Mapping[str, float], counts: Mapping[str, int]) -> None:
        """Those of one batch."""
        with self._lock:
            for stage, more in seconds.items():
                self._seconds[stage] += more
            self._counts["batches"] += 1
            for name, number in counts.items():
                self._counts[name] += number

    def told(self) -> dict[str, object]:
        with self._lock:
            seconds = {stage: round(spent, 6) for stage, spent in self._seconds.items()}
            return {**self._counts, "seconds": seconds}
