"""How large the part is: in full, shorter, or as small as it gets."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

__all__ = ["FULL", "QUICK", "SMOKE", "Scale", "chosen_scale"]


@dataclass(frozen=True)
class Scale:
    """Times are in seconds."""

    sensors: int = 6
    children: int = 8
    rounds: int = 8
    """Of four turns."""
    measured: float = 2.5
    """For how long a rate is watched in one turn."""
    offered: float = 15_000_000
    """Events a second that each sensor would send if it could: more than can be taken."""
    saturates: bool = True
    """Whether it must be more."""
    rate: float = 18_300
    """Of each sensor when latency is measured: that of the document's prototype."""
    window: int = 4
    repeats: int = 2
    """Of each way to kill children."""
    killed: tuple[int, ...] = (1, 2, 3)
    calm: int = 6
    """Windows without failure."""
    silent: int = 24
    """Samples of a child that falls silent."""
    input_rounds: int = 3
    input_window: int = 2
    input_windows: int = 5
    """Windows that processor time is measured over, for each kind of events."""
    intervals: tuple[str, ...] = ("100ms", "1s", "5s")
    """Of heartbeats and replication, besides off."""
    grid_window: int = 10
    cuts: int = 200
    """Of a slot with plain partials, and with CRDTs."""
    beats: int = 20_000


FULL: Final = Scale()
QUICK: Final = Scale(
    rounds=2, repeats=1, silent=20, input_rounds=1, intervals=("100ms", "5s"), cuts=50
)
SMOKE: Final = Scale(
    sensors=2,
    children=3,
    rounds=1,
    measured=1.5,
    offered=5_000,
    saturates=False,
    rate=1_000,
    window=2,
    repeats=1,
    killed=(1,),
    calm=2,
    silent=2,
    input_rounds=1,
    input_windows=1,
    intervals=("100ms", "1s"),
    grid_window=2,
    cuts=5,
    beats=500,
)


def chosen_scale() -> Scale:
    """`HOLDFAST_BENCH=quick` and `=smoke` ask for smaller ones."""
    return {"quick": QUICK, "smoke": SMOKE}.get(os.environ.get("HOLDFAST_BENCH", ""), FULL)
