"""One replica through failures and corrections, driven by messages."""

from __future__ import annotations

import math

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.gates.order import Delays
from holdfast.pipeline.machine.commands import (
    Drop,
    Fork,
    Rerun,
    Restart,
    Work,
)
from holdfast.pipeline.machine.messages import (
    Again,
    AuthGrant,
    AuthRelease,
    AuthRequest,
    Feed,
    Heartbeat,
    Recalculate,
    Send,
    Subscribe,
    Unsubscribe,
    Vitals,
)
from holdfast.pipeline.machine.output_log import Retention
from holdfast.pipeline.machine.states import AllOf, State
from holdfast.pipeline.machine.tuples import Row, Segment
from tests.pipeline.machine.node_rig import BEAT, DELAY, LAG, SIZE, F, Rig, S, U, Z

# Failures and corrections


def test_without_failures_everything_is_stable_and_nothing_is_forked() -> None:
    rig = Rig()
    rig.run(1000)
    assert rig.node.state is S
    assert (rig.of(Fork), rig.of(Drop)) == ([], [])
    assert rig.words == "R " + " ".join(f"S{start}" for start in range(0, 1000, SIZE))
    rig.check(1000)


def test_a_failure_is_told_of_at_once_but_nothing_tentative_is_made_before_its_time() -> None:
    rig = Rig()
    rig.run(500)
    rig.upstream.down = {"z"}
    rig.run(600, ["a"])
    assert rig.node.state is S
    rig.advance(700)
    assert rig.ask() is U
    assert rig.node.state is S
    assert rig.of(Fork) == []


def test_the_first_preview_comes_a_delay_after_the_bucket_was_to_be_complete() -> None:
    rig = Rig()
    rig.run(500)
    rig.upstream.down = {"z"}
    rig.run(1200, ["a"])
    [(forked, _)] = rig.of(Fork)
    assert forked == 600 + LAG + DELAY
    assert rig.node.state is U
    previews = [(now, word) for now, word in rig.items if word[0] == "T"]
    assert previews[0] == (forked, "T500")
    assert [now for now, _ in previews[4:]] == [1000 + LAG, 1100 + LAG, 1200 + LAG]
    assert rig.node.is_tentative


def test_all_is_corrected_when_the_input_is_back() -> None:
    rig = Rig()
    rig.run(500)
    rig.upstream.down = {"z"}
    rig.run(1200, ["a"])
    rig.publish("b", 1200)
    rig.upstream.down = set()
    rig.run(1400)
    assert rig.node.state is S
    assert rig.ask() is S
    assert len(rig.of(Fork)) == len(rig.of(Drop)) == 1
    words = rig.words.split()
    assert words.count("R") == 2
    assert words.index("U500") < words.index("S500")
    rig.check(1400)


def test_after_a_long_failure_a_stable_replica_is_read_in_the_background_first() -> None:
    """What it has to send is long: new rows come from the other one meanwhile."""
    for long_failure, background in ((500, True), (100_000, False)):
        rig = Rig(long_failure=long_failure)
        rig.run(500)
        rig.upstream.down = {"y", "z"}
        rig.upstream.states["x"] = U
        rig.run(1500, ["a"])
        before = len(rig.sent(Subscribe))
        rig.upstream.down = {"z"}
        rig.advance(1500 + 3 * BEAT)
        asked = [ask.previews for to, ask in rig.sent(Subscribe)[before:] if to == "y"]
        assert asked[0] is not background


def test_a_failure_that_heals_before_any_preview_leaves_no_trace() -> None:
    rig = Rig()
    rig.run(500)
    rig.upstream.down = {"z"}
    rig.run(700, ["a"])
    rig.upstream.down = set()
    rig.publish("b", 700)
    rig.run(1000)
    assert rig.of(Fork) == []
    assert "T" not in rig.words
    rig.check(1000)


def test_the_other_replica_takes_over_without_a_preview() -> None:
    rig = Rig()
    rig.run(500)
    rig.upstream.down = {"x"}
    rig.run(1000)
    assert rig.of(Fork) == []
    assert rig.ask() is S
    rig.check(1000)


def test_with_an_infinite_delay_nothing_tentative_is_ever_made() -> None:
    rig = Rig(delays=Delays())
    rig.run(500)
    rig.upstream.down = {"z"}
    rig.run(3000, ["a"])
    assert rig.of(Fork) == []
    rig.upstream.down = set()
    rig.publish("b", 3000)
    rig.run(3200)
    rig.check(3200)


def catching_up() -> Rig:
    """What was missing is there again, and the base has begun with it."""
    rig = Rig()
    rig.run(500)
    rig.upstream.down = {"z"}
    rig.run(1200, ["a"])
    rig.auto = False
    rig.upstream.down = set()
    rig.publish("b", 1100)
    rig.advance(1240)
    return rig


def test_while_the_base_catches_up_the_node_is_stabilizing_and_the_fork_goes_on() -> None:
    rig = catching_up()
    assert rig.node.state is Z
    assert rig.ask() is Z
    assert rig.node.working is not None
    assert not rig.node.working.tentative
    rig.publish("a", 1300)
    rig.advance(1410)
    rig.finish()
    [work] = rig.waiting
    assert (work.tentative, work.stretch.first) == (True, 12)
    rig.finish()
    rig.auto = True
    rig.finish()
    assert "U500 S500" in rig.words
    rig.publish("b", 1300)
    rig.advance(1500)
    assert rig.node.state is S
    rig.check(1300)


def test_a_fork_that_is_always_behind_does_not_keep_the_base_waiting() -> None:
    rig = catching_up()
    turns = []
    for end in range(1300, 2300, 100):
        rig.publish("a", end)
        rig.publish("a", end + 100)
        rig.advance(end + 2 * SIZE + LAG)
        turns.append(rig.waiting[0].tentative)
        rig.finish()
    assert turns[:10] == [False, True] * 5
    assert rig.node.gate.base == 10


def test_a_new_failure_while_corrections_are_made_keeps_the_rest_tentative() -> None:
    rig = Rig()
    rig.run(500)
    rig.upstream.down = {"z"}
    rig.run(1200, ["a"])
    rig.upstream.down = set()
    rig.publish("b", 800)
    rig.advance(1220)
    rig.upstream.down = {"z"}
    assert rig.node.state is Z
    rig.run(1600, ["a"])
    assert rig.node.state is U
    assert rig.of(Drop) == []
    words = rig.words.split()
    assert words[-1] == "T1500"
    assert words.count("R") == 1
    rig.upstream.down = set()
    rig.publish("b", 1600)
    rig.run(1800)
    assert rig.node.state is S
    assert rig.words.split().count("R") == 2
    assert len(rig.of(Fork)) == len(rig.of(Drop)) == 1
    rig.check(1800)


def test_a_join_without_one_input_shows_nothing_and_says_so() -> None:
    rig = Rig(reach=AllOf(("a", "b")))
    rig.run(500)
    rig.upstream.down = {"z"}
    rig.run(1200, ["a"])
    assert rig.ask() is F
    assert "T" not in rig.words
    rig.upstream.down = set()
    rig.publish("b", 1200)
    rig.run(1400)
    assert rig.ask() is S
    rig.check(1400)


def test_a_replica_with_much_to_do_does_not_call_itself_stable() -> None:
    rig = Rig(lag=2)
    rig.auto = False
    rig.run(200)
    assert rig.node.state is S
    rig.run(500)
    assert rig.node.state is Z
    rig.auto = True
    rig.finish()
    assert rig.node.state is S


def test_tentative_input_is_passed_on_as_previews() -> None:
    rig = Rig(inputs={"b": ("z",)}, reach="b")
    rig.run(500, ["b"])
    line = rig.upstream.lines["z", "b"]
    rig.upstream.states["z"] = U
    for start in (500, 600):
        rig.advance(1000 + start)
        for send in line.preview(Segment(start, start + SIZE, (Row(start, "b", "guess"),))):
            rig.do(rig.node.receive("z", send.message, rig.now))
    rig.advance(1650)
    assert rig.words.endswith("T500 T600")
    [(forked, _)] = rig.of(Fork)
    assert forked == 1500, "it came late enough: it does not wait once more"


def test_rows_that_come_while_the_node_slept_are_not_missed() -> None:
    rig = Rig()
    rig.run(500)
    rig.publish("a", 600)
    rig.now = 5000
    rig.do(rig.node.wake(5000))
    assert rig.of(Fork) == []
    rig.publish("b", 600)
    rig.check(600)


# Turns


def turns() -> Rig:
    rig = Rig(peers=("p",), beside=False, retry=50)
    rig.run(500)
    rig.upstream.down = {"z"}
    rig.run(1000, ["a"])
    rig.upstream.down = set()
    rig.publish("b", 1000)
    rig.advance(1045)
    return rig


def test_where_replicas_take_turns_nothing_is_corrected_without_a_grant() -> None:
    rig = turns()
    assert rig.sent(AuthRequest)
    assert "S500" not in rig.words
    assert rig.node.state is U
    rig.do(rig.node.receive("p", AuthGrant(), rig.now))
    assert "U500 S500" in rig.words
    assert rig.words.endswith("R")
    assert [to for to, _ in rig.sent(AuthRelease)] == ["p"]
    rig.check(1000)


def test_the_fork_rests_while_its_turn_lasts() -> None:
    rig = turns()
    rig.auto = False
    rig.do(rig.node.receive("p", AuthGrant(), rig.now))
    rig.publish("a", 1100)
    while rig.waiting:
        assert not rig.waiting[0].tentative
        rig.finish()
    assert rig.sent(AuthRelease)


def test_without_an_answer_a_replica_corrects_alone() -> None:
    rig = turns()
    rig.advance(1200)
    rig.check(1000)


# Room


def test_an_input_that_runs_ahead_is_paused_until_there_is_room() -> None:
    rig = Rig(retain=400, span=math.inf)
    rig.run(500)
    rig.upstream.down = {"z"}
    rig.run(2000, ["a"])
    assert rig.node.inputs.intakes["a"].is_paused
    assert rig.node.inputs.intakes["a"].position == 900
    assert [to for to, _ in rig.sent(Unsubscribe)] == ["x"]
    rig.upstream.down = set()
    rig.publish("b", 2000)
    rig.run(2500)
    assert not rig.node.inputs.intakes["a"].is_paused
    rig.check(2500)


def test_a_full_line_stops_the_base_until_the_reader_acknowledges() -> None:
    rig = Rig(retention=Retention(300))
    rig.run(1000)
    assert rig.node.lines["o"].end == 300
    assert rig.node.gate.backlog > rig.settings.lag
    assert rig.node.state is State.STABLE, "what waits for room is no correction"
    rig.do(rig.node.receive("r", Heartbeat({"o": 300}), rig.now))
    assert rig.node.lines["o"].end == 600
    rig.do(rig.node.receive("r", Heartbeat({"o": 600}), rig.now))
    rig.do(rig.node.receive("r", Heartbeat({"o": 900}), rig.now))
    rig.check(1000)


def test_with_bounded_retention_the_oldest_corrections_are_given_up() -> None:
    rig = Rig(retain=500 + 200, may_skip=True, span=200)
    rig.run(500)
    rig.upstream.down = {"z"}
    most = 0
    for end in range(600, 3001, SIZE):
        rig.run(end, ["a"])
        most = max(most, rig.node.gate.buffered)
    assert most <= 2 * (700 // SIZE + 2)
    assert rig.of(Restart)
    assert "T2800" in rig.words
    rig.upstream.down = set()
    rig.publish("b", 3000)
    rig.run(4000)
    assert rig.node.state is S
    [gap] = [word for word in rig.words.split() if word[0] == "G"]
    since = int(gap[1:])
    assert since >= 2300 + 200
    before = [row for row in rig.rows if row.stime < 500]
    after = [row for row in rig.rows if row.stime >= 500]
    assert len(before) == 2 * 5
    rig.rows = after
    rig.check(4000, since=since)


def test_to_give_up_rows_before_they_are_missed_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="retain"):
        Rig(retain=DELAY, may_skip=True)
    with pytest.raises(InvalidArgumentError, match="windows"):
        Rig(retain=DELAY + 100, may_skip=True, span=200)


def test_the_rows_of_a_bucket_that_was_run_again_go_to_who_asked() -> None:
    rig = Rig()
    rig.run(300)
    asked = Recalculate("o", 100, 2)
    assert rig.node.receive("r", asked, rig.now)[:1] == [Rerun("r", asked)]
    [send] = rig.node.rerun(Rerun("r", asked), (Row(150, "k", "again"),))
    assert isinstance(send, Send)
    assert isinstance(send.message, Feed)
    assert send.message.items == (Again(Segment(100, 200, (Row(150, "k", "again"),)), 2),)
    assert rig.node.receive("r", Recalculate("unknown", 100, 2), rig.now) == []


def test_after_a_sleep_nothing_is_missed_at_once_and_nobody_is_believed_unheard() -> None:
    rig = Rig()
    rig.run(500)
    rig.now = 5000
    vitals = Vitals({})
    commands = rig.node.receive("stranger", vitals, 5000)
    assert not any(isinstance(command, Fork | Work) for command in commands)
    assert rig.node.stream_state("o") is State.FAILURE
    rig.do(rig.node.wake(5000))
    assert rig.node.stream_state("o") is not State.FAILURE


@pytest.mark.parametrize("beside", [True, False])
def test_a_stream_that_is_always_ahead_of_another_does_not_keep_all_tentative(beside: bool) -> None:
    rig = Rig(delays=Delays(DELAY, patience=20), beside=beside)

    def run(to: int) -> None:
        for end in range(rig.now // SIZE * SIZE + SIZE, to + 1, SIZE):
            rig.advance(end + LAG)
            rig.publish("a", end + 2 * SIZE)
            rig.publish("b", end)

    run(800)
    rig.upstream.down = {"z"}
    run(2000)
    rig.upstream.down = set()
    run(3000)
    assert rig.node.state is S
    assert not rig.node.is_tentative
    assert rig.words.split().count("R") == 2, "one for the subscription, one for the failure"


@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("delay", [DELAY, 3000])
@pytest.mark.parametrize("late", [0, 1, 3])
def test_a_stream_that_comes_in_jumps_does_not_keep_all_tentative(
    late: int, delay: int, beside: bool
) -> None:
    """Ten buckets at once, as where rows have times of their own and are few: what is waited for
    usually is no failure, though there was one before."""
    rig = Rig(delays=Delays(delay, patience=20), beside=beside)

    def run(to: int) -> None:
        for end in range(rig.now // SIZE * SIZE + SIZE, to + 1, SIZE):
            rig.advance(end + LAG)
            rig.publish("a", end)
            if end % (10 * SIZE) == 0:
                rig.publish("b", end - late * SIZE)

    run(8000)
    rig.upstream.down = {"z"}
    run(16000)
    assert rig.of(Fork)
    rig.upstream.down = set()
    run(40000)
    assert rig.node.state is S
    assert not rig.node.is_tentative
    if delay > 10 * SIZE:
        last = [time for time, word in rig.items if word.startswith("T")][-1]
        assert last < 20000, "nothing is previewed that comes as usual"


def test_a_node_catches_up_with_10_000_buckets_between_two_heartbeats() -> None:
    rig = Rig(most=64)
    rig.run(500)
    rig.upstream.down = {"x", "y", "z"}
    behind = 10_000 * SIZE
    for stream in ("a", "b"):
        rig.upstream.publish(stream, behind)
    rig.upstream.down = set()
    beats = len(rig.sent(Heartbeat))
    # It subscribes anew when a heartbeat tells that something was lost; two are enough.
    rig.advance(rig.now + 3 * BEAT)
    assert rig.node.gate.base * SIZE == behind
    assert len(rig.sent(Heartbeat)) - beats <= 4 * 3
    assert sorted(row.value for row in rig.rows if row.key == "a") == list(range(0, behind, SIZE))
    assert len(rig.rows) == 2 * behind // SIZE
