from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.recovery.outages import Outage, judge, run_outage, run_outages
from benchmarks.recovery.scale import FULL, SMOKE, chosen_scale
from benchmarks.recovery.states import (
    Held,
    Work,
    by_copy,
    by_fork,
    count_windows,
    slope,
    time_window,
)
from benchmarks.runner import main
from holdfast.pipeline.gates.order import Variant
from holdfast.pipeline.machine.client import Shown
from holdfast.pipeline.machine.tuples import Kind, Row
from simulator.operators import Stage


@pytest.fixture(params=["time", "keys", "count"])
def held(request: pytest.FixtureRequest) -> Held:
    makers = {
        "time": lambda: time_window(300),
        "keys": lambda: time_window(60, keys=5),
        "count": lambda: count_windows(60, keys=5, touched=2),
    }
    return makers[request.param]()


def _answers(held: Held, stage: Stage, buckets: int) -> list[Row]:
    answers: list[Row] = []
    for _ in range(buckets):
        start = stage.boundary or 0
        answers += stage.run(start, start + 10, {"a": held.rows(start)})["w"]
    return answers


def test_both_ways_leave_a_stage_that_answers_as_one_that_never_failed(held: Held) -> None:
    other = held.stage.copy()
    by_fork(held, 20)
    by_copy(held, 20)
    _answers(held, other, 40)
    assert held.stage.boundary == other.boundary
    assert _answers(held, held.stage, 30) == _answers(held, other, 30)


def test_a_copy_copies_the_state_and_a_fork_does_not() -> None:
    for panes in (200, 2_000):
        held = time_window(panes)
        fork, copy = by_fork(held, 20), by_copy(held, 20)
        assert fork.copied < 60
        assert copy.copied > 1.9 * panes
        assert fork.redone < 20 * 6
        assert fork.total == fork.previews + fork.redone + fork.copied


def test_work_is_averaged() -> None:
    assert Work.mean([Work(1, 2, 3), Work(3, 4, 9)]) == Work(2, 3, 6)


def test_a_slope_is_the_power_of_growth() -> None:
    assert slope({10: 5.0, 100: 5.0, 1_000: 5.0}) == pytest.approx(0)
    assert slope({10: 30.0, 100: 300.0, 1_000: 3_000.0}) == pytest.approx(1)


def test_what_a_client_saw_is_judged() -> None:
    shown = [
        (2_100_000, Shown(Kind.INSERT, 2_100_000, (Row(2_000_000, "a", 0),))),
        (2_900_000, Shown(Kind.TENTATIVE, 2_200_000, (Row(2_150_000, "a", 1),))),
        (3_000_000, Shown(Kind.TENTATIVE, 2_400_000, (Row(2_350_000, "a", 3),))),
        (5_000_000, Shown(Kind.UNDO, 2_100_000)),
        (
            5_000_000,
            Shown(Kind.INSERT, 2_200_000, (Row(2_150_000, "a", 1), Row(2_150_000, "c", 1))),
        ),
        (5_000_000, Shown(Kind.TENTATIVE, 2_400_000, (Row(2_350_000, "a", 3),))),
        (5_100_000, Shown(Kind.UNDO, 2_200_000)),
        (
            5_100_000,
            Shown(Kind.INSERT, 2_400_000, (Row(2_250_000, "a", 2), Row(2_350_000, "a", 3))),
        ),
        (5_200_000, Shown(Kind.REC_DONE, 2_400_000)),
    ]
    outcome = judge(shown, expected=5, healed=4_000_000)
    assert (outcome.tentative, outcome.again, outcome.skipped) == (2, 1, 1)
    assert outcome.worst == 0.75
    assert outcome.mean == pytest.approx((0.1 + 0.75 + 0.65) / 3)
    assert outcome.corrected_after == 1.2
    assert outcome.wrong == 0
    assert judge(shown[:3], expected=1, healed=0).wrong == 2
    assert judge(shown, expected=7, healed=0).wrong == 2


def test_a_failure_shorter_than_the_delay_is_masked_and_a_longer_one_is_not() -> None:
    outages = [Outage(1, 1.5), Outage(1, 0.5), replace(Outage(1, 0.5), failing=Variant.DELAY)]
    outcomes = dict(run_outages(outages))
    masked, processed, _ = (outcomes[outage] for outage in outages)
    assert (masked.tentative, masked.corrected_after) == (0, 0)
    assert processed.tentative > 30
    assert 0.5 < processed.worst < 0.75
    assert all(outcome.wrong == 0 for outcome in outcomes.values())


def test_without_a_failure_rows_wait_for_their_bucket_only() -> None:
    outcome = run_outage(Outage(0, 2, size=0.1, gap=0.007))
    assert outcome.tentative == 0
    assert 0.05 < outcome.mean < 0.07


def test_the_environment_chooses_the_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_BENCH", raising=False)
    assert chosen_scale() is FULL
    monkeypatch.setenv("HOLDFAST_BENCH", "smoke")
    assert chosen_scale() is SMOKE


def test_the_part_runs_at_a_small_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_BENCH", "smoke")
    # Whether claims hold says nothing at this scale.
    assert main(["recovery"], results=tmp_path) in (0, 1)
    report = json.loads((tmp_path / "recovery.json").read_text())
    titles = [table["title"] for table in report["tables"]]
    for start in ("work of", "Table 5.1", "one stage", "six", "chains", "a chain", "delay by"):
        assert any(title.startswith(start) for title in titles), start
    claims = {claim["name"]: claim for claim in report["claims"]}
    assert claims["tentative rows of a 5 s failure with a longer D"]["figure"] == 0
