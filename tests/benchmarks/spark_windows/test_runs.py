from __future__ import annotations

import pytest

from benchmarks.spark_windows.runs import Batch, Run, pooled, rate_of_samples, ratio
from benchmarks.timing import Spread


def run_of(*batches: Batch, skip: int = 0, elapsed: float = 10.0, cut_off: bool = False) -> Run:
    return Run.of(
        batches, skip=skip, elapsed=elapsed, cut_off=cut_off, rows_in_batch=100, state=(1, 2)
    )


def test_the_rate_is_of_measured_batches_only() -> None:
    run = run_of(Batch(100, 50.0), Batch(100, 2.0), Batch(100, 1.0), Batch(100, 4.0), skip=1)
    assert run.rate == Spread(50.0, 25.0, 100.0)
    assert (run.seconds_per_batch, run.rows, run.remark) == (2.0, 400, "")


def test_measured_batches_count_though_the_run_was_cut_off() -> None:
    run = run_of(Batch(100, 5.0), Batch(100, 4.0), skip=1, cut_off=True)
    assert run.rate == Spread(25.0, 25.0, 25.0)
    assert run.remark == "cut off"


def test_a_run_cut_off_before_measuring_gets_the_batch_it_was_in_for_free() -> None:
    run = run_of(Batch(100, 15.0), skip=1, elapsed=20.0, cut_off=True)
    assert run.rate == Spread(10.0, 10.0, 10.0)
    assert (run.bound, run.remark) == (True, "cut off, at most")
    assert run_of(elapsed=20.0, cut_off=True).rate.median == 5.0


def test_repeats_are_pooled() -> None:
    slow, fast = run_of(Batch(100, 2.0), Batch(100, 1.0)), run_of(Batch(100, 0.5))
    assert pooled([slow, fast]).rate == Spread((75.0 + 200.0) / 2, 50.0, 200.0)
    assert not pooled([slow, fast]).cut_off


def test_a_ratio_spreads_from_worst_against_best_to_best_against_worst() -> None:
    run, peer = run_of(Batch(100, 2.0), Batch(100, 1.0)), run_of(Batch(100, 10.0), Batch(100, 5.0))
    assert ratio(run, peer) == Spread(5.0, 2.5, 10.0)


def test_samples_give_the_rate_after_a_quarter_of_the_time() -> None:
    # A thousand at once, then ten a second; sampled unevenly.
    samples = [(0.0, 0.0), (5.0, 1000.0), (7.0, 1020.0), (20.0, 1150.0), (40.0, 1350.0)]
    rate = rate_of_samples(samples)
    assert rate.range == pytest.approx((10.0, 10.0))


def test_samples_without_progress_give_no_rate() -> None:
    assert rate_of_samples([(0.0, 32.0), (40.0, 32.0)]) == Spread(0.0, 0.0, 0.0)
