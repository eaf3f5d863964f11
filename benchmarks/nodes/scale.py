"""How large the part is: in full, shorter, or as small as it gets."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from benchmarks.nodes.backlog import Backlog

__all__ = ["FULL", "QUICK", "SMOKE", "Scale", "chosen_scale"]


@dataclass(frozen=True)
class Scale:
    """Times are in seconds."""

    backlog: Backlog
    warm_batches: int = 2
    """At the start of a run, which are not measured."""
    warm_rounds: int = 1
    rounds: int = 3
    longer: tuple[int, ...] = (2, 3)
    """How many stages in a row, each of them a hop, beside the chain of one."""
    warm: float = 15
    watched: float = 40
    """For how long new rows are watched."""
    outages: tuple[float, ...] = (1, 2, 4, 8)
    """In times of `max_delay`."""
    idle: float = 30


FULL: Final = Scale(Backlog(batches=7, rows_per_bucket=16_384))
QUICK: Final = Scale(
    Backlog(batches=5, rows_per_bucket=16_384),
    rounds=1,
    longer=(2,),
    warm=8,
    watched=15,
    outages=(2, 8),
    idle=15,
)
"""About five minutes."""
SMOKE: Final = Scale(
    Backlog(batches=3, rows_per_bucket=128),
    warm_batches=1,
    warm_rounds=0,
    rounds=1,
    longer=(),
    warm=1,
    watched=4,
    outages=(2,),
    idle=4,
)


def chosen_scale() -> Scale:
    """`HOLDFAST_BENCH=quick` and `=smoke` ask for smaller ones."""
    return {"quick": QUICK, "smoke": SMOKE}.get(os.environ.get("HOLDFAST_BENCH", ""), FULL)
