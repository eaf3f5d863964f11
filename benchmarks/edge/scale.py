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
    beats: int = 20_000


FULL: Final = Scale()
QUICK: Final = Scale(rounds=2, repeats=1)
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
    beats=500,
)


def chosen_scale() -> Scale:
    """`HOLDFAST_BENCH=quick` and `=smoke` ask for smaller ones."""
    return {"quick": QUICK, "smoke": SMOKE}.get(os.environ.get("HOLDFAST_BENCH", ""), FULL)
