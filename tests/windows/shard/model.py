"""What a shard window promises, from the rows themselves, and small windows to hold against it."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import pytest

from holdfast.windows import columns as c
from holdfast.windows import monoids as m
from holdfast.windows.monoid import Monoid
from holdfast.windows.shard import Emission, ShardWindow

concat = Monoid("concat", "", lift=str, combine=lambda older, newer: older + newer, lower=str)

SPEC = {
    "n": (c.COUNT, None, m.count),
    "total": (c.SUM, "whole", m.sum),
    "average": (c.MEAN, "part", m.mean),
    "spread": (c.VARIANCE, "part", m.variance),
    "least": (c.MIN, "part", m.min),
    "newest": (c.LAST, "word", m.last),
    "words": (concat, "word", concat),
    "list": (m.collect, "whole", m.collect),
}


@dataclass
class Model:
    """What a shard window promises, from the rows themselves."""

    size: int
    slide: int
    offset: int
    watermark: float = -math.inf
    rows: list[tuple[int, int, int, int, Any, dict[str, Any]]] = field(default_factory=list)
    """Pane, call, time, position, key and values of each row that was taken."""
    calls: int = 0

    def pane(self, time: int) -> tuple[int, int]:
        """Where the pane of a time starts and ends: the nearest start or end of any window."""
        ends = (time - self.offset) // self.slide * self.slide + self.offset
        starts = (time - self.offset + self.size) // self.slide * self.slide
        starts += self.offset - self.size
        return max(ends, starts), min(ends, starts) + self.slide

    def add(self, times: list[int], keys: list[Any], columns: dict[str, list[Any]]) -> list[int]:
        late = []
        self.calls += 1
        for position, (time, key) in enumerate(zip(times, keys, strict=True)):
            start, end = self.pane(time)
            if end <= self.watermark:
                late.append(position)
            else:
                values = {name: column[position] for name, column in columns.items()}
                self.rows.append((start, self.calls, time, position, key, values))
        return late

    def advance(self, watermark: int) -> list[tuple[int, int, dict[Any, list[dict[str, Any]]]]]:
        """Start, end and rows by key of each window with rows that has ended since."""
        answers = []
        ends = {
            self.offset + number * self.slide
            for _, _, time, _, _, _ in self.rows
            for number in range(
                (time - self.offset) // self.slide,
                (time - self.offset + self.size) // self.slide + 2,
            )
        }
        for end in sorted(end for end in ends if self.watermark < end <= watermark):
            by_key: dict[Any, list[dict[str, Any]]] = {}
            ordered = sorted(self.rows, key=lambda row: row[:4])
            for _, _, time, _, key, values in ordered:
                if end - self.size <= time < end:
                    by_key.setdefault(key, []).append(values)
            if by_key:
                answers.append((end - self.size, end, by_key))
        self.watermark = watermark
        return answers

    def copy(self) -> "Model":
        return replace(self, rows=list(self.rows))


def check(emissions: list[Emission], expected: list, spec: dict[str, Any] = SPEC) -> None:
    assert [(e.start, e.end) for e in emissions] == [(start, end) for start, end, _ in expected]
    for emission, (_, _, by_key) in zip(emissions, expected, strict=True):
        keys = emission.keys.tolist()
        assert len(keys) == len(emission) == len(by_key)
        assert set(keys) == set(by_key)
        for name, (_, column, monoid) in spec.items():
            assert len(emission[name]) == len(keys)
            for key, answer in zip(keys, emission[name].tolist(), strict=True):
                values = [None if column is None else row[column] for row in by_key[key]]
                scalar = monoid.lower(reduce(monoid.combine, map(monoid.lift, values)))
                if scalar is None:
                    assert math.isnan(answer)
                elif name in ("average", "spread"):
                    assert answer == pytest.approx(scalar, rel=1e-12, abs=1e-9)
                else:
                    assert answer == scalar, (name, key)


def window_of(spec: dict[str, Any], size: int, slide: int, offset: int = 0) -> ShardWindow:
    return ShardWindow(
        {name: (monoid, column) for name, (monoid, column, _) in spec.items()},
        size,
        slide,
        offset=offset,
    )


def total(size: int, slide: int, **options: Any) -> ShardWindow:
    return ShardWindow({"total": (c.SUM, "v"), "n": (c.COUNT, None)}, size, slide, **options)


def answers(emissions: Iterable[Emission], name: str = "total") -> list[tuple[int, dict]]:
    return [(e.end, dict(zip(e.keys.tolist(), e[name].tolist(), strict=True))) for e in emissions]
