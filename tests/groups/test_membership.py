"""Who is alive: own suspicion, the word of others, lives."""

from __future__ import annotations

import pytest

from holdfast.groups import Heard, Members
from holdfast.groups.detectors import PhiMesh

PERIOD = 100


def make() -> Members:
    mesh = PhiMesh(["b", "c"], PERIOD, 8.0, min_deviation=20, pause=100, now=0)
    return Members(["b", "c"], mesh, doubt=2 * PERIOD, now=0)


def beat(members: Members, until: int, *names: str) -> int:
    for now in range(PERIOD, until + 1, PERIOD):
        for name in names:
            members.heard(name, 1, now)
    return until


def test_the_silent_are_suspected_once() -> None:
    members = make()
    now = beat(members, 1_000, "b", "c")
    for now in range(1_100, 3_000, PERIOD):
        members.heard("b", 1, now)
        found = members.suspects(now)
        if found:
            break
    assert found == ["c"]
    assert members.suspects(now + 1) == []
    assert members.live == ("b",)
    assert members.down == ("c",)


def test_the_word_of_another_counts_when_one_has_doubts_too() -> None:
    members = make()
    beat(members, 1_000, "b", "c")
    assert not members.told("c", 1, 1_050), "it was heard a moment ago"
    assert members.told("c", 1, 1_300)
    assert not members.told("c", 1, 1_301), "known already: nobody says it again"
    assert members.suspects(9_000) == ["b"]


def test_a_word_about_an_earlier_life_says_nothing() -> None:
    members = make()
    members.heard("c", 2, 100)
    assert not members.told("c", 1, 1_000)


@pytest.mark.parametrize(
    ("life", "is_down", "heard"),
    [(1, False, Heard.KNOWN), (1, True, Heard.BACK), (2, True, Heard.REBORN),
     (2, False, Heard.REBORN), (0, False, Heard.OLD)],
)  # fmt: skip
def test_what_a_beat_says(life: int, is_down: bool, heard: Heard) -> None:
    members = make()
    beat(members, 1_000, "b", "c")
    if is_down:
        assert members.told("c", 1, 2_000)
    assert members.heard("c", life, 2_001) is heard
    assert members.is_live("c") or heard is Heard.OLD


def test_a_stranger_is_nobody() -> None:
    assert make().heard("x", 1, 10) is Heard.OLD
