"""The window that `aggregator` picks, with numba and without."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.windows import monoids, policies
from holdfast.windows.amta import Amta
from holdfast.windows.choose import aggregator
from holdfast.windows.fast import KERNELS, FastAmta
from holdfast.windows.monoid import Monoid
from holdfast.windows.policies import Policy


@pytest.fixture
def without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    for module in ("fast", "kernels"):
        monkeypatch.delitem(sys.modules, f"holdfast.windows.{module}")


NEWEST = policies.last(2)


@pytest.mark.parametrize("dtype", [float, "float64", np.float64, np.dtype("f8")])
@pytest.mark.parametrize("name", KERNELS)
def test_the_newest_n_floats_get_the_compiled_window(name: str, dtype: Any) -> None:
    assert isinstance(aggregator(getattr(monoids, name), dtype, NEWEST), FastAmta)


@pytest.mark.parametrize(
    "policy",
    [
        None,
        policies.hopping(10, 4),
        policies.value_bound(7.5),
        policies.before_max(),
        policies.last(lambda window: 3 + window.size % 5),
        policies.two_argument(lambda total, old: total.size > 5),
        policies.Policy(window_invariant=lambda window: window.size <= 5),
    ],
    ids=["none", "hopping", "bound", "before max", "changing size", "two argument", "own"],
)
def test_policies_that_search_get_the_pure_window(policy: Policy | None) -> None:
    # The compiled window borrows the search of the pure one and takes twice its time.
    assert isinstance(aggregator(monoids.max, float, policy), Amta)


@pytest.mark.parametrize("dtype", [None, int, "float32", object, "datetime64[us]"])
def test_other_values_get_the_pure_window(dtype: Any) -> None:
    assert isinstance(aggregator(monoids.sum, dtype, NEWEST), Amta)


@pytest.mark.parametrize("monoid", [monoids.sum.over("price"), monoids.top_k(2), monoids.collect])
def test_monoids_without_a_compiled_form_get_the_pure_window(
    monoid: Monoid[Any, Any, Any],
) -> None:
    assert isinstance(aggregator(monoid, float, NEWEST), Amta)


def test_an_unknown_kernel_gets_the_pure_window() -> None:
    monoid = Monoid("own", 0, int, int.__add__, int, kernel="of some other time")
    assert isinstance(aggregator(monoid, float, NEWEST), Amta)


def test_a_dtype_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="dtype is 'floaty'"):
        aggregator(monoids.sum, "floaty")


def test_a_policy_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="policy: is 100"):
        aggregator(monoids.sum, float, 100)  # type: ignore[arg-type]


@pytest.mark.usefixtures("without_numba")
def test_without_numba_floats_get_the_pure_window() -> None:
    window = aggregator(monoids.sum, float, NEWEST)
    assert isinstance(window, Amta)
    assert window.roll([1.0, 2.0, 3.0], policies.last(2)) == [1.0, 3.0, 5.0]


def test_the_windows_import_and_work_without_numba() -> None:
    script = """
import sys
sys.modules["numba"] = None
import holdfast.windows
from holdfast.windows import choose, monoids, policies
window = choose.aggregator(monoids.max, float, policies.last(2))
window.insert(2.5)
print(type(window).__name__, window.result())
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.stdout == "Amta 2.5\n", ended.stderr
