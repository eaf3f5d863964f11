"""How long the fastest replica is not read while copies wait for the others."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.gates import Vote
from holdfast.pipeline.machine.messages import Gap, Stable, Unsubscribe
from holdfast.pipeline.machine.throttle import Rest
from holdfast.pipeline.machine.vote_subscription import HEAVY, Comparison, VoteIntake
from tests.pipeline.machine.vote_rig import GRACE, NAMES, SIZE, Talk, bucket, buckets

GAP = 1000


def reader_with(*, room: int = 32, rest: Rest = Rest.DISTANCE, at_once: int = 1) -> Talk:
    """x, y and z have published a bucket every `GAP`, so many at once, up to bucket 8."""
    comparison = Comparison("vote", room=room, rest=rest)
    reader = Talk(comparison.intake("s", NAMES, size=SIZE, grace=GRACE))
    reader.look()
    for first in range(0, 8, at_once):
        for name in ("x", "y", "z"):
            reader.say(name, buckets(*range(first, first + at_once)), first * GAP)
    assert reader.intake.position == 8 * SIZE
    return reader


def rest_of(reader: Talk, now: int) -> int:
    return reader.intake._sources["w"].rests_until - now


@pytest.mark.parametrize("at_once", [1, 4])
def test_its_distance_times_the_gap_of_the_slow_one(at_once: int) -> None:
    reader, now = reader_with(at_once=at_once), 9 * GAP
    reader.say("w", buckets(*range(8)), now)
    reader.say("w", buckets(*range(8, 41)), now)
    assert rest_of(reader, now) == (41 - 8) * GAP
    assert isinstance(reader.heard[-1][1], Unsubscribe)
    reader.look(now + (41 - 8) * GAP - 1)
    assert "w" not in reader.asked
    reader.look(now + (41 - 8) * GAP)
    assert reader.asked["w"].after == 41 * SIZE


def test_one_gap_of_the_slow_one_for_each_bucket_to_be_as_fast_as_that() -> None:
    reader, now = reader_with(rest=Rest.RATE), 9 * GAP
    reader.say("w", buckets(*range(40)), now)
    assert rest_of(reader, now) < 0, "no more than 32 wait"
    reader.say("w", buckets(40), now)
    assert rest_of(reader, now) == GAP
    reader.look(now + GAP)
    reader.say("w", buckets(41, 42, 43), now + GAP)
    assert rest_of(reader, now + GAP) == 3 * GAP


def test_one_that_has_given_nothing_need_not_rest() -> None:
    reader, now = reader_with(room=0, rest=Rest.RATE), 9 * GAP
    for name in ("x", "y"):
        reader.say(name, buckets(8), now)
    reader.say("w", [Gap(9 * SIZE)], now)
    assert rest_of(reader, now) < 0


@pytest.mark.parametrize("room", [0, 3, 40])
def test_so_many_copies_may_wait_without_a_rest(room: int) -> None:
    reader, now = reader_with(room=room), 9 * GAP
    reader.say("w", buckets(*range(8 + room)), now)
    assert rest_of(reader, now) < 0
    assert reader.intake.held == room
    reader.say("w", buckets(8 + room), now)
    assert rest_of(reader, now) == (room + 1) * GAP


def test_one_that_says_it_keeps_nothing_before_the_far_future_is_not_the_fastest() -> None:
    reader, now = reader_with(), 9 * GAP
    reader.say("z", [Gap(2**62)], now)
    reader.say("w", buckets(*range(41)), now)
    assert rest_of(reader, now) == (41 - 8) * GAP


def test_less_room_than_none_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="room: is -1; give 0 or more copies"):
        Comparison("vote", room=-1)


class Large:
    """A value of a quarter of what may wait."""

    size = HEAVY // 4

    def __repr__(self) -> str:
        return "large"


def test_who_has_given_its_bucket_waits_while_many_bytes_do() -> None:
    intake = VoteIntake(
        "s",
        lambda first: Vote(NAMES, first=first),
        NAMES,
        size=SIZE,
        grace=GRACE,
        enough=3,
        quorum=3,
        room=1000,
    )
    talk = Talk(intake)
    talk.look()
    large = [[bucket(number, Large())] for number in range(40)]
    for name in ("w", "x"):
        for [segment] in large:
            talk.say(name, [Stable(segment)])
    assert intake.held_bytes <= HEAVY + Large.size + 1000
    assert not talk.released
    # The one that the decision waits for is read, whatever waits.
    for now in range(1, 200):
        for name in ("w", "x", "y"):
            at = intake.place_of(name) // SIZE
            if at < len(large):
                talk.say(name, [Stable(large[at][0])], now)
            talk.look(now)
        assert intake.held_bytes <= HEAVY + 3 * (Large.size + 1000)
    assert [segment.start // SIZE for segment in talk.released] == list(range(40))
    assert intake.held_bytes == 0
