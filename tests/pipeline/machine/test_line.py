"""What each reader of a line is told, in which order, and what the line keeps for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.machine.messages import (
    Again,
    Feed,
    Gap,
    Item,
    LogPiece,
    Preview,
    Read,
    RecDone,
    Send,
    Stable,
    Subscribe,
    Undo,
    Unsubscribe,
)
from holdfast.pipeline.machine.output_log import AT_ONCE, NEWEST_PREVIEWS, WINDOW, Line, Retention
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.machine.tuples import Row, Segment


def subscription_of(line: Line) -> tuple[int, int]:
    progress = line.progress("r", State.STABLE)
    return progress.subscription, progress.sent


def piece(start: int, end: int, value: object = "right") -> Segment:
    return Segment(start, end, tuple(Row(time, "k", value) for time in range(start, end, 5)))


def guess(start: int, end: int) -> Segment:
    return piece(start, end, "guess")


def brief(item: Item) -> str:
    match item:
        case Stable(s):
            return f"S{s.start}-{s.end}"
        case Preview(s):
            return f"T{s.start}-{s.end}"
        case Undo(boundary):
            return f"U{boundary}"
        case RecDone():
            return "R"
        case Gap(start):
            return f"G{start}"
        case Again(s, attempt):
            return f"A{s.start}-{s.end}#{attempt}"


def told(sends: Sequence[Send], reader: str = "r") -> str:
    feeds = [send.message for send in sends if send.to == reader]
    assert all(isinstance(feed, Feed) for feed in feeds)
    return " ".join(brief(item) for feed in feeds for item in feed.items)  # type: ignore[union-attr]


def make(*readers: str, **options: object) -> Line:
    return Line("s", readers or ("r",), **options)  # type: ignore[arg-type]


def join(
    line: Line,
    reader: str = "r",
    after: int = 0,
    shown: int | None = None,
    *,
    number: int = 1,
    previews: bool = True,
    standing: bool = True,
) -> str:
    asked = Subscribe("s", number, after, after if shown is None else shown, previews, standing)
    return told(line.subscribe(reader, asked), reader)


# The five special cases of the output operator (digest of delay-process-correct, §3.7)


def test_normally_the_line_passes_on_what_is_published() -> None:
    line = make()
    assert join(line) == "R"
    assert told(line.publish(piece(0, 10))) == "S0-10"
    assert told(line.publish(piece(10, 20))) == "S10-20"
    assert told(line.preview(guess(20, 30))) == "T20-30"
    assert told(line.preview(guess(30, 40))) == "T30-40"


def test_after_a_restart_duplicates_are_dropped_and_one_undo_comes_before_anything_stable() -> None:
    line = make()
    join(line)
    line.publish(piece(0, 10))
    line.publish(piece(10, 20))
    line.preview(guess(20, 30))
    assert told(line.publish(piece(0, 10))) == ""
    assert told(line.publish(piece(10, 20))) == ""
    assert told(line.publish(piece(20, 30))) == "U20 S20-30 R"
    assert told(line.publish(piece(30, 40))) == "S30-40"


def test_a_second_restart_while_duplicates_are_being_dropped_changes_nothing() -> None:
    line = make()
    join(line)
    for start in (0, 10, 20):
        line.publish(piece(start, start + 10))
    line.preview(guess(30, 40))
    assert told(line.publish(piece(0, 10))) == ""
    assert told(line.publish(piece(0, 10))) == ""
    assert told(line.publish(piece(10, 20))) == ""
    assert told(line.publish(piece(0, 10))) == ""
    assert told(line.publish(piece(20, 30))) == ""
    assert told(line.publish(piece(30, 40))) == "U30 S30-40 R"


def test_a_new_failure_before_all_is_corrected_puts_rec_done_off() -> None:
    """The thesis forces a REC_DONE between the last correction and the first new preview. Here
    nothing waits for it: a reader is told of every UNDO, and REC_DONE comes when it is true. What
    was previewed and withdrawn is not previewed again."""
    line = make()
    join(line)
    line.publish(piece(0, 10))
    line.preview(guess(10, 20))
    line.preview(guess(20, 30))
    assert told(line.publish(piece(10, 20))) == "U10 S10-20"
    assert told(line.preview(guess(30, 40))) == "T30-40"
    assert told(line.publish(piece(20, 30))) == "U20 S20-30"
    assert told(line.publish(piece(30, 40))) == "S30-40 R"


def test_a_new_failure_after_all_is_corrected_comes_after_rec_done() -> None:
    line = make()
    join(line)
    line.preview(guess(0, 10))
    assert told(line.publish(piece(0, 10))) == "U0 S0-10 R"
    assert told(line.preview(guess(10, 20))) == "T10-20"
    assert told(line.publish(piece(10, 20))) == "U10 S10-20 R"


def test_with_nothing_tentative_a_restart_only_drops_duplicates() -> None:
    line = make()
    join(line)
    line.publish(piece(0, 10))
    line.publish(piece(10, 20))
    assert told(line.publish(piece(0, 10))) == ""
    assert told(line.publish(piece(10, 20))) == ""
    assert told(line.publish(piece(20, 30))) == "S20-30"


def test_of_a_piece_that_is_known_in_part_the_rest_is_new() -> None:
    line = make()
    join(line)
    line.publish(piece(0, 10))
    [send] = line.publish(piece(0, 20))
    assert isinstance(send.message, Feed)
    assert send.message.items == (Stable(piece(10, 20)),)


# Readers at their own places


def test_the_undo_is_at_the_place_of_each_reader() -> None:
    line = make("behind", "level", "new")
    for start in (0, 10, 20):
        line.publish(piece(start, start + 10))
    line.preview(guess(30, 40))
    assert join(line, "behind", 10, 40) == "U10 S10-20 S20-30"
    assert join(line, "level", 30, 40) == ""
    assert join(line, "new", 30) == "T30-40"
    sends = line.publish(piece(30, 40))
    assert told(sends, "behind") == "S30-40 R"
    assert told(sends, "level") == "U30 S30-40 R"
    assert told(sends, "new") == "U30 S30-40 R"


def test_a_reader_that_is_behind_gets_what_it_lacks() -> None:
    line = make()
    for start in range(0, 50, 10):
        line.publish(piece(start, start + 10))
    assert join(line, after=30) == "S30-40 S40-50 R"


def test_a_reader_that_is_ahead_waits_until_the_line_is_where_it_is() -> None:
    line = make()
    for start in range(0, 30, 10):
        line.publish(piece(start, start + 10))
    assert join(line, after=50) == ""
    assert told(line.preview(guess(30, 40))) == ""
    assert told(line.publish(piece(30, 40))) == ""
    assert told(line.publish(piece(40, 50))) == "R"
    assert told(line.publish(piece(50, 60))) == "S50-60"


def test_a_reader_that_is_ahead_is_shown_previews_beyond_its_place_only() -> None:
    line = make()
    line.publish(piece(0, 30))
    join(line, after=50)
    assert told(line.preview(guess(40, 60))) == "T50-60"
    assert told(line.publish(piece(30, 60))) == "U50 S50-60 R"


def test_a_place_within_a_piece_cuts_it() -> None:
    line = make()
    line.publish(piece(0, 10))
    line.publish(piece(10, 20))
    assert join(line, after=15) == "S15-20 R"


def test_a_reader_in_the_background_sees_corrections_only() -> None:
    line = make()
    line.publish(piece(0, 10))
    line.preview(guess(10, 20))
    assert join(line, after=0, shown=30, previews=False) == "U0 S0-10"
    assert told(line.preview(guess(20, 30))) == ""
    assert told(line.publish(piece(10, 20))) == "S10-20"
    assert told(line.publish(piece(20, 30))) == "S20-30 R"


def test_rec_done_ends_a_replay() -> None:
    line = make()
    line.publish(piece(0, 10))
    line.publish(piece(10, 20))
    assert join(line, after=0, shown=20) == "U0 S0-10 S10-20 R"


@pytest.mark.parametrize("previews", [True, False])
def test_rec_done_waits_for_what_the_reader_was_shown_elsewhere(previews: bool) -> None:
    line = make()
    line.publish(piece(0, 20))
    assert join(line, after=20, shown=40, previews=previews) == ""
    assert told(line.publish(piece(20, 30))) == "U20 S20-30"
    assert told(line.publish(piece(30, 40))) == "S30-40 R"


def test_rec_done_waits_for_it_even_if_less_is_previewed_here() -> None:
    line = make()
    line.publish(piece(0, 20))
    join(line, after=20, shown=70)
    assert told(line.publish(piece(20, 30))) == "U20 S20-30"
    assert told(line.preview(guess(30, 40))) == ""
    assert told(line.publish(piece(30, 40))) == "S30-40"
    assert told(line.publish(piece(40, 70))) == "S40-70 R"


def test_a_reader_from_another_replica_is_shown_the_newest_previews() -> None:
    line = make()
    line.publish(piece(0, 10))
    for start in range(10, 40, 10):
        line.preview(guess(start, start + 10))
    assert join(line, after=10) == "T10-20 T20-30 T30-40"
    assert join(line, after=10, shown=30, number=2) == "T30-40"
    assert join(line, after=20, number=3) == "T20-30 T30-40"


def test_only_the_newest_previews_are_kept() -> None:
    line = make()
    for start in range(0, 10 * (NEWEST_PREVIEWS + 5), 10):
        line.preview(guess(start, start + 10))
    assert join(line).split()[0] == "T50-60"
    assert len(join(line, number=2).split()) == NEWEST_PREVIEWS


def test_what_stands_is_not_shown_again_in_a_longer_preview() -> None:
    line = make()
    join(line)
    line.publish(piece(0, 10))
    assert told(line.preview(guess(10, 20))) == "T10-20"
    assert told(line.preview(guess(10, 30))) == "T20-30"
    assert told(line.publish(piece(10, 15))) == "U10 S10-15"
    assert told(line.preview(guess(10, 40))) == "T15-40"


def test_what_was_withdrawn_elsewhere_is_part_of_a_longer_preview() -> None:
    """A reader that subscribes anew is told the same as one that stays."""
    line = make()
    line.publish(piece(0, 10))
    line.preview(guess(10, 20))
    assert join(line, after=15, shown=30, standing=False) == ""
    assert told(line.preview(guess(10, 40))) == "T15-40"
    assert told(line.publish(piece(10, 40))) == "U15 S15-40 R"


def test_a_preview_of_what_is_stable_is_not_shown() -> None:
    line = make()
    join(line)
    line.publish(piece(0, 10))
    assert told(line.preview(guess(0, 10))) == ""
    assert line.is_corrected


# Subscriptions


def test_stale_subscriptions_are_ignored() -> None:
    line = make()
    line.publish(piece(0, 10))
    assert join(line, number=5) == "S0-10 R"
    assert join(line, number=5) == ""
    assert join(line, number=4) == ""
    line.unsubscribe("r", Unsubscribe("s", 4))
    assert subscription_of(line) == (5, 1)
    assert told(line.publish(piece(10, 20))) == "S10-20"
    line.unsubscribe("r", Unsubscribe("s", 5))
    assert subscription_of(line) == (-1, 0)
    assert line.publish(piece(20, 30)) == []
    assert join(line, after=20, number=6) == "S20-30 R"


def test_guests_are_served_but_hold_nothing() -> None:
    line = make("r")
    line.publish(piece(0, 10))
    assert join(line, "guest") == "S0-10 R"
    line.acknowledge("guest", 5)
    line.acknowledge("r", 10)
    assert line.dropped_before == 10
    line.leave("guest")
    assert line.publish(piece(10, 20)) == []


def test_a_reader_is_not_sent_more_than_it_can_read() -> None:
    line = make()
    for start in range(0, 1000, 10):
        line.publish(piece(start, start + 10))
    line.preview(guess(1000, 1010))
    first = [
        item for send in line.subscribe("r", Subscribe("s", 1, 0, 0)) for item in send.message.items
    ]
    assert len(first) == AT_ONCE
    assert line.confirm("r", 0) == []
    assert told(line.confirm("r", 20)) == "S320-330 S330-340"
    for place in (340, 660, 980):
        last = told(line.confirm("r", place))
    assert last == "S980-990 S990-1000 T1000-1010", "previews when it has caught up"


class Heavy:
    """A value that tells its size, as chunks do."""

    def __init__(self, size: int) -> None:
        self.size = size


def test_a_reader_is_not_sent_more_bytes_than_it_can_read() -> None:
    line = make()
    for start in range(0, 100, 10):
        line.publish(Segment(start, start + 10, (Row(start, "k", Heavy(WINDOW // 4)),)))
    assert join(line) == "S0-10 S10-20 S20-30 S30-40 R"
    assert told(line.confirm("r", 20)) == "S40-50 S50-60"
    assert told(line.confirm("r", 60)) == "S60-70 S70-80 S80-90 S90-100"


def test_a_segment_larger_than_the_window_goes_out_alone() -> None:
    line = make()
    for start in range(0, 30, 10):
        line.publish(Segment(start, start + 10, (Row(start, "k", Heavy(3 * WINDOW)),)))
    assert join(line) == "S0-10 R"
    assert told(line.confirm("r", 10)) == "S10-20"
    assert told(line.confirm("r", 20)) == "S20-30"


def test_a_reading_of_an_earlier_subscription_does_not_count() -> None:
    line = make()
    for start in range(0, 1000, 10):
        line.publish(piece(start, start + 10))
    join(line, number=1)
    join(line, number=2)
    assert line.read("r", Read("s", 1, 320)) == []
    assert line.read("other", Read("s", 2, 320)) == []
    assert told(line.read("r", Read("s", 2, 10))) == "S320-330"


def test_messages_of_a_subscription_are_numbered_from_0() -> None:
    line = make()
    numbers = []
    sends = line.subscribe("r", Subscribe("s", 7, 0, 0))
    sends += line.publish(piece(0, 10)) + line.preview(guess(10, 20)) + line.publish(piece(10, 20))
    for send in sends:
        assert isinstance(send.message, Feed)
        assert send.message.subscription == 7
        numbers.append(send.message.number)
    assert numbers == [0, 1, 2, 3]
    assert subscription_of(line) == (7, 4)


def test_a_piece_is_sent_again_on_request() -> None:
    line = make("r", "other")
    join(line)
    line.publish(piece(0, 10))
    assert told(line.repeat("r", Again(piece(0, 10), 2))) == "A0-10#2"
    assert line.repeat("other", Again(piece(0, 10), 1)) == []


# What is kept


def test_one_dead_reader_holds_everything_until_it_returns() -> None:
    line = make("a", "b", "dead")
    for start in range(0, 50, 10):
        line.publish(piece(start, start + 10))
    line.acknowledge("a", 50)
    line.acknowledge("b", 40)
    assert (line.dropped_before, len(line.segments)) == (0, 5)
    assert join(line, "dead", 0) == "S0-10 S10-20 S20-30 S30-40 S40-50 R"
    line.acknowledge("dead", 25)
    assert (line.dropped_before, len(line.segments)) == (20, 3)
    line.acknowledge("dead", 50)
    assert (line.dropped_before, len(line.segments)) == (40, 1)
    line.acknowledge("b", 50)
    assert (line.dropped_before, len(line.segments)) == (50, 0)


def test_an_older_acknowledgement_takes_nothing_back() -> None:
    line = make("a")
    line.publish(piece(0, 10))
    line.publish(piece(10, 20))
    line.acknowledge("a", 10)
    line.acknowledge("a", 0)
    assert line.dropped_before == 10


def test_an_acknowledgement_ahead_of_the_line_drops_only_what_is_there() -> None:
    line = make("a")
    line.publish(piece(0, 10))
    line.acknowledge("a", 50)
    assert line.dropped_before == 10
    line.publish(piece(10, 20))
    assert (line.dropped_before, len(line.segments)) == (20, 0)
    join(line, "a", 50)
    assert told(line.publish(piece(20, 60)), "a") == "S50-60 R"


def test_a_convergent_line_drops_by_span_and_readers_behind_get_a_gap() -> None:
    line = make("r", "ahead", retention=Retention(30, convergent=True))
    for start in range(0, 100, 10):
        line.publish(piece(start, start + 10))
    assert (line.dropped_before, len(line.segments)) == (70, 3)
    assert not line.is_full
    assert join(line, after=20, shown=50) == "U20 G70 S70-80 S80-90 S90-100 R"
    assert join(line, "ahead", 80) == "S80-90 S90-100 R"


def test_a_line_that_jumped_says_where_it_goes_on() -> None:
    line = make()
    join(line)
    line.publish(piece(0, 10))
    line.skip(40)
    assert line.is_corrected
    assert told(line.publish(piece(20, 30))) == ""
    assert told(line.publish(piece(40, 50))) == "G40 S40-50"
    assert join(line, after=0, number=2) == "S0-10 G40 S40-50 R"


def test_a_peer_is_sent_nothing_from_beyond_a_hole() -> None:
    line = make()
    line.publish(piece(0, 10))
    line.skip(40)
    line.publish(piece(40, 50))
    line.publish(piece(50, 60))
    assert line.older(60) == LogPiece("s", 60, 40, (piece(40, 50), piece(50, 60)))
    assert line.older(40) == LogPiece("s", 40, 40, ())


def test_another_line_becomes_full_and_is_freed_by_the_last_acknowledgement() -> None:
    line = make("a", "b", retention=Retention(30))
    for start in range(0, 30, 10):
        assert not line.is_full
        line.publish(piece(start, start + 10))
    assert line.is_full
    line.acknowledge("a", 30)
    assert line.is_full
    line.acknowledge("b", 10)
    assert not line.is_full
    line.publish(piece(30, 40))
    assert line.is_full


def test_a_line_without_a_bound_is_never_full() -> None:
    line = make()
    line.publish(piece(0, 10**6))
    assert not line.is_full
    assert Retention().span == math.inf


@pytest.mark.parametrize("span", [0, -1])
def test_a_span_of_nothing_is_refused(span: int) -> None:
    with pytest.raises(InvalidArgumentError, match="retain"):
        Retention(span)


def test_a_line_restored_from_a_peer_goes_on_where_that_one_was() -> None:
    peer = make("r")
    for start in range(0, 40, 10):
        peer.publish(piece(start, start + 10))
    peer.acknowledge("r", 20)
    line = make("r")
    line.restore(tuple(peer.segments.since(0)), peer.end)
    assert (line.end, line.dropped_before) == (40, 20)
    assert join(line, after=20) == "S20-30 S30-40 R"
    assert join(line, after=0, number=2) == "G20 S20-30 S30-40 R"
    assert told(line.publish(piece(40, 50))) == "S40-50"
    empty = make("r")
    empty.restore((), 40)
    assert join(empty, after=10) == "G40 R"


# Properties


class Reader:
    """Applies what it is told, and minds the order."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.rows: list[Row] = []
        self.previews: list[Row] = []
        self.position = 0
        self.shown = 0
        self.number = 0
        self.corrected = True

    def join(self, previews: bool) -> None:
        self.number += 1
        asked = Subscribe("s", self.number, self.position, self.shown, previews)
        self.take(self.line.subscribe("r", asked))

    def take(self, sends: Sequence[Send]) -> None:
        for send in sends:
            assert isinstance(send.message, Feed)
            for item in send.message.items:
                self.apply(item)

    def apply(self, item: Item) -> None:
        match item:
            case Stable(segment):
                assert segment.start == self.position
                assert self.shown == self.position, "no UNDO before something stable"
                self.rows += segment.rows
                self.position = self.shown = segment.end
            case Preview(segment):
                assert self.position <= segment.start
                assert segment.end > self.shown
                self.shown = segment.end
                self.corrected = False
            case Undo(boundary):
                assert boundary == self.position
                assert self.shown > self.position, "an UNDO of nothing"
                self.shown = self.position
            case RecDone():
                assert self.shown == self.position
                self.corrected = True


@pytest.mark.parametrize("seed", range(60))
def test_dropping_previews_and_undos_leaves_the_stable_stream(seed: int) -> None:
    random = Random(seed)
    line = make()
    reader = Reader(line)
    base = fork = 0
    for _ in range(200):
        match random.randrange(6):
            case 0 | 1:
                size = random.choice([5, 10, 15])
                reader.take(line.publish(piece(base, base + size)))
                base += size
                fork = max(fork, base)
            case 2 | 3:
                reader.take(line.preview(guess(fork, fork + 10)))
                fork += 10
            case 4:
                base = fork = max(0, base - random.choice([0, 0, 10, 30]))
            case 5:
                reader.join(random.random() < 0.8)
    while line.end < line.previewed or reader.position < line.end or not reader.corrected:
        reader.take(line.publish(piece(base, base + 10)))
        base += 10
        reader.join(previews=True)
    assert reader.rows == list(piece(0, reader.position).rows)


def test_whoever_reads_for_a_seat_acknowledges_for_it() -> None:
    line = Line("readings", ["clean@1", "clean@2"])
    assert line.knows("clean@2/1")
    assert not line.knows("clean@3/1")
    line.publish(Segment(0, 10, ()))
    line.acknowledge("clean@1/1", 7)
    line.acknowledge("clean@2/1", 5)
    line.acknowledge("clean@2/2", 4)
    line.acknowledge("clean@3/1", 1)
    assert line.acknowledged == 5
