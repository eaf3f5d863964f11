"""The least and the greatest, against sorting."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.edge.machine.aggregates import aggregate

PARTS = st.lists(st.lists(st.floats(allow_nan=False), max_size=60), max_size=4)


@given(parts=PARTS, k=st.integers(1, 12))
@settings(max_examples=60)
def test_extremes_of_any_parts_are_those_of_the_whole(parts: list[list[float]], k: int) -> None:
    values = sorted((value for part in parts for value in part), reverse=True)
    expected = {
        "max": values[0] if values else None,
        "min": values[-1] if values else None,
        "top_k": values[:k] or None,
    }
    for kind, answer in expected.items():
        made = aggregate(kind, k=k) if kind == "top_k" else aggregate(kind)
        partials = [made.add(made.empty(), np.array(part)) for part in parts]
        assert made.answer(made.combine_all(partials)) == answer
        assert made.answer(made.combine_all(reversed(partials))) == answer


@pytest.mark.parametrize("kind", ["min", "max"])
@pytest.mark.parametrize("n", [2, 200])
def test_there_is_only_one_zero(kind: str, n: int) -> None:
    made = aggregate(kind)
    for values in (np.array([0.0, -0.0] * n), np.array([-0.0, 0.0] * n), np.full(n, -0.0)):
        assert math.copysign(1, made.answer(made.add(made.empty(), values))) == 1


def test_top_k_of_many_keeps_duplicates() -> None:
    made = aggregate("top_k", k=4)
    values = np.array([7.0] * 3 + list(range(1000)) + [999.0])
    assert made.answer(made.add(made.empty(), values)) == [999, 999, 998, 997]
