"""One replica through failures and corrections, driven by messages."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.protocol.commands import (
    Command,
    CopyState,
    Drop,
    Fork,
    Install,
    Rerun,
    Restart,
    StartOver,
    Work,
)
from holdfast.protocol.gates.order import Delays
from holdfast.protocol.line import Line, Retention
from holdfast.protocol.messages import (
    Again,
    AuthGrant,
    AuthRelease,
    AuthRequest,
    Feed,
    Gap,
    Heartbeat,
    Message,
    Preview,
    Progress,
    Recalculate,
    RecDone,
    Send,
    Stable,
    StateReply,
    StateRequest,
    Subscribe,
    Undo,
    Unsubscribe,
    Vitals,
)
from holdfast.protocol.node import Node
from holdfast.protocol.place import Place, Settings
from holdfast.protocol.states import State
from holdfast.protocol.streams import AllOf, AnyOf, Reach
from holdfast.tuples import Row, Segment

SIZE, BEAT, DELAY, LAG = 100, 10, 300, 5
UNION = AnyOf(("a", "b"))
S, U, Z, F = State.STABLE, State.UP_FAILURE, State.STABILIZATION, State.FAILURE


class Upstream:
    """Replicas that publish the same streams; a word of theirs takes no time, or never arrives."""

    def __init__(self, inputs: Mapping[str, Sequence[str]]) -> None:
        self.inputs = inputs
        self.lines = {
            (name, stream): Line(stream, ("n",))
            for stream, names in inputs.items()
            for name in names
        }
        self.states = {name: S for names in inputs.values() for name in names}
        self.down: set[str] = set()

    def publish(self, stream: str, until: int) -> list[tuple[str, Send]]:
        sends = []
        for name in self.inputs[stream]:
            line = self.lines[name, stream]
            while line.end < until:
                rows = (Row(line.end + SIZE // 2, stream, line.end),)
                segment = Segment(line.end, line.end + SIZE, rows)
                sends += [(name, send) for send in line.publish(segment)]
        return sends

    def receive(self, name: str, message: Message) -> list[tuple[str, Send]]:
        if name in self.down:
            return []
        sends: list[Send] = []
        match message:
            case Subscribe(stream):
                sends = self.lines[name, stream].subscribe("n", message)
            case Unsubscribe(stream):
                self.lines[name, stream].unsubscribe("n", message)
            case Heartbeat(acks):
                for stream, ack in acks.items():
                    self.lines[name, stream].acknowledge("n", ack)
                sends = [Send("n", Vitals(self.vitals(name)))]
        return [(name, send) for send in sends]

    def vitals(self, name: str) -> dict[str, Progress]:
        return {
            stream: Progress(
                self.states[name], line.end, line.dropped_before, *line.subscription("n")
            )
            for (replica, stream), line in self.lines.items()
            if replica == name
        }


class Rig:
    """A node with its upstreams, a stage that merges its inputs, and one reader."""

    def __init__(
        self,
        *,
        reach: Reach = UNION,
        span: float = 0,
        peers: tuple[str, ...] = (),
        lost: bool = False,
        retention: Retention | None = None,
        inputs: Mapping[str, Sequence[str]] | None = None,
        delays: Delays | None = None,
        **settings: Any,
    ) -> None:
        inputs = inputs or {"a": ("x", "y"), "b": ("z",)}
        self.place = Place(
            "n",
            peers,
            inputs,
            {"o": reach},
            {"o": ("r",)},
            {"o": retention} if retention else {},
            span,
        )
        delays = delays or Delays(DELAY)
        self.settings = Settings(SIZE, delays, heartbeat=BEAT, missed=2, **settings)
        self.upstream = Upstream(inputs)
        self.now = 0
        self.node = Node(self.place, self.settings, 0, lost=lost)
        self.commands: list[tuple[int, Command]] = []
        self.items: list[tuple[int, str]] = []
        self.rows: list[Row] = []
        self.waiting: deque[Work] = deque()
        self.auto = True
        self.saves = True
        self.do(self.node.receive("r", Subscribe("o", 1, 0, 0), 0))

    def do(self, commands: Sequence[Command]) -> None:
        todo: deque[Command] = deque(commands)
        while todo:
            command = todo.popleft()
            match command:
                case Send(to, message) if to == "r":
                    self.read(message)
                case Send(to, message):
                    self.commands.append((self.now, command))
                    if to in self.upstream.states:
                        for name, send in self.upstream.receive(to, message):
                            todo.extend(self.node.receive(name, send.message, self.now))
                case Work():
                    self.commands.append((self.now, command))
                    self.waiting.append(command)
                    if self.auto:
                        todo.extend(self.work())
                case _:
                    self.commands.append((self.now, command))

    def work(self) -> list[Command]:
        """Let the stage finish what it is at."""
        work = self.waiting.popleft()
        rows = sorted((row for rows in work.bucket.rows.values() for row in rows), key=str)
        commands = self.node.finished(work, {"o": rows}, self.now)
        if self.saves and not work.tentative:
            commands += self.node.saved(work.bucket.number + 1, self.now)
        return commands

    def finish(self) -> None:
        self.do(self.work())

    def read(self, message: Message) -> None:
        if not isinstance(message, Feed):
            return
        for item in message.items:
            match item:
                case Stable(segment):
                    self.rows += segment.rows
                    word = f"S{segment.start}"
                case Preview(segment):
                    word = f"T{segment.start}"
                case Undo(boundary):
                    word = f"U{boundary}"
                case RecDone():
                    word = "R"
                case Gap(start):
                    word = f"G{start}"
                case _:
                    raise AssertionError(item)
            self.items.append((self.now, word))

    @property
    def words(self) -> str:
        return " ".join(word for _, word in self.items)

    def publish(self, stream: str, until: int) -> None:
        for name, send in self.upstream.publish(stream, until):
            if name not in self.upstream.down:
                self.do(self.node.receive(name, send.message, self.now))

    def advance(self, to: int) -> None:
        while self.node.next_wake <= to:
            self.now = max(self.now, int(self.node.next_wake))
            self.do(self.node.wake(self.now))
        self.now = to

    def run(self, to: int, streams: Sequence[str] = ("a", "b")) -> None:
        """Publish every bucket of the streams a little after its end."""
        for end in range(self.now // SIZE * SIZE + SIZE, to + 1, SIZE):
            self.advance(end + LAG)
            for stream in streams:
                self.publish(stream, end)

    def of(self, kind: type) -> list[tuple[int, Any]]:
        return [(now, command) for now, command in self.commands if isinstance(command, kind)]

    def sent(self, kind: type) -> list[tuple[str, Any]]:
        return [(c.to, c.message) for _, c in self.of(Send) if isinstance(c.message, kind)]

    def ask(self) -> State:
        """What the reader is told of the stream."""
        [answer] = [
            c.message
            for c in self.node.receive("r", Heartbeat({}), self.now)
            if isinstance(c, Send) and isinstance(c.message, Vitals)
        ]
        return answer.streams["o"].state

    def check(self, until: int, *, since: int = 0) -> None:
        expected = [
            Row(start + SIZE // 2, stream, start)
            for start in range(since, until, SIZE)
            for stream in ("a", "b")
        ]
        assert self.rows == expected


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


def test_while_the_base_catches_up_the_node_is_stabilizing_and_the_fork_goes_on() -> None:
    rig = Rig()
    rig.run(500)
    rig.upstream.down = {"z"}
    rig.run(1200, ["a"])
    rig.auto = False
    rig.upstream.down = set()
    rig.publish("b", 1100)
    rig.advance(1240)
    assert rig.node.state is Z
    assert rig.ask() is Z
    assert rig.node.working is not None
    assert not rig.node.working.tentative
    rig.publish("a", 1300)
    rig.finish()
    [work] = rig.waiting
    assert (work.tentative, work.bucket.number) == (True, 12)
    rig.finish()
    rig.auto = True
    rig.finish()
    assert "U500 S500" in rig.words
    rig.publish("b", 1300)
    rig.advance(1500)
    assert rig.node.state is S
    rig.check(1300)


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


# A stage that is restarted


def test_a_restarted_stage_does_again_what_was_not_safe_and_publishes_it_once() -> None:
    rig = Rig()
    rig.run(500)
    rig.saves = False
    rig.run(800)
    before = rig.words
    rig.do(rig.node.restarted(5, rig.now))
    redone = [work.bucket.number for _, work in rig.of(Work)][-3:]
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
    assert rig.node.intakes["a"].is_paused
    assert rig.node.intakes["a"].position == 900
    assert [to for to, _ in rig.sent(Unsubscribe)] == ["x"]
    rig.upstream.down = set()
    rig.publish("b", 2000)
    rig.run(2500)
    assert not rig.node.intakes["a"].is_paused
    rig.check(2500)


def test_a_full_line_stops_the_base_until_the_reader_acknowledges() -> None:
    rig = Rig(retention=Retention(300))
    rig.run(1000)
    assert rig.node.lines["o"].end == 300
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
