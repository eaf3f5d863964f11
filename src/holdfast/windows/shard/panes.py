"""Panes: time as cut by windows of one or several spans.

Used by `window` and by whoever builds `Partials` for it. A pane reaches from one point where a
window starts or ends to the next, so that every window is a whole number of panes. That is one per
slide, or two where the size is no multiple of it; several spans share their panes.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from holdfast.errors import InvalidArgumentError
from holdfast.windows.values import to_integer

__all__ = ["FARTHEST", "Panes", "Span", "check_integer"]

FARTHEST: Final = 2**61
"""Times lie between minus this and this, so that no sum of them overflows."""

MOST_CUTS: Final = 100_000
"""Cuts until the pattern repeats: with more, slides share no period worth the name."""


@dataclass(frozen=True, slots=True)
class Span:
    """A window of `size` every `slide`, ending at `offset` plus multiples of `slide`."""

    size: int
    slide: int
    offset: int = 0

    def __post_init__(self) -> None:
        size = check_integer("size", self.size, at_least=1)
        slide = check_integer("slide", self.slide, at_least=1)
        if slide > size:
            raise InvalidArgumentError(
                f"slide: {slide} is more than size, {size}; rows between two windows would be "
                "lost. Make slide at most size, or leave these rows out first"
            )
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "slide", slide)
        object.__setattr__(self, "offset", check_integer("offset", self.offset) % slide)

    def next_end(self, time: int) -> int:
        """The first end of a window after `time`."""
        return self.offset + ((time - self.offset) // self.slide + 1) * self.slide


class Panes:
    """Numbers the panes of some spans; pane n is older than pane n + 1."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.spans = tuple(spans)
        if not self.spans:
            raise InvalidArgumentError("windows: is empty; give at least one")
        self.period = math.lcm(*(span.slide for span in self.spans))
        count = sum(2 * self.period // span.slide for span in self.spans)
        if count > MOST_CUTS or self.period > FARTHEST:
            slides = ", ".join(str(span.slide) for span in self.spans)
            raise InvalidArgumentError(
                f"windows: slides {slides} meet only every {self.period}; choose slides of which "
                "one divides the next, or call once for each window"
            )
        cuts = {
            (start + step) % self.period
            for span in self.spans
            for start in (span.offset, span.offset - span.size)
            for step in range(0, self.period, span.slide)
        }
        self.cuts = sorted(cuts)
        self._cuts = np.array(self.cuts, np.int64)

    def of(self, time: int) -> int:
        """The pane in which a time lies."""
        periods, rest = divmod(time, self.period)
        return periods * len(self.cuts) + bisect_right(self.cuts, rest) - 1

    def of_each(self, times: Any) -> Any:
        """The pane in which each of an array of times lies."""
        if len(self.cuts) == 1:
            return (times - self.cuts[0]) // self.period
        periods, rest = np.divmod(times, self.period)
        return periods * len(self.cuts) + np.searchsorted(self._cuts, rest, side="right") - 1

    def start(self, pane: int) -> int:
        periods, cut = divmod(pane, len(self.cuts))
        return periods * self.period + self.cuts[cut]

    def due(self, span: Span, pane: int) -> int:
        """The pane before which the first window ends that ends after `pane` starts."""
        return self.of(span.next_end(self.start(pane)))

    def first(self, span: Span, due: int) -> int:
        """The oldest pane of the window that ends before pane `due`."""
        return self.of(self.start(due) - span.size)


def check_integer(what: str, value: Any, at_least: float = -math.inf) -> int:
    number = to_integer(what, value)
    if number < at_least or abs(number) > FARTHEST:
        raise InvalidArgumentError(
            f"{what}: is {number}; it must be at least {max(at_least, -FARTHEST)} and at most 2**61"
        )
    return number
