"""How large the part is: in full, a tenth of it, or so small that a test can run it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

__all__ = ["DOCUMENT_WINDOW", "FULL", "SHORT", "SMOKE", "Scale", "chosen_scale"]

DOCUMENT_WINDOW: Final = 2_592_000
"""Updates in the window of the founding document: 30 days of one each second."""


@dataclass(frozen=True)
class Scale:
    window: int = 1_296_000
    peak_window: int = 432_000
    """Of maxima: a third, so that 30 large blocks and a window more fit into the stream."""
    hop_window: int = 25_920
    """Nothing is folded before 30 hops of a third of it."""
    hop_updates: int = 1_296_000
    errors: tuple[float, ...] = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
    blocks: tuple[int, ...] = (10, 100, 1_000, 10_000, 100_000)
    timed_window: int = 129_600
    timed_block: int = 10_000
    timed_updates: int = 30_000
    repeats: int = 7

    @property
    def updates(self) -> int:
        """Two windows to warm up, one of steady state."""
        return 3 * self.window + 1

    @property
    def peak_updates(self) -> int:
        """The same for maxima in bounded memory, which learn nothing from blocks."""
        return 3 * self.peak_window + 1

    def leaves(self, published: int, window: int) -> int:
        """So many leaves are to this window as the published number was to the document's."""
        return published * window // DOCUMENT_WINDOW


FULL: Final = Scale()
SHORT: Final = Scale(
    window=129_600,
    peak_window=43_200,
    hop_window=5_184,
    hop_updates=259_200,
    blocks=(10, 100, 1_000, 10_000),
    timed_window=12_960,
    timed_block=1_000,
    timed_updates=10_000,
    repeats=5,
)
SMOKE: Final = Scale(
    window=1_296,
    peak_window=432,
    hop_window=648,
    hop_updates=15_000,
    errors=(1e-2, 1e-1),
    blocks=(10,),
    timed_window=300,
    timed_block=10,
    timed_updates=100,
    repeats=2,
)


def chosen_scale() -> Scale:
    """`HOLDFAST_BENCH=short` and `HOLDFAST_BENCH=smoke` ask for smaller ones."""
    return {"short": SHORT, "smoke": SMOKE}.get(os.environ.get("HOLDFAST_BENCH", ""), FULL)
