"""Nodes whose stage restarts, and nodes that have lost everything."""

from __future__ import annotations

import math

import pytest

from holdfast.protocol.commands import (
    CopyState,
    Fork,
    Install,
    Restart,
    StartOver,
    Work,
)
from holdfast.protocol.messages import (
    AuthRequest,
    Heartbeat,
    StateReply,
    StateRequest,
    Subscribe,
)
from tests.protocol.node_rig import SIZE, F, Rig, S

# A stage that is restarted


def test_a_restarted_stage_does_again_what_was_not_safe_and_publishes_it_once() -> None:
    rig = Rig()
    rig.run(500)
    rig.saves = False
    rig.run(800)
    before = rig.words
    rig.do(rig.node.restarted(5, rig.now))
    redone = [work.stretch.first for _, work in rig.of(Work)][-3:]
    assert redone == [5, 6, 7]
    assert rig.words == before
    rig.run(1000)
    rig.check(1000)


def test_upstreams_are_told_only_of_what_is_safe() -> None:
    rig = Rig()
    rig.run(500)
    rig.saves = False
    rig.run(800)
    rig.advance(850)
    acks = [beat.acks["a"] for _, beat in rig.sent(Heartbeat) if "a" in beat.acks]
    assert acks[-1] == 500
    rig.do(rig.node.saved(8, rig.now))
    rig.advance(900)
    acks = [beat.acks["a"] for _, beat in rig.sent(Heartbeat) if "a" in beat.acks]
    assert acks[-1] == 800


def test_a_restart_during_a_failure_forks_anew_and_shows_no_stable_row_twice() -> None:
    rig = Rig()
    rig.run(500)
    rig.saves = False
    rig.run(600)
    rig.upstream.down = {"z"}
    rig.run(1200, ["a"])
    rig.do(rig.node.restarted(5, rig.now))
    rig.run(1400, ["a"])
    assert len(rig.of(Fork)) == 2
    rig.upstream.down = set()
    rig.saves = True
    rig.publish("b", 1400)
    rig.run(1500)
    assert rig.node.state is S
    rig.check(1500)


def test_work_that_is_overtaken_by_a_restart_counts_for_nothing() -> None:
    rig = Rig()
    rig.run(500)
    rig.auto = False
    rig.run(600)
    old = rig.waiting.popleft()
    rig.do(rig.node.restarted(5, rig.now))
    assert rig.node.finished(old, {"o": []}, rig.now) == []
    rig.auto = True
    rig.finish()
    rig.check(600)


# A replica that has lost everything


def test_a_lost_replica_is_silent() -> None:
    rig = Rig(lost=True, peers=("p",))
    assert rig.node.state is F
    for message in (Heartbeat({}), Subscribe("o", 1, 0, 0), StateRequest(0), AuthRequest()):
        assert rig.node.receive("r", message, 1) == []
    rig.run(300)
    assert rig.items == []
    assert not any(beat.acks for _, beat in rig.sent(Heartbeat))


def test_a_lost_replica_asks_its_peers_in_turn() -> None:
    rig = Rig(lost=True, peers=("p", "q"), retry=50)
    rig.advance(200)
    assert [to for to, _ in rig.sent(StateRequest)][:4] == ["p", "q", "p", "q"]
    assert rig.sent(Subscribe) == []


def test_a_copied_state_is_gone_on_with() -> None:
    peer = Rig()
    peer.run(500)
    [(_, copy)] = [(0, c) for c in peer.node.receive("n", StateRequest(0), peer.now)]
    assert isinstance(copy, CopyState)
    assert (copy.to, copy.reply.bucket) == ("n", 5)
    rig = Rig(lost=True, peers=("p",))
    rig.upstream = peer.upstream
    rig.advance(510)
    reply = StateReply(0, 5, copy.reply.consistent_from, "state", copy.reply.lines)
    rig.do(rig.node.receive("p", reply, rig.now))
    [(_, install)] = rig.of(Install)
    assert install == Install(5, "state")
    assert {ask.after for _, ask in rig.sent(Subscribe)} <= {500}
    rig.do(rig.node.saved(5, rig.now))
    rig.run(800)
    assert rig.ask() is S
    rig.do(rig.node.receive("r", Subscribe("o", 2, 0, 0), rig.now))
    rig.check(800)


def test_a_second_copy_changes_nothing() -> None:
    rig = Rig(lost=True, peers=("p", "q"))
    rig.do(rig.node.receive("p", StateReply(1, 5, 0, "one", {"o": ()}), 10))
    rig.do(rig.node.receive("q", StateReply(1, 7, 0, "two", {"o": ()}), 11))
    assert len(rig.of(Install)) == 1
    assert rig.node.gate.base == 5


@pytest.mark.parametrize("span", [0, 250, 300])
def test_a_replica_that_converges_publishes_nothing_that_depends_on_what_it_lost(span: int) -> None:
    rig = Rig(lost=True, span=span, copy_state=False)
    for line in rig.upstream.lines.values():
        line.skip(1000)
    rig.run(1100)
    assert [c.bucket for _, c in rig.of(Restart)] == [10]
    rig.run(1800)
    rig.do(rig.node.receive("r", Subscribe("o", 2, 0, 0), rig.now))
    assert rig.ask() is S
    first = min(row.stime for row in rig.rows) // SIZE * SIZE
    assert first >= 1000 + span
    rig.check(1800, since=first)


def test_the_answer_to_a_request_of_an_earlier_life_is_not_taken() -> None:
    rig = Rig(lost=True, peers=("p",))
    rig.do(rig.node.receive("p", StateReply(-1, 5, 0, "old", {"o": ()}), 10))
    assert rig.node.is_lost
    rig.do(rig.node.receive("p", StateReply(0, 7, 0, "new", {"o": ()}), 11))
    assert not rig.node.is_lost
    assert rig.node.gate.base == 7


def test_a_replica_whose_next_input_is_kept_nowhere_starts_over() -> None:
    rig = Rig()
    rig.run(500)
    rig.upstream.down = {"z"}
    rig.run(700, ["a"])
    line = rig.upstream.lines["z", "b"]
    line.acknowledge("n", 900)
    rig.upstream.publish("b", 1000)
    assert line.dropped_before > 500
    rig.upstream.down = set()
    rig.advance(1200)
    assert rig.of(StartOver)


# All replicas of a stage that does not converge have lost everything


def test_without_anybody_to_ask_all_is_processed_again_if_all_is_kept() -> None:
    rig = Rig(lost=True, peers=("p", "q"), span=math.inf, retry=20)
    rig.upstream.publish("a", 1000)
    rig.upstream.publish("b", 1000)
    rig.advance(150)
    assert rig.sent(Subscribe) == []
    rig.now = 1000
    rig.run(1300)
    assert not rig.node.is_lost
    rig.do(rig.node.receive("r", Subscribe("o", 2, 0, 0), rig.now))
    rig.check(1300)


@pytest.mark.parametrize("peers", [(), ("p", "q")])
def test_a_replica_that_nothing_can_help_says_so(peers: tuple[str, ...]) -> None:
    rig = Rig(lost=True, peers=peers, span=math.inf, retry=20)
    for line in rig.upstream.lines.values():
        line.skip(1000)
    rig.now = 1000
    rig.run(1600)
    assert rig.node.is_stranded
    assert rig.node.is_lost
    assert rig.of(StartOver) == []
    assert rig.items == []


def test_a_stranded_replica_goes_on_asking_and_is_helped_by_a_peer_that_comes_back() -> None:
    rig = Rig(lost=True, peers=("p",), span=math.inf, retry=20)
    for line in rig.upstream.lines.values():
        line.skip(1000)
    rig.now = 1000
    rig.run(1600)
    assert rig.node.is_stranded
    [_, last] = rig.sent(StateRequest)[-1]
    assert last.number > 1550
    rig.do(rig.node.receive("p", StateReply(last.number, 16, 0, "state", {"o": ()}), rig.now))
    assert not rig.node.is_stranded
    rig.do(rig.node.saved(16, rig.now))
    rig.run(1900)
    assert rig.ask() is S


def test_a_replica_that_is_not_yet_told_of_its_inputs_waits_and_is_not_helped_by_guessing() -> None:
    rig = Rig(lost=True, peers=("p",), span=math.inf, retry=20)
    rig.upstream.down = {"z"}
    rig.advance(500)
    assert rig.node.is_stranded
    assert rig.sent(Subscribe) == []
    rig.upstream.down = set()
    rig.now = 500
    rig.run(900)
    assert not rig.node.is_lost


def test_what_is_dropped_while_all_is_processed_again_sends_a_replica_back_to_its_peers() -> None:
    rig = Rig(lost=True, peers=("p",), span=math.inf, retry=20)
    rig.run(300)
    assert rig.node.gate.base == 3
    rig.upstream.down = {"z"}
    rig.run(500, ["a"])
    rig.upstream.lines["z", "b"].acknowledge("n", 900)
    rig.upstream.publish("b", 1000)
    rig.upstream.down = set()
    rig.advance(1200)
    assert rig.of(StartOver)
