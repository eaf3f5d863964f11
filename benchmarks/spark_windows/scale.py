"""How large the part is: in full, or so small that a test can run it."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Final

from benchmarks.spark_windows.data import Feed

__all__ = ["FULL", "ONCE", "SHORT", "SMOKE", "Scale", "chosen_scale"]


@dataclass(frozen=True)
class Scale:
    feeds: tuple[Feed, ...] = (Feed(1_000, 0.1), Feed(20_000, 1.0))
    growing_keys: tuple[Feed, ...] = (Feed(1_000, 0.1), Feed(10_000, 1.0), Feed(100_000, 10.0))
    """All with the same rows per second."""
    rows_per_batch: int = 1_000_000
    small_batch: int = 100_000
    """For Spark at the largest ratio, where a batch of the usual size would take an hour."""
    warmups: int = 2
    measured: int = 5
    rounds: int = 2
    ratios: tuple[int, ...] = (1, 6, 60, 3600)
    sizes: tuple[int, ...] = (60, 3600)
    swept_sizes: tuple[int, ...] = (1, 6, 60, 600, 3600)
    """In seconds, all with a slide of one."""
    window_counts: tuple[int, ...] = (1, 4, 16)
    limit: int = 60
    """Seconds that one run of Spark's own windows may take."""
    far_limit: int = 90
    """The same at the largest ratio: planning alone takes half a minute."""
    rivals: bool = True


FULL: Final = Scale()
ONCE: Final = Scale(warmups=1, measured=3, rounds=1, limit=20, far_limit=45)
"""All that the full one shows, with fewer batches and one round."""

SHORT: Final = replace(
    ONCE, feeds=(Feed(1_000, 0.1),), growing_keys=(Feed(1_000, 0.1), Feed(10_000, 1.0))
)
"""A quarter of an hour: what 1,000 keys show."""

SMOKE: Final = Scale(
    feeds=(Feed(20, 0.1),),
    growing_keys=(Feed(100, 1.0),),
    rows_per_batch=2_000,
    warmups=0,
    measured=1,
    rounds=1,
    ratios=(1,),
    sizes=(60,),
    swept_sizes=(1, 6),
    window_counts=(2,),
    rivals=False,
)


def chosen_scale() -> Scale:
    """`HOLDFAST_BENCH=once`, `=short` and `=smoke` ask for smaller ones."""
    scales = {"once": ONCE, "short": SHORT, "smoke": SMOKE}
    return scales.get(os.environ.get("HOLDFAST_BENCH", ""), FULL)
