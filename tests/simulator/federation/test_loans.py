"""Moves for a limited time: when it is over, either side may cancel."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.federation.graphs import draw_acceptable, priced
from simulator.federation.levels import Levels
from simulator.federation.loans import Loans
from simulator.federation.variants import VARIANTS, vary

DURATION = 3


def lent(loads: list[int], limit: int = 10) -> tuple[Levels, Loans]:
    """Two nodes with a contract at `limit`, after the first slot."""
    graph = priced([(0, 1)], np.array([limit, limit]), 0, np.random.default_rng(1))
    levels = Levels(graph, np.array(loads), np.zeros(2, dtype=np.int64), trace=True)
    loans = Loans(levels, DURATION, np.random.default_rng(2))
    go_on(levels, loans, 1)
    return levels, loans


def go_on(levels: Levels, loans: Loans, slots: int) -> None:
    for _ in range(slots):
        levels.step()
        loans.step()


def test_a_move_that_pays_is_prolonged() -> None:
    levels, loans = lent([13, 2])
    assert levels.loads.tolist() == [10, 5]
    go_on(levels, loans, 10 * DURATION)
    assert (levels.loads.tolist(), loans.returned) == ([10, 5], 0)


def test_the_buyer_takes_back_what_costs_less_at_home_but_not_before_time() -> None:
    levels, loans = lent([13, 2])
    levels.loads[0] = 8
    go_on(levels, loans, DURATION - 1)
    assert loans.returned == 0
    go_on(levels, loans, 2)
    assert (levels.loads.tolist(), loans.returned) == ([10, 3], 2)


def test_the_seller_sends_back_what_it_is_too_full_for() -> None:
    levels, loans = lent([13, 2])
    levels.loads[1] = 12
    go_on(levels, loans, DURATION + 1)
    assert (levels.loads.tolist(), loans.returned) == ([12, 10], 2)


def test_what_has_ended_does_not_come_back() -> None:
    levels, loans = lent([13, 2])
    loans.remove(np.array([0, 5]))
    levels.loads[1] = 0
    levels.loads[0] = 0
    go_on(levels, loans, 3 * DURATION)
    assert (levels.loads.tolist(), loans.returned) == ([0, 0], 0)


def test_a_trace_is_needed() -> None:
    graph = priced([(0, 1)], np.array([5, 5]), 0, np.random.default_rng(1))
    levels = Levels(graph, np.array([0, 0]), np.zeros(2, dtype=np.int64))
    with pytest.raises(ValueError, match="trace=True"):
        Loans(levels, 1, np.random.default_rng(1))


@pytest.mark.parametrize("percent", [50, 75])
def test_nobody_has_too_much_at_the_start(percent: int) -> None:
    loads = draw_acceptable(2_000, percent, np.random.default_rng(1))
    assert 1 <= loads.min() <= loads.max() <= 100
    assert loads.mean() == pytest.approx(percent, abs=2)


def test_moves_that_may_be_cancelled_move_more_and_not_much() -> None:
    for_good, limited = (
        vary(75, VARIANTS[1], 1, phases=((20, 1),), acceptable=True, duration=duration)[0]
        for duration in (None, 1.0)
    )
    assert for_good.returned == 0 < limited.returned
    assert for_good.share < limited.share < 0.5
    assert for_good.varied == pytest.approx(limited.varied, rel=0.05)
