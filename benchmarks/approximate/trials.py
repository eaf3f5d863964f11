"""One setting over one stream: the window runs update by update, NumPy compares."""

from __future__ import annotations

import gc
import multiprocessing
from array import array
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from benchmarks.approximate.scenarios import HOPS, Scenario, average, hopping, peak
from benchmarks.approximate.streams import SERVER, series, server_memory
from holdfast.windows import HOLE, monoids
from holdfast.windows.approximation import ApproximateWindow, Method
from holdfast.windows.approximation.methods import BlockMaxima, MaxError, only
from holdfast.windows.approximation.peaks import BLOCKS

__all__ = ["Outcome", "Trial", "run_trial", "run_trials"]

ROUNDING: Final = 1e-12
"""As in `Shadow`: what may differ between two ways to add up the same numbers."""

Numbers = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Trial:
    """A setting; plain data, so that another process can run it."""

    scenario: str
    """"mean", "max", or one of `HOPS`."""
    methods: tuple[Method, ...]
    window: int
    updates: int
    stream: str = SERVER

    def values(self) -> np.ndarray[Any, Any]:
        return server_memory(self.updates) if self.stream == SERVER else series(self.stream)

    def open(self) -> Scenario:
        if self.scenario in HOPS:
            return hopping(self.window, self.updates, HOPS[self.scenario])
        return (average if self.scenario == "mean" else peak)(self.window, self.updates)

    def settled(self, scenario: Scenario) -> int:
        """After how many updates the steady state begins."""
        peaks = only(BlockMaxima, self.methods)
        learned = 0 if peaks is None else BLOCKS * peaks.block + self.window
        return max(scenario.settled, learned)


@dataclass(frozen=True)
class Outcome:
    footprint: float
    """Buckets made for each update, from the first one on."""
    steady: float | None
    """The same since the steady state began; None if it did not."""
    exact: float
    """The share of answers that are the exact ones."""
    exact_changes: float
    """The same among the answers that differ from the one before."""
    median: float
    high: float
    largest: float
    """Relative errors: their median, their 99.9 % quantile, the largest."""
    exceeded: int | None
    not_guaranteed: int | None
    buckets: int
    """At most at any time."""


def run_trials(trials: Sequence[Trial]) -> Iterator[tuple[Trial, Outcome]]:
    """Run them two at a time, each in a process that has the streams already."""
    for stream, updates in {(trial.stream, trial.updates) for trial in trials}:
        if stream == SERVER:
            server_memory(updates)
    context = multiprocessing.get_context("fork")
    # Nothing is timed here, and the collector would walk millions of leaves again and again.
    with ProcessPoolExecutor(2, mp_context=context, initializer=gc.disable) as pool:
        running = {pool.submit(run_trial, trial): trial for trial in trials}
        for done in as_completed(running):
            yield running[done], done.result()


@dataclass
class _Record:
    """What a window did, update by update."""

    numbers: array[float]
    sizes: array[int]
    not_guaranteed: int
    created: int
    created_before: int
    buckets: int


def run_trial(trial: Trial) -> Outcome:
    scenario, values = trial.open(), trial.values()
    window: ApproximateWindow[Any, Any, Any] = ApproximateWindow(scenario.monoid, trial.methods)
    settled = trial.settled(scenario)
    record = _run(window, scenario, values.tolist(), settled, _bound(trial) is not None)
    answers: Numbers = np.frombuffer(record.numbers)
    if scenario.monoid is monoids.mean:
        answers = answers / np.frombuffer(record.sizes, dtype=np.int64)
    exact = scenario.exact(values)
    errors = np.abs(answers - exact) / np.abs(exact)
    right = errors <= ROUNDING
    changes = np.diff(exact, prepend=np.nan) != 0
    bound = _bound(trial)
    return Outcome(
        footprint=record.created / len(values),
        steady=_steady(record, len(values), settled),
        exact=float(right.mean()),
        exact_changes=float(right[changes].mean()),
        median=_quantile(errors, 0.5),
        high=_quantile(errors, 0.999),
        largest=float(errors.max()),
        exceeded=None if bound is None else int((errors > bound * (1 + ROUNDING)).sum()),
        not_guaranteed=None if bound is None else record.not_guaranteed,
        buckets=record.buckets,
    )


def _run(
    window: ApproximateWindow[Any, Any, Any],
    scenario: Scenario,
    values: Iterable[Any],
    settled: int,
    bounded: bool,
) -> _Record:
    record = _Record(array("d"), array("q"), 0, 0, 0, 0)
    insert, slide, amta, read = window.insert, window.slide, window.amta, scenario.read
    before_slide, policy, guarantee = scenario.before_slide, scenario.policy, window.guarantee
    for updates, value in enumerate(values, 1):
        insert(value)
        before_slide(updates)
        slide(policy)
        if bounded:
            record.not_guaranteed += not guarantee().holds
        total = amta.aggregate()
        assert total is not HOLE
        record.numbers.append(read(total[1]))
        record.sizes.append(total[0])
        record.buckets = max(record.buckets, window.buckets)
        if updates == settled:
            record.created_before = window.created
    record.created = window.created
    return record


def _steady(record: _Record, updates: int, settled: int) -> float | None:
    if updates <= settled:
        return None
    return (record.created - record.created_before) / (updates - settled)


def _bound(trial: Trial) -> float | None:
    method = only(MaxError, trial.methods)
    return None if method is None else method.relative


def _quantile(errors: Numbers, part: float) -> float:
    return float(np.quantile(errors, part, method="higher"))
