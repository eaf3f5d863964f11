"""The time of a stream with times of its own, against a plain calculation."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from holdfast.protocol.event_clock import EventClock

SIZE = 10


@given(
    st.lists(
        st.tuples(
            st.integers(0, 60), st.none() | st.integers(-50, 80), st.sampled_from([0, 0, 0, 500])
        ),
        max_size=60,
    ),
    st.integers(0, 30),
    st.sampled_from([math.inf, 1, 25, 100]),
)
def test_rows_and_silence_move_it(
    happens: list[tuple[int, int | None, int]], lateness: int, idle: float
) -> None:
    """After some time either a row comes, of a time around that of the machine, or it is woken."""
    clock = EventClock(SIZE, lateness, idle)
    now, passed, heard, newest, closed = 1000, 0, 0, 0, 0
    for waits, row, step in happens:
        now, passed = now + waits + step, passed + waits
        due = clock.next_wake(now, passed)
        if row is not None:
            heard = clock.heard = passed
            if now + row >= closed:
                newest = max(newest, now + row)
                clock.see(now + row)
            clock.close()
        else:
            moved = clock.wake(now, passed)
            if passed - heard >= idle:
                newest = max(newest, now - int(idle))
            assert moved == (due <= now)
        before, closed = closed, max(closed, (newest - lateness) // SIZE * SIZE)
        assert clock.closed == closed >= before
        # Woken when it says so, it has always something to do; else it would be woken for ever.
        assert clock.next_wake(now, passed) > now or not clock.is_idle(passed)
