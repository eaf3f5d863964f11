"""Take-over, fence and the way back, among replicas that hear each other."""

from __future__ import annotations

import pytest

from holdfast.pipeline.machine.sharing import Guarantee
from holdfast.pipeline.machine.sharing.messages import Announce, Message, Ping, TakeOver
from tests.pipeline.machine.sharing.rig import Rig, rules


def test_the_next_live_one_takes_over_and_everybody_learns_it() -> None:
    rig = Rig(rules())
    rig.kill("a/1")
    rig.run()
    for viewer in ("source/0", "a/0", "a/2", "b/0", "b/1", "b/2"):
        assert rig.holders("a", viewer) == ["a/0", "a/2", "a/2"], viewer


def test_above_hears_first_then_colleagues_then_below() -> None:
    rig = Rig(rules())
    rig.kill("a/1")
    rig.log.clear()
    rig.run()
    told = [to for sender, to, message in rig.log if isinstance(message, Announce)]
    assert [name.partition("/")[0] for name in told] == ["source", "a", "b", "b", "b"]
    rig.log.clear()
    rig.restart("a/1")
    rig.run()
    told = [to for sender, to, message in rig.log if isinstance(message, Announce)]
    assert [name.partition("/")[0] for name in told] == ["source", "a", "a", "b", "b", "b"]


def test_the_next_group_is_told_though_one_does_not_answer() -> None:
    rig = Rig(rules())
    rig.lose = lambda sender, to, message: to == "source/0" and isinstance(message, Announce)
    rig.kill("a/1")
    rig.run()
    assert rig.holders("a", "b/0") == ["a/0", "a/2", "a/2"]
    rig.emit()
    assert rig.holders("a", "source/0") == ["a/0", "a/2", "a/2"], "it was told again later"


@pytest.mark.parametrize("guarantee", Guarantee)
def test_of_two_the_survivor_takes_over_and_does_not_ping_itself(guarantee: Guarantee) -> None:
    rig = Rig(rules(guarantee), a=2)
    rig.kill("a/1")
    rig.run()
    assert rig.holders("a", "a/0") == ["a/0", "a/0"]
    rig.log.clear()
    rig.run()
    assert not [each for each in rig.log if isinstance(each[2], Ping)]
    rig.emit(4)
    rig.run()
    assert rig.once(4)


def test_two_that_stand_side_by_side_die_together() -> None:
    rig = Rig(rules(), a=4)
    rig.kill("a/1")
    rig.kill("a/2")
    rig.run(120)
    assert rig.holders("a", "a/0") == ["a/0", "a/3", "a/3", "a/3"]


def test_the_taker_is_taken_over_from_with_all_its_seats() -> None:
    rig = Rig(rules(), a=4)
    for name in ("a/1", "a/2", "a/3"):
        rig.kill(name)
        rig.run()
    assert rig.holders("a", "source/0") == ["a/0"] * 4
    rig.emit(8)
    rig.run()
    assert rig.once(8)


def test_the_taker_dies_before_anybody_knows_that_it_took_over() -> None:
    rig = Rig(rules(), a=4)
    rig.kill("a/1")
    rig.lose = lambda sender, to, message: sender == "a/2"
    rig.run(12)
    assert rig["a/2"].members.own.claims[1].replica == "a/2"
    rig.kill("a/2")
    rig.lose = lambda sender, to, message: False
    rig.run(120)
    assert rig.holders("a", "source/0") == ["a/0", "a/3", "a/3", "a/3"]


def test_who_is_asked_to_take_over_again_answers_with_what_it_knows() -> None:
    rig = Rig(rules(), a=4)
    rig.kill("a/1")
    rig.run()
    claims = rig["a/2"].members.own.claims
    rig.say("a/0", rig["a/0"].receive("a/3", TakeOver("a/1", 0, claims), rig.now))
    rig.carry()
    assert rig["a/0"].members.own.claims == claims


def test_nobody_takes_over_from_itself() -> None:
    rig = Rig(rules())
    claims = rig["a/0"].members.own.claims
    rig["a/0"].receive("a/1", TakeOver("a/0", 0, claims), 0)
    assert rig["a/0"].members.own.claims == claims


def test_one_who_is_back_has_its_seat_again_and_those_it_had_taken() -> None:
    rig = Rig(rules(), a=3)
    rig.kill("a/0")
    rig.run()
    assert rig.holders("a", "source/0") == ["a/1", "a/1", "a/2"]
    rig.kill("a/1")
    rig.restart("a/1", 1000)
    rig.run()
    assert rig.holders("a", "source/0") == ["a/1", "a/1", "a/2"]
    assert rig["a/2"].members.own.life("a/1") == 1000
    rig.restart("a/0", 1000)
    rig.run()
    assert rig.holders("a", "source/0") == ["a/0", "a/1", "a/2"]


def test_one_who_was_wrongly_suspected_begins_a_new_life() -> None:
    rig = Rig(rules())
    rig.freeze("a/1")
    rig.run()
    assert rig.holders("a", "source/0") == ["a/0", "a/2", "a/2"]
    frozen = rig.thaw("a/1")
    rig.run()
    assert frozen.members.life == 1
    assert rig.holders("a", "source/0") == ["a/0", "a/1", "a/2"]


def test_one_who_slept_suspects_nobody_when_it_wakes() -> None:
    rig = Rig(rules())
    rig.freeze("a/1")
    rig.run(3)
    rig.thaw("a/1")
    rig.now += 10_000_000
    rig.run()
    assert rig.holders("a", "a/2") == ["a/0", "a/1", "a/2"]
    assert not rig["a/1"].members.suspects


def test_who_was_away_when_it_was_told_is_told_again() -> None:
    rig = Rig(rules())
    rig.kill("a/1")
    rig.lose = lambda sender, to, message: to == "b/0" and not isinstance(message, Ping)
    rig.run(100)
    assert rig.holders("a", "b/0") == ["a/0", "a/1", "a/2"]
    rig.lose = lambda sender, to, message: False
    rig.run(20)
    assert rig.holders("a", "b/0") == ["a/0", "a/2", "a/2"]


def test_all_of_an_operator_die_and_come_back_alone() -> None:
    rig = Rig(rules())
    for name in ("a/0", "a/1", "a/2"):
        rig.kill(name)
    rig.run()
    for name in ("a/0", "a/1", "a/2"):
        rig.restart(name)
    rig.run(120)
    assert rig.holders("a", "source/0") == ["a/0", "a/1", "a/2"]
    rig.emit(5)
    rig.run()
    assert rig.once(5)


def test_old_words_of_one_who_comes_back_change_nothing() -> None:
    rig = Rig(rules())
    members = rig["a/0"].members
    assert members.welcome("a/1", 5, 0)
    assert not members.welcome("a/1", 4, 0)
    assert members.life_of("a/1") == 5
    assert "a/1" in members.colleagues(0)


def test_a_guest_who_falls_silent_is_not_waited_for() -> None:
    rig = Rig(rules())
    rig.kill("a/1")
    rig.run()
    members = rig["a/0"].members
    members.welcome("a/1", 5, rig.now)
    assert "a/1" in members.colleagues(rig.now)
    assert "a/1" not in members.colleagues(rig.now + rig.rules.patience + 1)


def test_strangers_and_nonsense_are_not_heard() -> None:
    rig = Rig(rules())
    messages: list[Message] = [Ping(1, ()), Announce(1, rig["a/0"].members.view("a"))]
    for message in messages:
        assert rig["a/0"].receive("nobody", message, 0) == []
        assert rig["a/0"].receive("sink/0", message, 0) == [], "no neighbour"
