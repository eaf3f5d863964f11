"""Distinct counts: the error that HyperLogLog promises, and no trace of order or parts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.edge.machine.aggregates import aggregate


@pytest.mark.parametrize("n", [1, 10, 100, 1000, 3000, 10_000, 100_000, 1_000_000])
def test_the_estimate_has_the_error_promised(n: int) -> None:
    made = aggregate("distinct")
    errors = []
    for start in range(4):
        values = np.arange(n, dtype=np.float64) * 0.25 + start * 1e7
        errors.append(made.answer(made.add(made.empty(), values)) / n - 1)
    assert math.sqrt(sum(error**2 for error in errors) / 4) < 2 * 1.04 / math.sqrt(4096)


def test_the_mean_error_is_the_formula() -> None:
    made = aggregate("distinct", lg_k=6)
    rng = np.random.default_rng(11)
    errors = [made.answer(made.add(made.empty(), rng.random(5000))) / 5000 - 1 for _ in range(300)]
    assert abs(np.mean(errors)) < 0.03
    assert np.std(errors) == pytest.approx(1.04 / math.sqrt(64), rel=0.2)


@given(
    parts=st.lists(st.lists(st.floats(allow_nan=False), max_size=50), max_size=4),
    lg_k=st.sampled_from([4, 8, 12, 21]),
)
@settings(max_examples=25)
def test_only_the_set_of_values_counts(parts: list[list[float]], lg_k: int) -> None:
    made = aggregate("distinct", lg_k=lg_k)
    partials = [made.add(made.empty(), np.array(part)) for part in parts]
    values = sorted({value for part in parts for value in part})
    whole = made.add(made.empty(), np.array(values))
    assert made.combine_all(partials) == whole
    assert made.combine_all(partials[::-1] + partials) == whole
    if lg_k == 21:
        assert made.answer(whole) == (len(values) or None)


def test_a_few_values_take_little_room_and_many_no_more_than_the_registers() -> None:
    made = aggregate("distinct")
    assert len(made.add(made.empty(), np.arange(10.0))) <= 51
    assert len(made.add(made.empty(), np.arange(1e5))) == 4097
