"""The time of a stream with times of its own, against a plain calculation."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from holdfast.pipeline.machine.source import EventClock

SIZE = 10
LOOKS = 70


@given(
    st.lists(
        st.tuples(
            st.integers(0, 60), st.none() | st.integers(-50, 80), st.sampled_from([0, 0, 0, 500])
        ),
        max_size=60,
    ),
    st.integers(0, 30),
    st.sampled_from([math.inf, 1, 25, 100]),
    st.integers(0, 1000),
)
def test_rows_and_silence_move_it(
    happens: list[tuple[int, int | None, int]], lateness: int, idle: float, ahead: int
) -> None:
    """After some time either a row comes, of a time around that of those who make them, or it is
    woken. The machine's clock is ahead of theirs, and more so with each step."""
    clock = EventClock(SIZE, lateness, idle, looks=LOOKS)
    true, passed, heard, newest, came, closed = 1000, 0, 0, 0, None, 0
    clock.hear(passed)
    for waits, row, step in happens:
        true, passed, ahead = true + waits, passed + waits, ahead + step
        now = true + ahead
        due = clock.next_wake(now, passed)
        moment = newest
        if row is not None:
            heard = passed
            clock.hear(passed)
            if true + row >= newest:
                moment = newest = true + row
                came = passed
            clock.see(true + row, passed)
            clock.close()
        else:
            moved = clock.wake(now, passed)
            if passed - heard >= idle:
                says = now if came is None else min(now, newest + passed - came)
                moment = max(newest, says - int(idle))
            assert moved == (due <= now)
        before, closed = closed, max(closed, (moment - lateness) // SIZE * SIZE)
        assert clock.closed == closed >= before
        # Woken when it says so, it has always something to do; else it would be woken for ever.
        assert clock.next_wake(now, passed) > now or not clock.is_idle(passed)


HOUR, SECOND = 3_600_000_000, 1_000_000


def silent_for(clock: EventClock, seconds: int, ahead: int = 0) -> None:
    """Nothing comes; somebody looks every second."""
    start = clock.heard
    for passed in range(start, start + seconds * SECOND + 1, SECOND):
        clock.next_wake(passed + ahead, passed)
        clock.wake(passed + ahead, passed)


def test_a_machine_whose_clock_is_ahead_makes_no_row_late() -> None:
    clock = EventClock(SECOND, idle=60 * SECOND)
    clock.hear(100 * SECOND)
    clock.see(100 * SECOND, 100 * SECOND)
    silent_for(clock, 90, ahead=HOUR)
    assert clock.closed == 130 * SECOND


def test_rows_of_the_past_make_the_time_of_the_past() -> None:
    """A file of last year, and a pause in it."""
    clock = EventClock(SECOND, idle=60 * SECOND)
    clock.hear(HOUR)
    clock.see(100 * SECOND, HOUR)
    silent_for(clock, 90)
    assert clock.closed == 130 * SECOND


def test_without_rows_since_the_start_the_machines_clock_is_all_there_is() -> None:
    clock = EventClock(SECOND, idle=60 * SECOND, closed=SECOND)
    clock.hear(HOUR)
    silent_for(clock, 59)
    assert clock.closed == SECOND
    silent_for(clock, 90)
    assert clock.closed == HOUR + 30 * SECOND


def test_one_late_row_tells_that_the_machines_clock_is_ahead() -> None:
    clock = EventClock(SECOND, idle=60 * SECOND)
    clock.hear(0)
    silent_for(clock, 60, ahead=HOUR)
    assert clock.closed == HOUR
    clock.hear(60 * SECOND)
    clock.see(60 * SECOND, 60 * SECOND)
    silent_for(clock, 90, ahead=HOUR)
    assert clock.closed == HOUR


def test_a_process_that_was_frozen_has_not_heard_silence() -> None:
    """Rows may wait at its door: they come before anything is closed."""
    clock = EventClock(SECOND, idle=60 * SECOND)
    clock.hear(0)
    clock.see(SECOND, 0)
    thawed = 600 * SECOND
    assert clock.next_wake(thawed, thawed) == thawed + 60 * SECOND
    assert not clock.wake(thawed, thawed)
    assert not clock.is_idle(thawed)
