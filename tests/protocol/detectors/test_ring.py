"""The ring: who pings whom, and when the next one is taken for dead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.detectors import RingPing, successor

RING = ["a", "b", "c", "d"]
PERIOD, TIMEOUT = 100, 250


def run(ping: RingPing, start: int, end: int, living: set[str]) -> list[tuple[int, str]]:
    """Wakes it whenever it is due; the living answer at once."""
    pings = []
    now = start
    while (due := ping.due(now)) is not None and due < end:
        now = max(now, due)
        for peer in ping.wake(now):
            pings.append((now, peer))
            if peer in living:
                ping.pong(peer, now)
    return pings


@given(size=st.integers(1, 6), place=st.integers(0, 5), dead=st.sets(st.integers(0, 5), max_size=6))
def test_the_successor_is_the_next_living_one_and_never_oneself(
    size: int, place: int, dead: set[int]
) -> None:
    ring = [str(n) for n in range(size)]
    me = str(place % size)
    found = successor(ring, me, map(str, dead))
    others = [ring[(place + step) % size] for step in range(1, size)]
    living = [other for other in others if int(other) not in dead]
    assert found == (living[0] if living else None)


def test_the_next_one_is_pinged_every_period_and_lives_while_it_answers() -> None:
    ping = RingPing("a", RING, PERIOD, TIMEOUT)
    pings = run(ping, 0, 1000, {"b"})
    assert pings == [(now, "b") for now in range(0, 1000, PERIOD)]
    assert ping.dead == frozenset()


def test_two_dead_in_a_row_are_found_one_after_the_other() -> None:
    ping = RingPing("a", RING, PERIOD, TIMEOUT)
    pings = run(ping, 0, 1000, {"d"})
    assert ping.dead == {"b", "c"}
    assert ping.watched == "d"
    assert pings[:4] == [(0, "b"), (100, "b"), (200, "b"), (250, "c")]
    assert (500, "d") in pings


def test_of_two_the_survivor_does_not_ping_itself() -> None:
    ping = RingPing("a", ["a", "b"], PERIOD, TIMEOUT)
    run(ping, 0, 1000, set())
    assert ping.dead == {"b"}
    assert ping.watched is None
    assert ping.due(1000) is None
    assert ping.wake(5000) == []


def test_a_late_answer_and_a_reinstatement_bring_one_back() -> None:
    ping = RingPing("a", RING, PERIOD, TIMEOUT)
    run(ping, 0, 400, {"c"})
    assert ping.watched == "c"
    ping.pong("b", 410)
    assert ping.watched == "b"
    assert ping.wake(410) == ["b"]
    ping.down("b")
    ping.alive("b")
    assert ping.dead == frozenset()


def test_what_others_say_counts_and_what_they_say_of_oneself_does_not() -> None:
    ping = RingPing("a", RING, PERIOD, TIMEOUT)
    ping.down("c")
    ping.down("a")
    ping.down("stranger")
    assert ping.dead == {"c"}
    run(ping, 0, 1000, {"d"})
    assert ping.watched == "d"


def test_who_was_stopped_itself_gives_the_other_another_chance() -> None:
    ping = RingPing("a", RING, PERIOD, TIMEOUT)
    assert ping.wake(0) == ["b"]
    assert ping.wake(100_000) == ["b"]
    assert ping.dead == frozenset()


@pytest.mark.parametrize(
    ("me", "ring", "period"), [("x", RING, 1), ("a", ["a", "b", "b"], 1), ("a", RING, 0)]
)
def test_what_makes_no_sense_is_refused(me: str, ring: list[str], period: int) -> None:
    with pytest.raises(InvalidArgumentError, match="ring: "):
        RingPing(me, ring, period, TIMEOUT)
