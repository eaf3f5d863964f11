"""The compiled peers of AMTA answer as the windows they stand for, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.windows.compiled import CompiledDaba, CompiledTwoStacks
from holdfast.windows import Daba, TwoStacks, monoids, policies


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 100])
@pytest.mark.parametrize("name", ["sum", "max", "mean", "last"])
@pytest.mark.parametrize(("peer", "pure"), [(CompiledTwoStacks, TwoStacks), (CompiledDaba, Daba)])
def test_compiled_peers_equal_the_pure_windows(peer: Any, pure: Any, name: str, size: int) -> None:
    monoid = getattr(monoids, name)
    values = np.random.default_rng(size).normal(0, 1e9, 1_000)
    compiled, window, policy = peer(monoid, size), pure(monoid), policies.last(size)
    for part in np.split(values, [1, 10, 700]):
        assert compiled.roll(part, policy).tolist() == window.roll(part.tolist(), policy)
