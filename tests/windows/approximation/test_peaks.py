"""Maxima of which most updates are folded, against exact ones."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from holdfast.errors import InvalidValueError
from holdfast.windows import Amta, Monoid
from holdfast.windows import monoids as m
from holdfast.windows.approximation import (
    ApproximateWindow,
    block_maxima,
)
from holdfast.windows.policies import before_max, last
from tests.windows.approximation.beside import both


def test_no_maximum_folds_before_thirty_blocks_and_many_do_after() -> None:
    random = Random(1)
    values = [random.gauss(0, 1) for _ in range(40_000)]
    window = ApproximateWindow(m.max, block_maxima(100))
    for step, value in enumerate(values):
        window.insert(value)
        window.slide(last(2_000))
        if step < 30 * 100:
            assert window.buckets == len(window)
    assert window.buckets < len(window) / 5


@pytest.mark.parametrize("shape", ["light", "heavy", "bounded", "drifting"])
@pytest.mark.parametrize("monoid", [m.max, m.min], ids=["max", "min"])
def test_a_new_maximum_is_never_folded_away(shape: str, monoid: Monoid[Any, Any, Any]) -> None:
    random = Random(2)
    draw: dict[str, Callable[[int], float]] = {
        "light": lambda i: random.gauss(0, 1),
        "heavy": lambda i: random.paretovariate(1.2),
        "bounded": lambda i: random.random(),
        "drifting": lambda i: random.random() - i / 500,
    }
    sign = 1 if monoid is m.max else -1
    values = [sign * draw[shape](i) for i in range(9_000)]
    exact_share = 0
    window = ApproximateWindow(monoid, block_maxima(50))
    exact = Amta(monoid)
    for value in values:
        greatest = window.result()
        window.insert(value)
        if greatest is None or sign * value > sign * greatest:
            assert window.sizes()[-1] == 1
            assert window.result() == value
        window.slide(last(1_000))
        exact.insert(value)
        exact.slide(last(1_000))
        exact_share += window.result() == exact.result()
    assert exact_share > (0.4 if shape == "drifting" else 0.9) * len(values)


def test_dropping_what_precedes_the_maximum_stays_exact() -> None:
    random = Random(4)
    values = [random.expovariate(1) for _ in range(8_000)]
    for exact, approximate, _ in both(m.max, block_maxima(20), before_max(), values):
        assert approximate == exact


def test_texts_have_no_peaks() -> None:
    window = ApproximateWindow(m.max, block_maxima(5))
    window.insert(1)
    with pytest.raises(InvalidValueError, match="no number"):
        window.insert("text")
    assert window.result() == 1
