"""The windows in time that a user asks for: `sliding("1h", "1s")`, `tumbling("1 day")`.

Handed to `holdfast.window(..., windows=[...])`. Pure: spans are parsed, nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from holdfast.errors import InvalidArgumentError
from holdfast.intervals import parse_interval

__all__ = ["TimeWindow", "sliding", "tumbling"]

Interval = str | timedelta


@dataclass(frozen=True)
class TimeWindow:
    """Windows of `size` that start every `slide`, at `offset` after 1970-01-01, in microseconds."""

    size: int
    slide: int
    offset: int
    name: str

    @property
    def tumbles(self) -> bool:
        """Whether each window starts where the one before it ends."""
        return self.size == self.slide


def sliding(
    size: Interval, slide: Interval, *, offset: Interval = "0s", name: str | None = None
) -> TimeWindow:
    """A window of `size` that slides by `slide`; `name` tells it from others in one result."""
    size_us = _at_least("size", size, 1)
    slide_us = _at_least("slide", slide, 1)
    if slide_us > size_us:
        raise InvalidArgumentError(
            f"slide: {slide} is more than size, {size}; rows between two windows would be lost. "
            "Make slide at most size, or leave these rows out first"
        )
    offset_us = parse_interval("offset", offset)
    return TimeWindow(size_us, slide_us, offset_us, name or f"{size} every {slide}")


def tumbling(size: Interval, *, offset: Interval = "0s", name: str | None = None) -> TimeWindow:
    """Windows of `size`, one after the other."""
    return sliding(size, size, offset=offset, name=name or str(size))


def _at_least(what: str, text: Interval, least: int) -> int:
    span = parse_interval(what, text)
    if span < least:
        raise InvalidArgumentError(f"{what}: {text} is not above zero; give a span such as '1h'")
    return span
