"""A sensor's process: events that stay old are told from old ones that are read."""

from __future__ import annotations

import pytest

from holdfast.edge.sensing import BEHIND, Pace

STEP = 200_000
MINUTE = 60_000_000


@pytest.mark.parametrize(
    ("speed", "behind", "is_told"),
    [
        (1.0, 10 * MINUTE, True),
        (0.5, 10 * MINUTE, True),
        (1.2, 10 * MINUTE, True),
        (2.0, 10 * MINUTE, False),
        (100.0, 1_440 * MINUTE, False),
        (1.0, BEHIND // 2, False),
    ],
)
def test_events_that_stay_behind_are_told(speed: float, behind: int, is_told: bool) -> None:
    """`speed`: of the times of events, against the clock."""
    pace = Pace()
    found = [
        pace.is_held(now, max(0, behind - int(now * (speed - 1)))) for now in range(0, MINUTE, STEP)
    ]
    assert any(found) is is_told


def test_a_short_delay_is_not_told() -> None:
    pace = Pace()
    for now in range(0, MINUTE, STEP):
        assert not pace.is_held(now, 2 * BEHIND if now % BEHIND < BEHIND // 2 else 0)
