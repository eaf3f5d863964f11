"""How large the part is: in full, or so small that a test can run it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

__all__ = ["FULL", "SMOKE", "Scale", "chosen_scale"]


@dataclass(frozen=True)
class Scale:
    size: int = 995
    """Participants, as many as in the document."""
    contracts: tuple[int, ...] = tuple(range(1, 11))
    """Contracts at least, as in the document."""
    fixed_seeds: int = 10
    """With fixed prices, and where the document says something of all its ten graphs."""
    mixed_seeds: int = 2
    varying_size: int = 330
    phases: tuple[tuple[float, float], ...] = ((250, 50), (300, 10), (200, 1))
    """Seconds of each phase, and the mean seconds between tasks that come and that go."""
    percents: tuple[int, ...] = (50, 75, 125, 150)
    """Loads that vary, in per cent of capacity."""
    sizes: tuple[int, ...] = (1_000, 10_000, 100_000)
    graphs: int = 200
    """Contract graphs of which it is counted how many leave hardly a task without a place."""
    varying_seeds: int = 3
    moves: int = 3
    """Of a stage on Spark; 0: none."""


FULL: Final = Scale()
SMOKE: Final = Scale(
    size=30,
    contracts=(2, 4, 5, 8),
    fixed_seeds=1,
    mixed_seeds=1,
    varying_size=20,
    phases=((5, 1),),
    percents=(50,),
    sizes=(100, 200),
    graphs=5,
    varying_seeds=1,
    moves=0,
)


def chosen_scale() -> Scale:
    """`HOLDFAST_BENCH=smoke` asks for the small one."""
    return SMOKE if os.environ.get("HOLDFAST_BENCH") == "smoke" else FULL
