"""Plausible mistakes of a user: each gets an error that names the argument, and changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.windows import (
    Amta,
    Daba,
    LogMta,
    MemoryStore,
    Monoid,
    Recalculation,
    TwoStacks,
    aggregator,
    open_window,
    policies,
)
from holdfast.windows import monoids as m
from holdfast.windows.fast import FastAmta

WINDOWS = [Amta, Daba, FastAmta, LogMta, Recalculation, TwoStacks]


@pytest.mark.parametrize("make", [*WINDOWS, aggregator])
@pytest.mark.parametrize("monoid", ["sum", m.top_k, {"n": m.count}, None])
def test_a_window_wants_a_monoid(make: Any, monoid: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^monoid: is "):
        make(monoid)


@pytest.mark.parametrize("make", WINDOWS)
@pytest.mark.parametrize("policy", [5, policies.last, lambda window: True, None])
def test_sliding_wants_a_policy(make: Any, policy: Any) -> None:
    window = make(m.sum)
    window.insert(1.0)
    for slide in (window.slide, lambda wrong: window.roll([2.0], wrong)):
        with pytest.raises(InvalidArgumentError, match=r"^policy: is "):
            slide(policy)
    assert (len(window), window.result()) == (1, 1.0)


@pytest.mark.parametrize("make", WINDOWS)
def test_values_and_policy_in_the_wrong_order(make: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^policy: is "):
        make(m.sum).roll(policies.last(2), [1.0, 2.0])


@pytest.mark.parametrize("part", ["lift", "combine", "lower"])
def test_a_monoid_is_made_of_functions(part: str) -> None:
    functions: dict[str, Any] = {"lift": str, "combine": str, "lower": str, part: 1}
    with pytest.raises(InvalidArgumentError, match=f"^Monoid: {part} is 1"):
        Monoid("wrong", identity="", **functions)


def test_over_wants_a_function_or_a_name() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^over: read is 5"):
        m.sum.over(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: policies.Policy(), "window_invariant, eviction_invariant or both"),
        (lambda: policies.Policy(window_invariant=5), "window_invariant is 5"),
        (lambda: policies.Policy(eviction_invariant="x"), "eviction_invariant is 'x'"),
        (lambda: policies.two_argument("x"), "rule is 'x'"),
        (lambda: policies.time_span("60"), "length is '60'"),
        (lambda: policies.time_span(None), "length is None"),
        (lambda: policies.time_span(0), "length is 0"),
        (lambda: policies.value_bound(None), "limit is None"),
        (lambda: policies.value_bound(float("nan")), "limit is nan"),
        (lambda: policies.last("3"), "'3' is no integer"),
        (lambda: policies.hopping(3, 4), "hop is 4"),
    ],
)
def test_a_policy_that_cannot_work_is_refused_when_it_is_made(make: Any, said: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        make()
    assert said in str(caught.value)


def test_opening_a_window_wants_monoid_and_store_in_this_order() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^monoid: is "):
        open_window(MemoryStore(), m.sum, "w")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"^store: is 'folder'"):
        open_window(m.sum, "folder", "w")  # type: ignore[arg-type]
