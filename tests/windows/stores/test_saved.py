"""Resuming from the record that the store has, and the records that are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from holdfast.errors import StoreCorruptError, StoreError
from holdfast.windows import Amta, Monoid
from holdfast.windows import monoids as m
from holdfast.windows.policies import last
from holdfast.windows.stores.store import Key, MemoryStore, root_key
from holdfast.windows.stores.stored import open_window
from tests.windows.counting import CONCATENATION
from tests.windows.invariants import assert_structure
from tests.windows.stores.spans import AnyAmta


def test_a_resumed_window_answers_to_the_bit_what_an_uninterrupted_one_does() -> None:
    values = np.random.default_rng(7).lognormal(sigma=8, size=6000).tolist()
    floats: Monoid[float, float, float] = Monoid("floats", 0.0, float, lambda a, b: a + b, float)
    expected = Amta(floats).roll(values, last(777))
    store = MemoryStore()
    results = [0.0] * len(values)
    starts = []
    for stop in (100, 1234, 1300, 4000, 6000):
        window = open_window(floats, store, "w", buffer=50, cache=20)
        starts.append(window.position)
        start = window.position
        results[start:stop] = window.roll(values[start:stop], last(777))
    assert results == expected
    for start, stop in zip(starts[1:], (100, 1234, 1300, 4000), strict=True):
        assert stop - 50 <= start <= stop, "not much has to be fed again"


def test_every_ready_made_monoid_resumes() -> None:
    store = MemoryStore()
    ready_made: dict[str, tuple[Monoid[Any, Any, Any], Callable[[int], Any]]] = {
        name: (getattr(m, name), float)
        for name in ("count", "sum", "mean", "min", "max", "range", "variance", "stddev", "any")
    }
    ready_made |= {
        "first": (m.first, str),
        "last": (m.last, str),
        "all": (m.all, bool),
        "time": (m.time, int),
        "arg_max": (m.arg_max, lambda n: (n % 7, n)),
        "geometric_mean": (m.geometric_mean, lambda n: n + 1.0),
        "longest_increasing_run": (m.longest_increasing_run, lambda n: n % 5),
        "top_k": (m.top_k(3), lambda n: n % 11),
        "histogram": (m.histogram([10, 20]), lambda n: n % 30),
        "collect": (m.collect, lambda n: {"n": n}),
        "approx_distinct": (m.approx_distinct(), lambda n: n % 13),
        "approx_quantiles": (m.approx_quantiles([0.5]), float),
        "product": (m.product(least=m.min, newest=m.last), lambda n: n % 17),
    }
    for name, (monoid, value) in ready_made.items():
        expected: AnyAmta = Amta(monoid)
        for stop in (25, 60):
            window: AnyAmta = open_window(monoid, store, name, buffer=2, cache=2)
            for number in range(window.position, stop):
                window.insert(value(number))
                window.slide(last(10))
            for number in range(expected.position, stop):
                expected.insert(value(number))
                expected.slide(last(10))
            assert window.result() == expected.result()
            window.checkpoint()


def test_array_states_come_back() -> None:
    arrays: Monoid[Any, Any, Any] = Monoid(
        "arrays", np.zeros(3), lambda n: np.array([n, -n, 0.1 * n]), np.add, lambda state: state
    )
    store = MemoryStore()
    window = open_window(arrays, store, "w", buffer=2, cache=2)
    expected = Amta(arrays)
    for number in range(40):
        for each in (window, expected):
            each.insert(number)
            each.slide(last(9))
        np.testing.assert_array_equal(window.result(), expected.result())
    window.checkpoint()
    np.testing.assert_array_equal(open_window(arrays, store, "w").result(), expected.result())


def test_what_a_crashed_run_wrote_beyond_its_root_is_not_read() -> None:
    store = MemoryStore()
    window: AnyAmta = open_window(CONCATENATION, store, "w", buffer=64)
    for number in range(33):
        window.insert(f"{number},")
    window.checkpoint()
    fork = window.fork()
    for number in range(33, 60):
        window.insert(f"lost {number},")
    fork.insert("fork,")
    fork.checkpoint()
    assert Key("w", 0, 0, 20) in store._records, "the fork has written out its base's pairs"
    resumed = open_window(CONCATENATION, store, "w", buffer=2, cache=16)
    assert resumed.position == 33
    for number in range(33, 100):
        resumed.insert(f"{number},")
    resumed.evict(30)
    assert list(resumed.leaves()) == [f"{number}," for number in range(30, 100)]
    assert_structure(resumed)


# Refusals


def test_another_monoid_is_refused() -> None:
    store = MemoryStore()
    window = open_window(m.sum, store, "w")
    window.insert(1)
    window.checkpoint()
    with pytest.raises(StoreError, match="'w' was stored with the monoid 'sum', not 'max'; open"):
        open_window(m.max, store, "w")
    assert open_window(m.sum, store, "w").result() == 1


@pytest.mark.parametrize(
    ("stored_with", "opened_with"),
    [
        (m.top_k(1), m.top_k(2)),
        (m.histogram([1, 2]), m.histogram([1, 3])),
        (m.approx_distinct(4), m.approx_distinct(5)),
        (m.approx_quantiles([0.5], k=100), m.approx_quantiles([0.5], k=200)),
        (m.product(x=m.min), m.product(x=m.max)),
        (m.product(x=m.top_k(1)), m.product(x=m.top_k(2))),
    ],
    ids=repr,
)
def test_a_monoid_with_other_parameters_is_refused(
    stored_with: Monoid[Any, Any, Any], opened_with: Monoid[Any, Any, Any]
) -> None:
    store = MemoryStore()
    window = open_window(stored_with, store, "w")
    window.insert(1)
    window.checkpoint()
    with pytest.raises(StoreError, match="was stored with the monoid"):
        open_window(opened_with, store, "w")
    assert open_window(stored_with.over(int), store, "w").position == 1


def test_another_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    with monkeypatch.context() as newer:
        newer.setattr("holdfast.windows.stores.saved.FORMAT", 3)
        open_window(m.sum, store, "w").checkpoint()
    with pytest.raises(StoreError, match="stored in format 3, this version of Holdfast reads 1"):
        open_window(m.sum, store, "w")


def test_a_damaged_root_is_reported() -> None:
    store = MemoryStore()
    open_window(m.sum, store, "w").checkpoint()
    for record in (b"", b"\x01", b"\x07 another version", b"\x01\0\0\0\0payload"):
        store.write({root_key("w"): record}, [])
        with pytest.raises(StoreCorruptError, match="window 'w': its root cannot be read"):
            open_window(m.sum, store, "w")
