"""A trial's outcome against the report of a shadow over the same stream."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.approximate.streams import series
from benchmarks.approximate.trials import Trial, run_trial, run_trials
from holdfast.windows import monoids, policies
from holdfast.windows.approximation import Method, Shadow, hops, max_error, max_leaves


@pytest.mark.parametrize("method", [max_error("2%"), max_error("20%"), max_leaves(20)], ids=str)
def test_outcomes_are_those_of_a_shadow(method: Method) -> None:
    trial = Trial("mean", (method,), 300, 2_000)
    outcome = run_trial(trial)
    shadow = Shadow(monoids.mean, method, policies.last(300))
    shadow.feed(trial.values().tolist())
    report = shadow.report()
    assert outcome.footprint == report.footprint
    assert outcome.steady == report.steady_footprint
    assert outcome.exact == report.exact_share
    assert outcome.largest == pytest.approx(report.errors[1.0])
    assert outcome.exceeded == report.exceeded
    assert outcome.not_guaranteed == report.not_guaranteed
    assert outcome.buckets >= report.buckets_peak


def test_what_is_not_guaranteed_is_counted_as_a_shadow_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    falling = [1_000.0 - 0.2 * at for at in range(1_500)] + [5.0] * 1_000
    rows = "\n".join(map(str, falling))
    (tmp_path / "speed_7578.csv").write_text(f"value\n{rows}\n")
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path))
    series.cache_clear()
    trial = Trial("mean", (max_error("20%"),), 200, len(falling), "road speed")
    shadow = Shadow(monoids.mean, trial.methods, policies.last(200))
    shadow.feed(falling)
    outcome = run_trial(trial)
    series.cache_clear()
    assert outcome.not_guaranteed == shadow.report().not_guaranteed
    assert outcome.not_guaranteed > 0
    assert outcome.exceeded == shadow.report().exceeded


def test_trials_run_in_processes_of_their_own() -> None:
    trials = [
        Trial("constant", (hops(),), 90, 3_000),
        Trial("max", (max_leaves(10),), 100, 1_000),
    ]
    outcomes = dict(run_trials(trials))
    assert set(outcomes) == set(trials)
    assert outcomes[trials[0]].exact == 1.0
    assert outcomes[trials[1]].buckets <= 10
