"""Windows that hop, with what leaves together folded, against exact ones."""

from __future__ import annotations

from itertools import repeat
from random import Random

import pytest

from holdfast.windows import Amta, Policy
from holdfast.windows import monoids as m
from holdfast.windows.approximation import (
    ApproximateWindow,
    hops,
)
from holdfast.windows.policies import hopping
from tests.windows.approximation.beside import both


@pytest.mark.parametrize(("size", "hop"), [(1_500, 500), (90, 30), (10, 3), (7, 7), (64, 5)])
def test_constant_hops_are_exact(size: int, hop: int) -> None:
    random = Random(size)
    values = [random.random() for _ in range(60 * hop + 3 * size)]
    for exact, approximate, window in both(m.sum, hops(), hopping(size, hop), values):
        assert approximate == pytest.approx(exact, rel=1e-12)
        assert window.created <= 31 * hop + size + 3 * 120


def test_a_hop_keeps_three_buckets() -> None:
    window = ApproximateWindow(m.sum, hops())
    window.roll(repeat(1, 40 * 500), hopping(1_500, 500))
    assert set(window.sizes()) == {1, 498}


def test_hops_that_vary_are_mostly_exact_and_fold_inside_the_predicted_borders() -> None:
    random = Random(9)
    sizes = [max(1, round(random.gauss(300, 5))) for _ in range(200)]
    exact_share = total = 0
    exact, window = Amta(m.sum), ApproximateWindow(m.sum, hops(0.999))
    drawn = [iter(sizes), iter(sizes)]
    for step in range(300 * 150):
        for each, draws in zip((exact, window), drawn, strict=True):
            each.insert(step % 7)
            if len(each) > 900:
                hop = next(draws)
                each.slide(_leaving(hop))
        total += 1
        exact_share += exact.result() == window.result()
    assert exact_share > 0.9 * total
    assert window.created < 0.45 * total


def _leaving(count: int) -> Policy:
    return Policy(eviction_invariant=lambda candidate, _after, _before: candidate.size <= count)


def _hopping(size: int, hop: int) -> Policy:
    """As `hopping`, but the size of hops may change from one slide to the next."""
    return Policy(
        eviction_invariant=lambda candidate, _after, before: (
            before.size > size and candidate.size <= hop
        )
    )


@pytest.mark.parametrize(("former", "latter"), [(130, 80), (80, 130), (130, 3), (10, 300)])
def test_hops_that_change_their_size_are_followed(former: int, latter: int) -> None:
    """Old buckets stand in the way once; then hops are learned anew and answers exact again."""
    random = Random(10)
    window, exact = ApproximateWindow(m.sum, hops()), Amta(m.sum)
    learned = 40 * former + 400
    relearned = learned + 70 * latter + 800
    for step in range(relearned + 800):
        policy = _hopping(400, former if step < learned else latter)
        value = random.random()
        for each in (window, exact):
            each.insert(value)
            each.slide(policy)
        right = window.result() == pytest.approx(exact.result(), rel=1e-9)
        assert right or learned <= step < relearned
        assert 0 <= len(window) - len(exact) < max(former, latter)
        if latter > 3 and step > relearned:
            assert window.buckets < 50


def test_hops_are_learned_from_evictions_by_number() -> None:
    window, exact = ApproximateWindow(m.sum, hops()), Amta(m.sum)
    for step in range(40_000):
        for each in (window, exact):
            each.insert(step % 7)
            if step >= 1_500 and step % 500 == 0:
                each.evict(500)
        assert window.result() == exact.result()
    assert window.created < 20_000
    assert window.buckets < 50
