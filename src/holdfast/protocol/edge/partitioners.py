"""Which partition each event of a sensor goes to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidArgumentError

__all__ = [
    "Choice",
    "Partitioner",
    "by_hash",
    "by_primary",
    "by_random",
    "by_round_robin",
    "partitioner",
]

Choice = slice | NDArray[np.intp]
"""Which of some events; slices have a start and a step."""

Partitioner = Callable[[int, NDArray[Any] | None, int], Sequence[Choice]]
"""From the number of events taken so far, the keys of those that come, if any, and their number:
which of them each partition gets, in order."""


def by_round_robin(places: int) -> Partitioner:
    """One after the other."""

    def choose(taken: int, keys: NDArray[Any] | None, count: int) -> Sequence[Choice]:
        return [slice((place - taken) % places, count, places) for place in range(places)]

    return choose


def by_hash(places: int) -> Partitioner:
    """All events of a key to the same one, the same for all sensors and at all times; those without
    a key to one of them."""
    known: dict[Any, int] = {}

    def place(key: Any) -> int:
        found = known.get(key)
        if found is None:
            if len(known) >= 100_000:
                known.clear()
            found = known[key] = crc32(repr(key).encode()) % places
        return found

    def choose(taken: int, keys: NDArray[Any] | None, count: int) -> Sequence[Choice]:
        if keys is None:
            chosen = place(None)
            return [slice(0, count if each == chosen else 0, 1) for each in range(places)]
        return _divided(np.fromiter((place(key) for key in keys), np.intp, count), places)

    return choose


def by_random(places: int, rng: np.random.Generator) -> Partitioner:
    def choose(taken: int, keys: NDArray[Any] | None, count: int) -> Sequence[Choice]:
        return _divided(rng.integers(0, places, count), places)

    return choose


def by_primary(places: int, place: int) -> Partitioner:
    """All to one."""

    def choose(taken: int, keys: NDArray[Any] | None, count: int) -> Sequence[Choice]:
        return [slice(0, count if each == place else 0, 1) for each in range(places)]

    return choose


def _divided(chosen: NDArray[np.integer[Any]], places: int) -> Sequence[Choice]:
    return [np.flatnonzero(chosen == place) for place in range(places)]


def partitioner(
    name: str, sensor: str, partitions: Sequence[int], rng: np.random.Generator | None
) -> Partitioner:
    """By the name it has in a configuration."""
    places = len(partitions)
    match name:
        case "round-robin":
            return by_round_robin(places)
        case "hash":
            return by_hash(places)
        case "random":
            if rng is None:
                raise InvalidArgumentError("events are divided at random: give the sensor an rng")
            return by_random(places, rng)
        case "primary":
            return by_primary(places, crc32(sensor.encode()) % places)
        case _:
            raise InvalidArgumentError(
                f"partitioner {name!r}: expected round-robin, hash, random or primary"
            )
