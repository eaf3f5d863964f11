"""Windows of composite streams answer what recalculation answers, however often they are saved."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.tenants.machine.documents import Aggregate, Field
from holdfast.tenants.machine.windows import (
    NotBroughtError,
    SavedWindow,
    Window,
    brought_positions,
)

FUNCTIONS = ("count", "sum", "mean", "min", "max", "range", "stddev", "first", "last")
FIELDS = {name: Field(name, "i.n") for name in FUNCTIONS}


class Kept:
    """A window that is saved and opened again, with a dictionary for a store."""

    def __init__(self, aggregate: Aggregate) -> None:
        self._aggregate = aggregate
        self.window = Window(aggregate)
        self.pairs: dict[tuple[int, int], bytes] = {}
        self.fetched = 0
        self.root = b""

    def reopen(self, leaves: int, fetches: bool = True) -> None:
        saved = self.window.saved("t/o/x", "")
        self.root = saved.root
        for level, position, body in saved.pairs:
            # What is there never changes.
            assert self.pairs.setdefault((level, position), body) == body
        for level, position in list(self.pairs):
            if position < saved.oldest >> level + 1:
                del self.pairs[level, position]
        brought = [
            (level, position, self.pairs[level, position])
            for level, first, last in brought_positions(saved.oldest, saved.levels, leaves)
            for position in range(first, last + 1)
            if (level, position) in self.pairs
        ]
        opened = SavedWindow("t/o/x", "", saved.oldest, saved.levels, saved.root, brought)
        self.window = Window(self._aggregate, opened, self._fetch if fetches else None)

    def _fetch(self, level: int, position: int) -> bytes:
        self.fetched += 1
        return self.pairs[level, position]


def recalculated(
    entered: list[tuple[int, int]], now: int, size: int | None, count: int | None
) -> list[int]:
    """By the rule in words: those beyond the count leave; then, in the order in which they came,
    those that are too old, with all before them."""
    left = entered[-count:] if count else list(entered)
    if size is not None and left:
        limit = max(now, *(at for at, _ in left)) - size
        while left and left[0][0] <= limit:
            del left[0]
    return [value for _, value in left]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "insert", "insert", "ask", "reopen"]),
        st.integers(-3, 12),
        st.integers(-100, 100),
    ),
    max_size=120,
)


@given(STEPS, st.sampled_from([None, 1, 5, 40]), st.sampled_from([None, 1, 2, 7, 30]))
@settings(max_examples=300)
def test_as_recalculated(
    steps: list[tuple[str, int, int]], size: int | None, count: int | None
) -> None:
    if size is None and count is None:
        count = 3
    kept = Kept(Aggregate("i", FIELDS, size=None if size is None else f"{size}us", count=count))
    entered: list[tuple[int, int]] = []
    clock = newest = 1000
    for what, shift, value in steps:
        if what == "insert":
            # Clocks of several sources: it may go back.
            clock += shift
            kept.window.insert(clock, [value] * len(FUNCTIONS))
            newest = max(newest, clock)
            entered.append((clock, value))
        elif what == "reopen":
            kept.reopen(leaves=max(0, shift))
        else:
            newest = max(newest, clock) + max(0, shift)
        record = kept.window.record(newest)
        # What has left does not come back when a result bears an older time.
        members = recalculated(entered, newest, size, count)
        entered = entered[len(entered) - len(members) :]
        check(record, members)


def check(record: dict[str, Any], members: list[int]) -> None:
    assert record["_count"] == len(members)
    assert record["count"] == len(members)
    assert record["sum"] == sum(members)
    if not members:
        assert "min" not in record
        return
    assert (record["min"], record["max"]) == (min(members), max(members))
    assert record["range"] == max(members) - min(members)
    assert (record["first"], record["last"]) == (members[0], members[-1])
    mean = sum(members) / len(members)
    assert record["mean"] == pytest.approx(mean)
    if len(members) > 1:
        squares = sum((each - mean) ** 2 for each in members) / (len(members) - 1)
        assert record["stddev"] == pytest.approx(squares**0.5, abs=1e-9)


@pytest.mark.parametrize("count", [100, 20_000])
def test_a_slide_costs_the_same_whatever_the_size(count: int) -> None:
    kept = Kept(Aggregate("i", {"top": Field("max", "i.n")}, count=count))
    for at in range(count):
        kept.window.insert(at, [at % 97])
    kept.reopen(leaves=66)
    written = 0
    for at in range(count, count + 1000):
        kept.window.insert(at, [at % 97])
        assert kept.window.record(at)["top"] == 96
        if at % 10 == 9:
            written += len(kept.window.saved("", "").pairs)
            kept.reopen(leaves=84)
    # All that a batch of ten needed was near the old end.
    assert kept.fetched == 0
    assert written < 1.2 * 1000
    assert len(kept.root) < 3000
    assert len(kept.pairs) < 1.2 * count


def test_much_that_leaves_at_once_needs_little_but_not_what_was_brought() -> None:
    kept = Kept(Aggregate("i", {"n": Field("sum", "i.n")}, size="5000us"))
    for at in range(5000):
        kept.window.insert(at, [1])
    kept.reopen(leaves=10, fetches=False)
    with pytest.raises(NotBroughtError):
        kept.window.record(8000)
    kept = Kept(Aggregate("i", {"n": Field("sum", "i.n")}, size="5000us"))
    for at in range(5000):
        kept.window.insert(at, [1])
    kept.reopen(leaves=10)
    assert kept.window.record(8000)["n"] == 1999
    assert kept.fetched < 30
