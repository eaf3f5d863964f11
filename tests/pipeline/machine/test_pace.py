"""How long the fastest replica rests."""

from __future__ import annotations

import pytest

from holdfast.pipeline.machine.throttle import Pace, Rest


def pace(gaps: dict[str, int], *, enough: int = 3, threshold: int = 10) -> Pace:
    found = Pace(enough, threshold)
    for name, gap in gaps.items():
        for at in range(5):
            found.note(name, 1, at * gap)
    return found


GAPS = {"w": 10, "x": 100, "y": 110, "z": 120}


@pytest.mark.parametrize(
    ("replica", "counters", "held", "rest"),
    [
        # (fast - slow) times the gap of the slow one; slow is the third of four, who is needed.
        ("w", {"w": 50, "x": 12, "y": 10, "z": 9}, 11, 40 * 110),
        ("w", {"w": 50, "x": 12, "y": 10, "z": 0}, 11, 40 * 110),
        # Little waits.
        ("w", {"w": 50, "x": 12, "y": 10, "z": 9}, 10, 0),
        # Only the fastest rests.
        ("x", {"w": 50, "x": 12, "y": 10, "z": 9}, 11, 0),
        # They are together.
        ("w", {"w": 50, "x": 50, "y": 50, "z": 9}, 11, 0),
    ],
)
def test_how_long(replica: str, counters: dict[str, int], held: int, rest: int) -> None:
    assert pace(GAPS).rest(replica, counters, held) == rest


def test_nobody_rests_for_one_of_whom_nothing_is_known() -> None:
    assert pace({"w": 10}).rest("w", {"w": 50, "x": 0, "y": 0, "z": 0}, 100) == 0


def test_where_one_is_enough_nobody_waits_for_others() -> None:
    counters = {"w": 50, "x": 12, "y": 10, "z": 9}
    assert pace(GAPS, enough=1).rest("w", counters, 100) == 0


def test_the_mean_is_of_the_newest() -> None:
    found = Pace(1, 0)
    for at in range(100):
        found.note("w", 1, at * 1000)
    for at in range(40):
        found.note("w", 1, 100_000 + at * 10)
    assert found.gap("w") == 10


@pytest.mark.parametrize("together", [1, 5, 32, 200])
def test_buckets_that_come_together_have_come_one_after_another(together: int) -> None:
    found = Pace(1, 0)
    for at in range(0, 2000, together):
        found.note("w", together, at * 7)
    assert found.gap("w") == 7
    assert len(found._arrivals["w"]) <= 40
    found.note("w", 0, 10**9)
    assert found.gap("w") == 7


def test_what_came_in_one_piece_says_nothing_about_the_time_between() -> None:
    found = Pace(1, 0)
    found.note("w", 32, 500)
    assert found.gap("w") == 0


@pytest.mark.parametrize(("came", "rest"), [(1, 110), (4, 4 * 110), (100, 40 * 110)])
def test_to_be_equally_fast_it_rests_for_each_bucket_that_came(came: int, rest: int) -> None:
    found = pace(GAPS)
    found.policy = Rest.RATE
    found.note("w", came, 50)
    assert found.rest("w", {"w": 50, "x": 12, "y": 10, "z": 9}, 11) == rest


@pytest.mark.parametrize(
    ("replica", "is_ahead"), [("w", True), ("x", True), ("y", False), ("z", False)]
)
def test_who_is_needed_does_not_rest(replica: str, is_ahead: bool) -> None:
    assert pace(GAPS).is_ahead(replica, {"w": 58, "x": 57, "y": 25, "z": 25}) is is_ahead
