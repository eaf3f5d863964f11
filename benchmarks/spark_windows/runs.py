"""What one run of a query gave: its batches, its rate, its state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.timing import Spread

__all__ = [
    "FIGURES",
    "STATE",
    "Batch",
    "Run",
    "figures",
    "pooled",
    "rate_of_samples",
    "ratio",
    "state",
]

PIECES = 5
"""Into how many stretches of time the progress of a peer is cut, for its spread."""


@dataclass(frozen=True)
class Batch:
    rows: int
    seconds: float


@dataclass(frozen=True)
class Run:
    """Rows per second over the measured batches, and the state at the last of them."""

    rate: Spread
    seconds_per_batch: float
    rows: int
    """In all batches that ended, measured or not."""
    state_rows: int | None = None
    state_bytes: int | None = None
    cut_off: bool = False
    bound: bool = False
    """No measured batch ended in time: the rate is what it would be had the running one ended."""

    @classmethod
    def of(
        cls,
        batches: Sequence[Batch],
        *,
        skip: int,
        elapsed: float,
        cut_off: bool,
        rows_in_batch: int,
        state: tuple[int | None, int | None],
    ) -> Run:
        """A run whose first `skip` batches filled the window and warmed up."""
        measured = batches[skip:]
        rows = sum(batch.rows for batch in batches)
        if measured:
            rate = Spread.of([batch.rows / batch.seconds for batch in measured])
            seconds = Spread.of([batch.seconds for batch in measured]).median
            return cls(rate, seconds, rows, *state, cut_off=cut_off)
        rate = Spread.of([(rows + rows_in_batch) / elapsed])
        return cls(rate, elapsed, rows, *state, cut_off=cut_off, bound=True)

    @property
    def remark(self) -> str:
        if self.bound:
            return "cut off, at most"
        return "cut off" if self.cut_off else ""


def pooled(runs: Sequence[Run]) -> Run:
    """Repeats of one configuration as one run."""
    rates = [run.rate for run in runs]
    last = runs[-1]
    median = Spread.of([rate.median for rate in rates]).median
    return Run(
        Spread(median, min(rate.low for rate in rates), max(rate.high for rate in rates)),
        Spread.of([run.seconds_per_batch for run in runs]).median,
        last.rows,
        last.state_rows,
        last.state_bytes,
        any(run.cut_off for run in runs),
        any(run.bound for run in runs),
    )


def ratio(run: Run, peer: Run) -> Spread:
    """How many times the peer's rate; the spread reaches from worst against best to the reverse."""
    return Spread(
        run.rate.median / peer.rate.median,
        run.rate.low / peer.rate.high,
        run.rate.high / peer.rate.low,
    )


FIGURES = ["rows/s", "lowest", "highest", "s/batch"]
STATE = ["state rows", "state bytes"]


def figures(run: Run) -> list[object]:
    """What a table says of a run, under the heads of `FIGURES`."""
    return [run.rate.median, run.rate.low, run.rate.high, run.seconds_per_batch]


def state(run: Run) -> list[object]:
    """What a table says of its state, under the heads of `STATE`."""
    return ["" if each is None else each for each in (run.state_rows, run.state_bytes)]


def rate_of_samples(samples: Sequence[tuple[float, float]]) -> Spread:
    """Rows per second from (second, rows so far); the first quarter of the time is left out."""
    begin, end = samples[0][0], samples[-1][0]
    start = begin + (end - begin) / 4
    length = (end - start) / PIECES
    counts = [_interpolated(samples, start + piece * length) for piece in range(PIECES + 1)]
    return Spread.of([(after - before) / length for before, after in pairwise(counts)])


def _interpolated(samples: Sequence[tuple[float, float]], moment: float) -> float:
    for (before, low), (after, high) in pairwise(samples):
        if before <= moment <= after:
            share = (moment - before) / (after - before) if after > before else 1.0
            return low + (high - low) * share
    return samples[-1][1]
