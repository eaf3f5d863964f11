"""How large the part is: in full, or so small that a test can run it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

__all__ = ["FULL", "SMOKE", "Scale", "chosen_scale"]


@dataclass(frozen=True)
class Scale:
    """Times are in seconds."""

    sizes: tuple[int, ...] = (100, 1_000, 10_000, 100_000, 1_000_000)
    """States that a stage holds."""
    keyed_sizes: tuple[int, ...] = (1_000, 10_000, 100_000)
    """The same spread over keys."""
    untouched_sizes: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    """The same, with most keys silent."""
    repeats: int = 5
    delays: tuple[float, ...] = (0.5, 1, 2, 3, 4, 4.5, 5.5, 6)
    """D of one stage, for a failure of 5 s."""
    failures: tuple[float, ...] = (2, 4, 6, 8, 10, 15, 30, 60)
    """Of one stage, for the six combinations."""
    depths: tuple[int, ...] = (1, 2, 3, 4)
    chain_failures: tuple[float, ...] = (5, 15, 30, 60)
    chain_latency: float = 30
    """The failure of chains whose worst delays are told; one of theirs."""
    assigned_failures: tuple[float, ...] = (5, 10, 15, 30, 60)
    intervals: tuple[float, ...] = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3)


FULL: Final = Scale()
SMOKE: Final = Scale(
    sizes=(100, 1_000),
    keyed_sizes=(1_000,),
    untouched_sizes=(1_000,),
    repeats=1,
    delays=(2, 6),
    failures=(4,),
    depths=(1, 2),
    chain_failures=(5,),
    chain_latency=5,
    assigned_failures=(5,),
    intervals=(0.05, 0.3),
)


def chosen_scale() -> Scale:
    """`HOLDFAST_BENCH=smoke` asks for the small one."""
    return SMOKE if os.environ.get("HOLDFAST_BENCH") == "smoke" else FULL
