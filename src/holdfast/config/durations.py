"""Durations in settings: whole microseconds, written as intervals."""

from __future__ import annotations

from typing import Final

_UNITS: Final = {
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "us": 1,
}


class Span(int):
    """Microseconds: an int to calculate with, `500ms` when printed."""

    def __str__(self) -> str:
        if self == 0:
            return "0s"
        unit = next(name for name, size in _UNITS.items() if self % size == 0)
        return f"{int(self) // _UNITS[unit]}{unit}"

    def __repr__(self) -> str:
        return f"'{self}'"
