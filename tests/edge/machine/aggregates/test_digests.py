"""Quantiles: within the error that t-digest promises, exact at the ends."""

from __future__ import annotations

import math

import numpy as np
import pytest

from holdfast.edge.machine.aggregates import aggregate

SHARES = [0, 0.01, 0.25, 0.5, 0.75, 0.99, 1]


@pytest.mark.parametrize("parts", [1, 7])
def test_ranks_are_off_by_two_percent_at_most(parts: int) -> None:
    values = np.random.default_rng(4).lognormal(size=30_000)
    made = aggregate("quantiles", shares=SHARES)
    partials = [made.add(made.empty(), part) for part in np.array_split(values, parts)]
    answers = made.answer(made.combine_all(partials))
    ranks = np.searchsorted(np.sort(values), answers) / len(values)
    assert np.abs(ranks - SHARES).max() < 0.02
    assert (answers[0], answers[-1]) == (values.min(), values.max())


def test_few_values_are_kept_as_they_are() -> None:
    made = aggregate("quantiles", shares=SHARES)
    left, right = (made.add(made.empty(), part) for part in (np.arange(100.0), np.arange(150.0)))
    both = np.concatenate([np.arange(100.0), np.arange(150.0)])
    assert made.combine(left, right) == made.add(made.empty(), both)


def test_infinities_stand_at_the_ends() -> None:
    made = aggregate("quantiles", shares=[0, 0.1, 0.5, 0.9, 1])

    def of(*values: float) -> list[float] | None:
        return made.answer(made.add(made.empty(), np.array(values)))

    inf = math.inf
    assert of(-inf, 1, 2, 3, inf) == [-inf, -inf, 2, inf, inf]
    assert of(-inf) == [-inf] * 5
    assert of(inf) == [inf] * 5
    assert of(-inf, inf) == [-inf, -inf, -inf, inf, inf]
    assert of(inf, 1)[0] == 1


def test_a_partial_stays_small() -> None:
    made = aggregate("quantiles")
    below, above, digest, waiting = made.add(made.empty(), np.random.default_rng(1).random(100_700))
    assert (below, above) == (0, 0)
    assert len(digest) < 5000
    assert len(waiting) < 8 * 256
