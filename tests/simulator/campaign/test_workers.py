from __future__ import annotations

import os
import signal
from contextlib import closing
from functools import partial
from multiprocessing import active_children

import pytest

from simulator.campaign.result import Result, run_seed
from simulator.campaign.workers import run_seeds
from simulator.scenario import Options

RUN = partial(run_seed, Options(topology="chain-1", faults="none"))


def die_at_three(seed: int) -> Result:
    if seed == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return Result(seed)


@pytest.mark.parametrize("count", [1, 5])
def test_every_seed_is_run_once_with_the_same_result_wherever(count: int) -> None:
    before = signal.getsignal(signal.SIGINT)
    here = list(run_seeds(range(count), RUN, 1))
    there = list(run_seeds(range(count), RUN, 2))
    assert [result.seed for result in here] == list(range(count))
    assert sorted(there, key=lambda result: result.seed) == here
    assert active_children() == []
    assert signal.getsignal(signal.SIGINT) is before


def test_closing_ends_the_workers() -> None:
    with closing(run_seeds(range(1_000), RUN, 2)) as results:
        next(results)
        assert len(active_children()) == 2
    assert active_children() == []


def test_a_process_that_dies_is_a_failure_of_its_seed_and_is_replaced() -> None:
    results = {result.seed: result for result in run_seeds(range(8), die_at_three, 2)}
    assert set(results) == set(range(8))
    assert results[3].problems == ("its process died, with exit code -9",)
    assert not any(result.problems for seed, result in results.items() if seed != 3)
