from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.pipeline.machine.client import Shown
from holdfast.pipeline.machine.tuples import Kind
from simulator.campaign.result import Result, Tally, attempt, count_shown, run_seed
from simulator.scenario import Options, draw_scenario
from simulator.simulation import Simulation


def run_that_showed(*kinds: Kind) -> Simulation:
    client = SimpleNamespace(shown=[(0, Shown(kind, 0)) for kind in kinds])
    client.client = SimpleNamespace(gaps=[(0, 1)])
    return cast(Any, SimpleNamespace(clients={"u": client, "v": client}))


def test_previews_that_stand_are_not_counted_as_withdrawn() -> None:
    run = run_that_showed(
        Kind.INSERT, Kind.TENTATIVE, Kind.TENTATIVE, Kind.UNDO, Kind.INSERT, Kind.TENTATIVE
    )
    assert count_shown(run) == (6, 4, 2, 2)


def test_a_seed_tells_its_faults() -> None:
    options = Options(topology="chain-1", faults="cuts")
    result = run_seed(options, 1)
    assert result.seed == 1
    assert result.faults.total() == len(draw_scenario(1, options).faults) > 0
    assert result == run_seed(options, 1)


@pytest.mark.parametrize("broken", ["draw_scenario", "try_scenario"])
def test_a_simulator_that_breaks_is_a_failure_of_the_seed(
    monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def breaks(*_: object) -> None:
        raise KeyError("s1/7")

    monkeypatch.setattr(f"simulator.campaign.result.{broken}", breaks)
    (problem,) = run_seed(Options(), 5).problems
    assert problem.startswith("the simulator broke: KeyError: 's1/7' (test_result.py:")


def test_the_traceback_of_a_simulator_that_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("simulator.campaign.result.try_scenario", breaks)
    tried = attempt(draw_scenario(0, Options()))
    assert tried.run is None
    assert "in breaks" in tried.traceback


def test_a_tally_adds_up() -> None:
    tally = Tally()
    tally.add(Result(1, (), 5, 4, 2, 0, Counter(cut=2)))
    tally.add(Result(2, ("wrong",), faults=Counter(cut=1, crash=1)))
    assert (tally.seeds, tally.with_previews, tally.tentative, tally.withdrawn) == (2, 1, 5, 4)
    assert tally.faults == {"cut": 3, "crash": 1}
    assert [failure.seed for failure in tally.failures] == [2]
