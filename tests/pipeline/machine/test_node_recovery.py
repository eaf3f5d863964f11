"""Nodes whose stage restarts, and nodes that have lost everything."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from types import SimpleNamespace

import pytest

from holdfast.pipeline.machine.commands import (
    CopyState,
    DropCopy,
    Fork,
    Install,
    Restart,
    SendPiece,
    StartOver,
    TakeCopy,
    TakePiece,
    Work,
)
from holdfast.pipeline.machine.messages import (
    AuthRequest,
    Heartbeat,
    LogRequest,
    PieceRequest,
    Send,
    StateOffer,
    StatePiece,
    StateRequest,
    Subscribe,
)
from holdfast.pipeline.machine.output_log import SEGMENT, Line, Retention
from holdfast.pipeline.machine.recovery import (
    AT_ONCE,
    GONE,
    NO_ROOM,
    SILENT,
    STUCK,
    UNUSED,
    Backfill,
    Recovery,
)
from holdfast.pipeline.machine.tuples import Row, Segment
from tests.pipeline.machine.node_rig import SIZE, F, Rig, S

RETRY = 20


def give(rig: Rig, peer: str, offer: StateOffer) -> None:
    """Let a peer offer a copy and send all its pieces."""
    rig.do(rig.node.receive(peer, offer, rig.now))
    for number in range(offer.pieces):
        rig.do(rig.node.receive(peer, StatePiece(offer.copy, number, "piece"), rig.now))


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
    # A peer hears that there is nothing to wait for.
    assert rig.node.receive("p", StateRequest(0), 1) == [Send("p", StateOffer(0))]
    rig.run(300)
    assert rig.items == []
    assert not any(beat.acks for _, beat in rig.sent(Heartbeat))


def test_a_lost_replica_asks_its_peers_in_turn() -> None:
    rig = Rig(lost=True, peers=("p", "q"), retry=50)
    rig.advance(200)
    assert [to for to, _ in rig.sent(StateRequest)][:4] == ["p", "q", "p", "q"]
    assert rig.sent(Subscribe) == []


def test_a_copied_state_is_gone_on_with() -> None:
    peer = Rig(peers=("m",))
    peer.run(500)
    copy, offer = peer.node.receive("m", StateRequest(0), peer.now)
    assert isinstance(copy, CopyState)
    assert offer == Send("m", StateOffer(copy.copy))
    rig = Rig(lost=True, peers=("p",))
    rig.upstream = peer.upstream
    rig.advance(510)
    give(rig, "p", StateOffer(copy.copy, 2, 20, 5, 0))
    [(_, install)] = rig.of(Install)
    assert install == Install(5, copy.copy)
    assert {ask.after for _, ask in rig.sent(Subscribe)} <= {500}
    rig.do(rig.node.saved(5, rig.now))
    # What the peer has published before follows.
    [(_, asked)] = rig.sent(LogRequest)
    assert asked.before == 500
    [answer] = peer.node.receive("m", asked, peer.now)
    assert isinstance(answer, Send)
    assert rig.node.lines["o"].dropped_before == 500
    rig.do(rig.node.receive("p", answer.message, rig.now))
    assert rig.node.lines["o"].dropped_before == 0
    rig.run(800)
    assert rig.ask() is S
    rig.do(rig.node.receive("r", Subscribe("o", 2, 0, 0), rig.now))
    rig.check(800)


def test_a_second_copy_changes_nothing() -> None:
    rig = Rig(lost=True, peers=("p", "q"))
    give(rig, "p", StateOffer(1, 2, 20, 5, 0))
    give(rig, "q", StateOffer(1, 2, 20, 7, 0))
    assert len(rig.of(Install)) == 1
    assert rig.node.gate.base == 5
    # Nor does one that the same peer offers late, as an answer to an earlier question or life.
    give(rig, "p", StateOffer(2, 2, 20, 7, 0))
    assert len(rig.of(TakeCopy)) == len(rig.of(Install)) == 1
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


def test_a_replica_that_resumes_before_it_is_consistent_publishes_from_there_on() -> None:
    """Its state was begun anew at bucket 8 before it went down: its windows are not full yet."""
    rig = Rig(span=300)
    rig.upstream.publish("a", 1000)
    rig.upstream.publish("b", 1000)
    rig.node.resume(9, 1100, {"o": ()}, rig.now)
    rig.run(1600)
    assert "G1100" in rig.words.split()
    rig.check(1600, since=1100)


def test_a_copied_state_that_is_not_consistent_yet_is_published_from_where_it_is() -> None:
    """The peer has begun anew itself: the windows of its state are not full yet."""
    rig = Rig(lost=True, peers=("p",), span=300)
    rig.upstream.publish("a", 1000)
    rig.upstream.publish("b", 1000)
    rig.advance(10)
    give(rig, "p", StateOffer(1, 2, 20, 9, 1100))
    rig.run(1600)
    rig.do(rig.node.receive("r", Subscribe("o", 2, 0, 0), rig.now))
    assert "G1100" in rig.words.split()
    rig.check(1600, since=1100)


def test_a_copy_whose_inputs_have_gone_on_is_not_taken_and_a_newer_one_is_asked_for() -> None:
    rig = Rig(lost=True, peers=("p",), retry=RETRY)
    rig.advance(10)
    for line in rig.upstream.lines.values():
        line.skip(600)
    rig.advance(20)
    give(rig, "p", StateOffer(1, 2, 20, 5, 0))
    assert rig.node.is_lost
    assert not rig.of(TakeCopy)
    rig.advance(2 * RETRY)
    assert rig.sent(StateRequest)[-1] == ("p", StateRequest(600))
    give(rig, "p", StateOffer(2, 2, 20, 7, 0))
    assert not rig.node.is_lost
    assert rig.node.gate.base == 7


def test_a_copy_whose_inputs_go_on_while_it_is_taken_is_not_installed() -> None:
    """What follows it is kept no longer: a state of before would have a hole behind it."""
    rig = Rig(lost=True, peers=("p",), retry=RETRY)
    rig.advance(10)
    rig.do(rig.node.receive("p", StateOffer(1, 2, 20, 5, 0), rig.now))
    rig.do(rig.node.receive("p", StatePiece(1, 0, "piece"), rig.now))
    for line in rig.upstream.lines.values():
        line.skip(600)
    rig.advance(2 * RETRY)
    before = len(rig.sent(StateRequest))
    rig.do(rig.node.receive("p", StatePiece(1, 1, "piece"), rig.now))
    assert not rig.of(Install)
    assert rig.node.is_lost
    assert rig.sent(StateRequest)[before:] == [("p", StateRequest(600))]
    give(rig, "p", StateOffer(2, 2, 20, 7, 0))
    assert [command for _, command in rig.of(Install)] == [Install(7, 2)]


# A copy that takes its time


def test_a_copy_under_way_is_waited_for_as_long_as_it_grows() -> None:
    rig = Rig(lost=True, peers=("p",), retry=RETRY)
    for step in range(100):
        rig.advance((step + 1) * RETRY)
        rig.do(rig.node.receive("p", StateOffer(7, size=step), rig.now))
        assert rig.node.recovery.asks
    assert rig.sent(Subscribe) == []
    give(rig, "p", StateOffer(7, 3, 30, 5, 0))
    assert not rig.node.is_lost


def test_a_copy_that_does_not_grow_is_given_up() -> None:
    rig = Rig(lost=True, peers=("p",), retry=RETRY)
    for step in range(2 * STUCK):
        rig.advance((step + 1) * RETRY)
        rig.do(rig.node.receive("p", StateOffer(7, size=5), rig.now))
    assert not rig.node.recovery.asks
    assert rig.sent(Subscribe)


def test_replicas_that_have_all_lost_their_state_do_not_wait_for_each_other() -> None:
    rig = Rig(lost=True, peers=("p", "q"), retry=RETRY)
    rig.advance(1)
    rig.do(rig.node.receive("p", StateOffer(0), rig.now))
    assert [to for to, _ in rig.sent(StateRequest)] == ["p", "q"]
    rig.do(rig.node.receive("q", StateOffer(0), rig.now))
    rig.advance(2 * RETRY)
    assert not rig.node.recovery.asks


def test_pieces_that_are_lost_doubled_or_out_of_order_are_asked_for_until_all_are_there() -> None:
    chance = random.Random(5)
    rig = Rig(lost=True, peers=("p", "q"), retry=RETRY)
    offer = StateOffer(9, 60, 600, 5, 0)
    rig.advance(1)
    rig.do(rig.node.receive("p", offer, rig.now))
    asked, answered = 0, 0
    while rig.node.recovery.asks:
        sent = rig.sent(PieceRequest)[asked:]
        asked += len(sent)
        pieces = [number for _, request in sent for number in request.numbers]
        assert len(pieces) <= AT_ONCE or answered
        chance.shuffle(pieces)
        for number in pieces:
            if chance.random() < 0.7:
                for _ in range(chance.choice([1, 1, 2])):
                    rig.do(rig.node.receive("p", StatePiece(9, number, b""), rig.now))
        rig.do(rig.node.receive("q", StatePiece(9, chance.randrange(60), b"wrong"), rig.now))
        rig.do(rig.node.receive("p", StatePiece(8, chance.randrange(60), b"wrong"), rig.now))
        rig.advance(rig.now + RETRY)
        if len(rig.sent(StateRequest)) > answered:
            answered = len(rig.sent(StateRequest))
            rig.do(rig.node.receive("p", offer, rig.now))
        assert rig.now < 1000 * RETRY
    taken = [command.piece for _, command in rig.of(TakePiece)]
    assert sorted(piece.number for piece in taken) == list(range(60))
    assert {piece.data for piece in taken} == {b""}
    assert len(rig.of(Install)) == len(rig.of(TakeCopy)) == 1


def test_a_peer_that_was_started_again_without_its_copy_is_begun_anew_with() -> None:
    rig = Rig(lost=True, peers=("p",), retry=RETRY)
    rig.advance(1)
    rig.do(rig.node.receive("p", StateOffer(9, 60, 600, 5, 0), rig.now))
    rig.do(rig.node.receive("p", StatePiece(9, 0, b""), rig.now))
    rig.advance(rig.now + 10 * RETRY)
    give(rig, "p", StateOffer(11, 2, 20, 6, 0))
    assert [command.offer.copy for _, command in rig.of(TakeCopy)] == [9, 11]
    assert [command for _, command in rig.of(Install)] == [Install(6, 11)]


def test_a_peer_that_is_gone_is_left_for_the_other() -> None:
    rig = Rig(lost=True, peers=("p", "q"), retry=RETRY)
    rig.advance(1)
    rig.do(rig.node.receive("p", StateOffer(9, 60, 600, 5, 0), rig.now))
    rig.advance((GONE - 1) * RETRY)
    assert {to for to, _ in rig.sent(StateRequest)} == {"p"}, "its link may be broken"
    rig.advance((GONE + 20) * RETRY)
    assert "q" in {to for to, _ in rig.sent(StateRequest)[-4:]}
    assert rig.node.recovery.asks or rig.sent(Subscribe)


def test_a_link_that_was_broken_for_long_costs_only_the_pieces_on_their_way() -> None:
    rig = Rig(lost=True, peers=("p",), retry=RETRY)
    offer = StateOffer(9, 60, 600, 5, 0)
    rig.advance(1)
    rig.do(rig.node.receive("p", offer, rig.now))
    for number in range(20):
        rig.do(rig.node.receive("p", StatePiece(9, number, b""), rig.now))
        asked = {each for _, request in rig.sent(PieceRequest) for each in request.numbers}
        assert asked == set(range(number + 1 + AT_ONCE)), "no more are on their way"
    rig.advance((GONE - 10) * RETRY)
    before = len(rig.sent(PieceRequest))
    rig.do(rig.node.receive("p", offer, rig.now))
    assert rig.sent(PieceRequest)[before:] == [
        ("p", PieceRequest(9, tuple(range(20, 20 + AT_ONCE))))
    ]
    for number in range(20, 60):
        rig.do(rig.node.receive("p", StatePiece(9, number, b""), rig.now))
    assert len(rig.of(TakeCopy)) == len(rig.of(Install)) == 1
    assert len(rig.of(TakePiece)) == 60


@pytest.mark.parametrize(("span", "waits"), [(SIZE, SIZE), (10**9, SILENT * RETRY)])
def test_a_peer_that_says_nothing_is_asked_as_long_as_to_do_without_it_takes(
    span: int, waits: int
) -> None:
    recovery = Recovery(("p", "q"), lost=True, copies=True, retry=RETRY, now=7)
    recovery.offered("p", StateOffer(0), 0, SIZE, 8)
    assert not recovery.may_do_without(7 + waits - 1, span)
    assert recovery.may_do_without(7 + waits, span)
    # One that has said that it has none is not waited for.
    recovery.offered("q", StateOffer(0), 0, SIZE, 9)
    assert recovery.may_do_without(9, span)


# The log of a peer


def filled(until: int) -> Line:
    line = Line("o", ("r",))
    for start in range(0, until, SIZE):
        # Two of these make a piece.
        rows = Row(start, None, SimpleNamespace(size=(2 << 20) - SEGMENT))
        line.publish(Segment(start, start + SIZE, (rows,)))
    return line


def restored(retention: Retention | None = None) -> Line:
    """That of a replica whose copied state ends at 1500."""
    line = Line("o", ("r",), retention=retention)
    line.restore((), 1500)
    return line


def fetched(lines: dict[str, Line], peer: Line, most: int = 100) -> int:
    """Fetch all that a peer has; answers how many pieces that took."""
    backfill = Backfill(["p"], "p", ["o"], RETRY)
    sends = backfill.ask(lines, 0)
    for count in range(1, most):
        [send] = sends
        assert isinstance(send, Send)
        assert isinstance(send.message, LogRequest)
        piece = peer.older(send.message.before)
        assert backfill.expects("p", piece, lines)
        sends = backfill.take(piece, lines, 0)
        if backfill.is_done:
            return count
    raise AssertionError(f"{most} pieces were not enough")


def test_the_log_of_a_peer_is_fetched_from_the_newest_to_the_oldest() -> None:
    peer, own = filled(2000), restored()
    assert fetched({"o": own}, peer) == 8
    assert own.dropped_before == 0
    own.publish(Segment(1500, 1600, (Row(1500, None, 1500),)))
    assert [row.stime for segment in own.segments.since(0) for row in segment.rows] == list(
        range(0, 1600, SIZE)
    )


def test_what_a_line_would_drop_at_once_is_not_fetched_again_and_again() -> None:
    peer = filled(2000)
    own = restored(Retention(600, convergent=True))
    assert fetched({"o": own}, peer) == 4
    assert own.dropped_before == 900


def test_a_log_with_a_hole_or_of_another_place_is_not_taken() -> None:
    peer, lines = filled(2000), {"o": restored()}
    backfill = Backfill(["p", "q"], "p", ["o"], RETRY)
    backfill.ask(lines, 0)
    piece = peer.older(1500)
    assert backfill.expects("p", piece, lines)
    assert not backfill.expects("q", piece, lines)
    assert not backfill.expects("p", peer.older(1400), lines)
    holed = replace(piece, segments=(*peer.older(1200).segments, piece.segments[-1]))
    assert not backfill.expects("p", holed, lines)
    assert not backfill.expects("p", replace(piece, segments=piece.segments[:-1]), lines)


def test_one_copy_is_made_however_often_it_is_asked_for_and_dropped_when_nobody_does() -> None:
    rig = Rig(peers=("p", "q"), retry=RETRY)
    rig.run(500)
    for peer in ("p", "q", "p"):
        rig.do(rig.node.receive(peer, StateRequest(0), rig.now))
    [(_, copy)] = rig.of(CopyState)
    offer = StateOffer(copy.copy, 3, 30, 5, 0)
    rig.do(rig.node.copied(copy.copy, offer, rig.now))
    rig.do(rig.node.receive("q", StateRequest(500), rig.now))
    assert rig.sent(StateOffer)[-1] == ("q", offer)
    rig.do(rig.node.receive("q", PieceRequest(copy.copy, (2, 0, 7)), rig.now))
    assert [(c.to, c.number) for _, c in rig.of(SendPiece)] == [("q", 2), ("q", 0)]
    for stranger in (StateRequest(0), PieceRequest(copy.copy, (1,))):
        assert not any(
            isinstance(c, Send | SendPiece) for c in rig.node.receive("r", stranger, rig.now)
        )
    # One that is too old for who asks is replaced.
    rig.do(rig.node.receive("p", StateRequest(600), rig.now))
    assert [c.copy for _, c in rig.of(DropCopy)] == [copy.copy]
    assert len(rig.of(CopyState)) == 2
    newer = rig.of(CopyState)[-1][1].copy
    rig.do(rig.node.copied(newer, StateOffer(newer, 3, 30, 6, 0), rig.now))
    rig.advance(rig.now + 2 * UNUSED * RETRY)
    assert [c.copy for _, c in rig.of(DropCopy)] == [copy.copy, newer]


def test_a_peer_without_room_for_a_copy_is_not_asked_for_another_at_once() -> None:
    rig = Rig(peers=("p",), retry=RETRY)
    rig.run(500)
    for number in (1, 2):
        begun = rig.now
        rig.do(rig.node.receive("p", StateRequest(0), rig.now))
        rig.do(rig.node.lending.fail(rig.now))
        rig.do(rig.node.receive("p", StateRequest(0), begun + (NO_ROOM - 1) * RETRY))
        assert len(rig.of(CopyState)) == number
        assert len(rig.sent(StateOffer)) == number, "no word of a state that is there"
        rig.now = begun + (NO_ROOM + 1) * RETRY


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
    asked = len(rig.sent(StateRequest))
    rig.advance(1700)
    assert len(rig.sent(StateRequest)) > asked
    rig.do(rig.node.receive("p", StateOffer(7), rig.now))
    assert not rig.node.is_stranded, "a copy is being made"
    give(rig, "p", StateOffer(7, 2, 20, 16, 0))
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
