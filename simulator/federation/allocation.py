"""Whether load is where it should be: definitions 9 and 13, for one who sees all of it."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import InvalidArgumentError


def is_acceptable(loads: Sequence[float], capacities: Sequence[float], spare: float = 0.0) -> bool:
    """Nobody above capacity if there is room for all, nobody below if there is not.

    Whether there is room is judged `spare` below capacities: at the lowest price of the contracts.
    """
    _check(loads, capacities)
    pairs = list(zip(loads, capacities, strict=True))
    if sum(loads) <= sum(capacity - spare for capacity in capacities):
        return all(load <= capacity for load, capacity in pairs)
    return all(load >= capacity for load, capacity in pairs)


def is_nearly_acceptable(
    loads: Sequence[float], capacities: Sequence[float], diameter: int, task: float = 1.0
) -> bool:
    """If overloaded: nobody has so many tasks too few as contracts lie between any two."""
    _check(loads, capacities)
    if sum(loads) <= sum(capacities):
        return is_acceptable(loads, capacities)
    return all(
        load > capacity - diameter * task for load, capacity in zip(loads, capacities, strict=True)
    )


def _check(loads: Sequence[float], capacities: Sequence[float]) -> None:
    if len(loads) != len(capacities):
        raise InvalidArgumentError(f"{len(loads)} loads of {len(capacities)} participants")
