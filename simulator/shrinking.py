"""Making a schedule of faults that fails smaller, so that a person sees what it takes.

Faults are left out first, by delta debugging; what remains is then begun later and ended earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from simulator.scenario import Scenario

Fails = Callable[[Scenario], bool]

FINEST: Final = 20_000
"""Spans are not cut finer than this."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A smaller scenario that fails, and where its faults come from."""

    scenario: Scenario
    kept: tuple[int, ...]
    """The numbers of its faults in the scenario that was given; these fail unshortened too."""


def shrink(scenario: Scenario, fails: Fails) -> Shrunk:
    """The scenario with as few and as short faults as can be found, one that still `fails`.

    No single fault can be left out of `kept`. The scenario given is taken to fail.
    """
    faults = scenario.faults

    def fails_with(numbers: Sequence[int]) -> bool:
        return fails(scenario.with_faults([faults[number] for number in numbers]))

    kept = _leave_out(range(len(faults)), fails_with)
    smaller = scenario.with_faults([faults[number] for number in kept])
    for place in range(len(kept)):
        smaller = _shorten(smaller, place, fails)
    return Shrunk(smaller, tuple(kept))


def _leave_out(numbers: Sequence[int], fails: Callable[[Sequence[int]], bool]) -> Sequence[int]:
    """Delta debugging: leave out ever smaller parts, down to single numbers."""
    if numbers and fails([]):
        return []
    parts = 2
    while len(numbers) > 1:
        size = -(-len(numbers) // parts)
        for start in range(0, len(numbers), size):
            rest = [*numbers[:start], *numbers[start + size :]]
            if rest and fails(rest):
                numbers, parts = rest, max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(numbers), 2 * parts)
    return numbers


def _shorten(scenario: Scenario, place: int, fails: Fails) -> Scenario:
    """End the fault at this place earlier, then begin it later, by halves, as far as it fails."""
    for edge in ("end", "start"):
        fault = scenario.faults[place]
        cut = (fault.end - fault.start) // 2
        while cut >= FINEST:
            fault = scenario.faults[place]
            if edge == "end":
                shorter = replace(fault, end=fault.end - cut)
            else:
                shorter = replace(fault, start=fault.start + cut)
            others = scenario.faults
            tried = scenario.with_faults([*others[:place], shorter, *others[place + 1 :]])
            if fails(tried):
                scenario = tried
            cut //= 2
    return scenario
