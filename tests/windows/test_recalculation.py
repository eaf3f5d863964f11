"""Recalculation: what its slide evicts is the definition the other algorithms are held to."""

from __future__ import annotations

from holdfast.windows import Policy, Recalculation
from holdfast.windows.policies import last, value_bound
from tests.windows.counting import CONCATENATION, SUM, Counted


def test_aggregates_anew_for_each_result() -> None:
    counted = Counted(CONCATENATION)
    window = Recalculation(counted.monoid)
    for value in "abcd":
        window.insert(value)
    assert counted.spent() == 0
    assert [window.result(), window.result()] == ["abcd", "abcd"]
    assert counted.spent() == 6


def test_slide_evicts_the_longer_of_what_the_two_invariants_ask_for() -> None:
    for keep, go, left in [(3, 1, "cde"), (4, 3, "de"), (5, 0, "abcde"), (0, 0, "e"), (9, 9, "e")]:
        window = Recalculation(CONCATENATION)
        for value in "abcde":
            window.insert(value)
        window.slide(
            Policy(
                window_invariant=lambda window, keep=keep: window.size <= keep,
                eviction_invariant=lambda candidate, _after, _before, go=go: candidate.size <= go,
            )
        )
        assert window.result() == left


def test_slide_leaves_an_empty_window_alone() -> None:
    window = Recalculation(SUM)
    assert window.slide(value_bound(1)) == 0
    assert window.slide(last(1)) == 0
    assert window.result() == 0
