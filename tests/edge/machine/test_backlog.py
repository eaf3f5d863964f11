"""What a sensor keeps: the vectors of the digest (§3.7), and a list as a model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.edge.machine.backlog import Backlog
from holdfast.edge.machine.messages import Gap


def filled(capacity: int, last: int) -> Backlog:
    backlog = Backlog(capacity)
    for offset in range(1, last + 1):
        backlog.append(np.array([offset * 10]), np.array([float(offset)]), None)
    return backlog


def test_the_oldest_makes_room() -> None:
    backlog = filled(2, 3)
    assert (backlog.first, backlog.next, len(backlog)) == (2, 4, 2)
    assert backlog.read(2, 10).values.tolist() == [2.0, 3.0]


def test_the_tail_after_what_was_replicated() -> None:
    assert filled(10, 5).read(3, 10).values.tolist() == [3.0, 4.0, 5.0]


@pytest.mark.parametrize(
    ("first", "asked", "lost"),
    [(100, 100, None), (101, 100, None), (102, 100, 1), (201, 100, 100), (201, 0, 200)],
)
def test_events_lost(first: int, asked: int, lost: int | None) -> None:
    """max(0, s_o - r_o - 1), and not + 1 as the document has it."""
    backlog = filled(300, 250)
    backlog.drop(first - 1)
    gone = backlog.gone(asked, 0)
    assert gone == ([] if lost is None else [Gap(first - 1, lost, (first - 1) * 10)])


def test_what_nobody_needs_any_more_is_not_lost() -> None:
    backlog = filled(300, 250)
    backlog.drop(50)
    backlog.drop(80)
    assert backlog.gone(0, since=501) == [Gap(50, 0, 500), Gap(80, 30, 800)]
    assert backlog.gone(0, since=801) == [Gap(50, 0, 500), Gap(80, 0, 800)]
    assert backlog.gone(60, since=501) == [Gap(80, 20, 800)]


def test_only_what_is_needed_of_events_that_left_together_is_lost() -> None:
    backlog = Backlog(1_000)
    times = np.arange(400) * 1_000 + 50_000
    backlog.append(times, times.astype(float), None)
    backlog.drop(400)
    lost = {
        since: sum(gap.count for gap in backlog.gone(0, since))
        for since in range(0, 500_000, 100_000)
    }
    assert lost == {0: 400, 100_000: 350, 200_000: 250, 300_000: 150, 400_000: 50}
    assert backlog.gone(380, 400_000) == [Gap(400, 20, 449_000)]
    assert [gap.upto for gap in backlog.gone(0, 0)] == [50, 150, 250, 350, 400]


def test_of_events_out_of_order_none_that_is_needed_is_forgotten() -> None:
    backlog = Backlog(1_000)
    times = np.array([90_000, 210_000, 110_000, 190_000, 205_000, 301_000, 299_000])
    backlog.append(times, times.astype(float), None)
    backlog.drop(7)
    for since in (0, 100_000, 200_000, 300_000):
        assert sum(gap.count for gap in backlog.gone(0, since)) >= (times >= since).sum()
    assert sum(gap.count for gap in backlog.gone(0, 302_000)) == 0


@given(
    st.integers(1, 20),
    st.lists(st.one_of(st.integers(1, 20).map(lambda n: ("add", n)),
                       st.integers(0, 60).map(lambda n: ("drop", n))), max_size=30),
)  # fmt: skip
def test_like_a_list(capacity: int, steps: list[tuple[str, int]]) -> None:
    backlog, kept, last = Backlog(capacity), [], 0
    for step, number in steps:
        if step == "add":
            count = min(number, capacity)
            new = list(range(last + 1, last + count + 1))
            last += count
            times, keys = np.array(new), np.empty(count, object)
            keys[:] = [str(each) for each in new]
            backlog.append(times, times.astype(float), keys)
            kept = (kept + new)[-capacity:]
        else:
            backlog.drop(number)
            kept = [each for each in kept if each > number]
        assert len(backlog) == len(kept)
        assert backlog.room == capacity - len(kept)
        if kept:
            piece = backlog.read(backlog.first, 1_000)
            assert piece.times.tolist() == kept
            assert piece.keys == [str(each) for each in kept]
            assert backlog.time(kept[-1]) == kept[-1]
