"""Approximate windows in a store: they outlive their process and an outage of the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidArgumentError, StoreError
from holdfast.windows import MemoryStore, Monoid, Policy, open_window
from holdfast.windows import monoids as m
from holdfast.windows.approximation import (
    ApproximateWindow,
    block_maxima,
    hops,
    max_error,
    max_leaves,
)
from holdfast.windows.policies import last
from holdfast.windows.stores.store import Key, KeyRange, Store
from tests.windows.counting import CONCATENATION

AnyWindow = ApproximateWindow[Any, Any, Any]


def stored(
    monoid: Monoid[Any, Any, Any],
    methods: Any,
    store: Store,
    *,
    buffer: int = 16,
    cache: int = 8,
) -> AnyWindow:
    opened = partial(open_window, store=store, window="w", buffer=buffer, cache=cache)
    return ApproximateWindow(monoid, methods, open_amta=opened)


def inside(window: AnyWindow) -> Any:
    return window.sizes(), list(window.leaves()), window.saved(), window.position


# Restarts


METHODS: list[tuple[Monoid[Any, Any, Any], Any]] = [
    (m.sum, max_error(absolute=40)),
    (m.sum, max_error("5%")),
    (m.mean, [max_error("2%"), hops()]),
    (m.max, block_maxima(5)),
]


class Killed(BaseException):
    """The process ends here."""


class Killer:
    """A store at whose `fatal`-th call the process ends, before the call or after it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.fatal: tuple[int, bool] | None = None
        self.calls = 0

    def read(self, keys: Sequence[Key]) -> list[bytes | None]:
        return self._call(lambda: self.store.read(keys))

    def write(self, puts: Mapping[Key, bytes], deletes: Sequence[KeyRange]) -> int:
        return self._call(lambda: self.store.write(puts, deletes))

    def epochs(self, window: str) -> list[int]:
        return self._call(lambda: self.store.epochs(window))

    def _call(self, call: Callable[[], Any]) -> Any:
        self.calls += 1
        fatal, after = self.fatal or (0, False)
        if self.calls == fatal and not after:
            raise Killed
        answer = call()
        if self.calls == fatal:
            raise Killed
        return answer


def slide_each(window: AnyWindow, value: float, policy: Policy) -> Any:
    window.insert(value)
    window.slide(policy)
    return window.result()


def evict_each(window: AnyWindow, value: float, policy: Policy) -> Any:
    window.insert(value)
    # Depends on the update alone: one that is fed again evicts what it evicted before.
    if window.position % 7 == 0 and len(window) > 60:
        window.evict(6)
    return window.result()


@pytest.mark.parametrize(("monoid", "methods"), METHODS, ids=lambda given: str(given)[:30])
@pytest.mark.parametrize("step", [slide_each, evict_each])
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32), kills=st.lists(st.tuples(st.integers(1, 60), st.booleans())))
def test_a_window_killed_anywhere_goes_on_as_if_it_had_not_been(
    monoid: Any, methods: Any, step: Any, seed: int, kills: list[tuple[int, bool]]
) -> None:
    random = Random(seed)
    values = [20 + random.gauss(0, 3) for _ in range(400)]
    policy, oracle = last(75), ApproximateWindow(monoid, methods)
    expected = [(step(oracle, value, policy), oracle.guarantee()) for value in values]
    store = Killer(MemoryStore())
    window = stored(monoid, methods, store)
    position = 0
    while position < len(values):
        try:
            while position < len(values):
                answer = step(window, values[position], policy)
                assert (answer, window.guarantee()) == expected[position]
                position += 1
                assert window.position == position
                if kills:
                    store.fatal = store.calls + kills[-1][0], kills.pop()[1]
        except Killed:
            store.fatal = None
            window = stored(monoid, methods, store)
            assert position - 2 * 16 - 1 <= window.position <= position
            position = window.position
    assert inside(window) == inside(oracle)


def test_a_checkpoint_makes_everything_durable() -> None:
    store = MemoryStore()
    window = stored(CONCATENATION, max_error(absolute=9, of="count"), store)
    window.roll("abcdefghijklmnopqrstuvwxyz" * 9, last(100))
    window.evict(3)
    window.checkpoint()
    again = stored(CONCATENATION, max_error(absolute=9, of="count"), store)
    assert inside(again) == inside(window)
    assert again.position == 26 * 9


def test_a_fork_that_outlives_its_base_is_what_is_resumed() -> None:
    store = MemoryStore()
    window = stored(m.sum, max_error(absolute=9), store)
    window.roll(range(100), last(30))
    fork = window.fork()
    fork.roll(range(50), last(30))
    window.drop()
    fork.checkpoint()
    assert inside(stored(m.sum, max_error(absolute=9), store)) == inside(fork)


def test_an_emptied_window_resumes_empty() -> None:
    store = MemoryStore()
    window = stored(m.sum, max_error(absolute=9), store)
    window.roll(range(100), last(30))
    window.evict(len(window))
    window.checkpoint()
    again = stored(m.sum, max_error(absolute=9), store)
    assert (len(again), again.position) == (0, 100)


def test_a_window_of_other_methods_is_refused() -> None:
    store = MemoryStore()
    stored(m.sum, max_error(absolute=9), store).checkpoint()
    with pytest.raises(StoreError, match=r"stored with max_error.*another name"):
        stored(m.sum, max_error(absolute=8), store)


def test_a_window_that_was_not_approximate_is_refused_and_the_other_way_round() -> None:
    store = MemoryStore()
    open_window(m.sum, store, "w").checkpoint()
    with pytest.raises(StoreError, match=r"stored with the monoid 'sum', not 'sum.in buckets"):
        stored(m.sum, max_leaves(9), store)
    other = MemoryStore()
    stored(m.sum, max_leaves(9), other).checkpoint()
    with pytest.raises(StoreError, match="in buckets"):
        open_window(m.sum, other, "w")


def test_buckets_that_nothing_accompanies_are_refused() -> None:
    store = MemoryStore()

    def filled(monoid: Any) -> Any:
        amta = open_window(monoid, store, "w")
        amta.insert(5)
        return amta

    with pytest.raises(InvalidArgumentError, match="holds 1 buckets that this one knows nothing"):
        ApproximateWindow(m.sum, max_leaves(9), open_amta=filled)
