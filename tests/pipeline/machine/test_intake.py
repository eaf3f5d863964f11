"""Reading one stream from several replicas: none of it is lost, repeated or undone."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from types import SimpleNamespace

import pytest

from holdfast.pipeline.machine.messages import (
    Feed,
    Gap,
    Item,
    Message,
    Preview,
    Progress,
    RecDone,
    Send,
    Stable,
    Subscribe,
    Undo,
    Unsubscribe,
)
from holdfast.pipeline.machine.output_log import Line
from holdfast.pipeline.machine.replica_selection import Choice
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.machine.subscription import HEAVY, Subscription, SwitchIntake
from holdfast.pipeline.machine.tuples import Row, Segment

STABLE, UP, FIXING, GONE = State.STABLE, State.UP_FAILURE, State.STABILIZATION, State.FAILURE
NAMES = ("x", "y", "z")
GRACE = 20


def piece(start: int, end: int, value: object = "right") -> Segment:
    return Segment(start, end, tuple(Row(time, "k", value) for time in range(start, end, 5)))


def make(*names: str, position: int = 0) -> SwitchIntake:
    return SwitchIntake("s", names or NAMES, grace=GRACE, position=position)


def read_on(intake: SwitchIntake, now: int = 0, **states: State) -> list[Send]:
    return intake.read_on(states, dict.fromkeys(states, 0), now)


def asked(sends: Sequence[Send]) -> list[tuple[str, Subscribe]]:
    return [(s.to, s.message) for s in sends if isinstance(s.message, Subscribe)]


def left(sends: Sequence[Send]) -> list[str]:
    return [s.to for s in sends if isinstance(s.message, Unsubscribe)]


class Feeder:
    """Numbers the messages of a replica's newest subscription."""

    def __init__(self, intake: SwitchIntake) -> None:
        self.intake = intake
        self.numbers: dict[str, tuple[int, int]] = {}

    def follow(self, sends: Sequence[Send]) -> None:
        for name, ask in asked(sends):
            self.numbers[name] = ask.subscription, 0

    def feed(self, name: str, *items: Item, now: int = 1) -> tuple[list[Item], list[Send]]:
        subscription, number = self.numbers[name]
        self.numbers[name] = subscription, number + 1
        news, sends = self.intake.take(name, Feed("s", subscription, number, items), now)
        self.follow(sends)
        return news, sends


def connect(now: int = 0, **states: State) -> tuple[SwitchIntake, Feeder]:
    intake = make(*states)
    feeder = Feeder(intake)
    feeder.follow(read_on(intake, now, **states))
    return intake, feeder


# Switching


def test_the_first_subscription_is_from_the_beginning_with_previews() -> None:
    intake = make()
    [(name, ask)] = asked(read_on(intake, 5, x=STABLE, y=STABLE, z=STABLE))
    assert (name, ask.after, ask.shown, ask.previews) == ("x", 0, 0, True)
    assert read_on(intake, 6, x=STABLE, y=STABLE, z=STABLE) == []


def test_a_better_replica_is_asked_from_where_the_other_was_left() -> None:
    intake, feeder = connect(x=STABLE, y=STABLE)
    feeder.feed("x", Stable(piece(0, 30)), Preview(piece(30, 40, "guess")))
    sends = read_on(intake, 9, x=GONE, y=STABLE)
    [(name, ask)] = asked(sends)
    assert (name, ask.after, ask.shown, ask.previews) == ("y", 30, 40, True)
    assert left(sends) == ["x"]


def test_numbers_of_subscriptions_grow_over_a_restart() -> None:
    intake = make()
    [(_, before)] = asked(read_on(intake, 100, x=STABLE, y=STABLE, z=STABLE))
    intake = make()
    [(_, after)] = asked(read_on(intake, 200, x=STABLE, y=STABLE, z=STABLE))
    assert after.subscription > before.subscription


def test_corrections_come_from_a_second_replica_in_the_background() -> None:
    intake, feeder = connect(x=UP, y=UP)
    feeder.feed("x", Preview(piece(0, 10, "guess")))
    [(name, ask)] = asked(sends := read_on(intake, 9, x=UP, y=FIXING))
    feeder.follow(sends)
    assert (name, ask.previews, ask.shown) == ("y", False, 10)
    news, _ = feeder.feed("y", Undo(0), Stable(piece(0, 10)))
    assert news == [Undo(0), Stable(piece(0, 10))]
    news, _ = feeder.feed("x", Preview(piece(10, 20, "guess")))
    assert news == [Preview(piece(10, 20, "guess"))]


def test_the_background_replica_becomes_the_current_one_at_rec_done() -> None:
    intake, feeder = connect(x=UP, y=FIXING)
    feeder.feed("x", Preview(piece(0, 10, "guess")))
    news, sends = feeder.feed("y", Stable(piece(0, 10)), RecDone(), now=5)
    assert news == [Undo(0), Stable(piece(0, 10)), RecDone()]
    assert intake.choice == Choice("y")
    assert left(sends) == ["x"]
    [(name, ask)] = asked(sends)
    assert (name, ask.previews, ask.after) == ("y", True, 10)
    assert intake.caught_up == {"y"}
    assert intake.take("x", Feed("s", 0, 1, (Preview(piece(10, 20)),)), 6) == ([], [])
    assert read_on(intake, 7, x=UP, y=FIXING) == [], "its old state does not undo the step"


def test_a_background_replica_that_is_left_alone_is_asked_for_previews_too() -> None:
    intake, feeder = connect(x=UP, y=FIXING)
    feeder.feed("y", Stable(piece(0, 10)))
    sends = read_on(intake, 5, x=GONE, y=FIXING)
    [(name, ask)] = asked(sends)
    assert (name, ask.previews, ask.after) == ("y", True, 10)
    assert left(sends) == ["x"]


def test_previews_are_taken_from_the_current_replica_only() -> None:
    _, feeder = connect(x=UP, y=FIXING)
    assert feeder.feed("y", Preview(piece(0, 10, "guess"))) == ([], [])


def test_previews_of_replicas_that_cut_differently_are_shown_once() -> None:
    intake, feeder = connect(x=UP, y=UP)
    first = feeder.feed("x", Stable(piece(0, 10)), Preview(piece(10, 20)))[0]
    assert first == [Stable(piece(0, 10)), Preview(piece(10, 20))]
    feeder.follow(read_on(intake, 2, x=GONE, y=UP))
    assert feeder.feed("y", Preview(piece(10, 30)))[0] == [Preview(piece(20, 30))]
    withdrawn = feeder.feed("y", Stable(piece(10, 15)), Preview(piece(10, 40)))[0]
    assert withdrawn == [Undo(10), Stable(piece(10, 15)), Preview(piece(15, 40))]


def test_a_new_subscription_says_whether_previews_stand() -> None:
    intake, feeder = connect(x=UP, y=UP)
    feeder.feed("x", Stable(piece(0, 10)), Preview(piece(10, 30)))
    [(_, ask)] = asked(sends := read_on(intake, 2, x=GONE, y=UP))
    assert (ask.after, ask.shown, ask.standing) == (10, 30, True)
    feeder.follow(sends)
    feeder.feed("y", Stable(piece(10, 15)))
    [(_, ask)] = asked(sends := read_on(intake, 3, x=UP, y=GONE))
    assert (ask.after, ask.shown, ask.standing) == (15, 30, False)
    feeder.follow(sends)
    assert feeder.feed("x", Preview(piece(15, 40)))[0] == [Preview(piece(15, 40))]


def test_stable_rows_are_taken_from_either_once() -> None:
    _, feeder = connect(x=UP, y=FIXING)
    assert feeder.feed("y", Stable(piece(0, 10)))[0] == [Stable(piece(0, 10))]
    assert feeder.feed("x", Stable(piece(0, 10)))[0] == []
    assert feeder.feed("x", Stable(piece(0, 20)))[0] == [Stable(piece(10, 20))]
    assert feeder.feed("y", Stable(piece(30, 40)))[0] == []


def test_an_undo_is_passed_on_only_before_something_stable() -> None:
    _, feeder = connect(x=STABLE)
    assert feeder.feed("x", Preview(piece(0, 10, "guess")))[0] != []
    assert feeder.feed("x", Undo(0))[0] == []
    assert feeder.feed("x", Stable(piece(0, 10)))[0] == [Undo(0), Stable(piece(0, 10))]
    assert feeder.feed("x", Stable(piece(10, 20)))[0] == [Stable(piece(10, 20))]


def test_rec_done_is_no_news_while_previews_stand() -> None:
    _, feeder = connect(x=STABLE)
    feeder.feed("x", Preview(piece(0, 10, "guess")))
    assert feeder.feed("x", RecDone())[0] == []


# What is lost


@pytest.mark.parametrize("repeat", [0, 1])
def test_repeated_messages_say_nothing(repeat: int) -> None:
    intake, feeder = connect(x=STABLE)
    subscription, _ = feeder.numbers["x"]
    feeder.feed("x", Stable(piece(0, 10)))
    feeder.feed("x", Stable(piece(10, 20)))
    again = Feed("s", subscription, repeat, (Stable(piece(20, 30)),))
    assert intake.take("x", again, 2) == ([], [])


def test_a_message_that_has_overtaken_another_waits_for_it() -> None:
    intake, feeder = connect(x=STABLE)
    subscription, _ = feeder.numbers["x"]
    early = Feed("s", subscription, 1, (Stable(piece(10, 20)),))
    late = Feed("s", subscription, 0, (Stable(piece(0, 10)),))
    assert intake.take("x", early, 7) == ([], [])
    assert intake.take("x", late, 8) == ([Stable(piece(0, 10)), Stable(piece(10, 20))], [])


def test_a_missing_message_is_noticed_and_asked_for() -> None:
    intake, feeder = connect(x=STABLE)
    subscription, _ = feeder.numbers["x"]
    feeder.feed("x", Stable(piece(0, 10)))
    intake.take("x", Feed("s", subscription, 2, (Stable(piece(20, 30)),)), 7)
    said = Progress(STABLE, 30, 0, subscription, 3)
    assert intake.check("x", said, 8, 8) == [], "it may be on its way"
    [(name, ask)] = asked(intake.check("x", said, 9, 9))
    assert (name, ask.after) == ("x", 10)
    assert ask.subscription > subscription


def test_feeds_of_strangers_and_of_old_subscriptions_are_left() -> None:
    intake, feeder = connect(x=STABLE, y=STABLE)
    subscription, _ = feeder.numbers["x"]
    feed = Feed("s", subscription - 1, 0, (Stable(piece(0, 10)),))
    assert intake.take("x", feed, 1) == ([], [])
    assert intake.take("y", feed, 1) == ([], [])
    assert intake.take("nobody", feed, 1) == ([], [])


def test_a_subscription_that_a_later_heartbeat_overtook_was_lost() -> None:
    intake, _ = connect(now=100, x=STABLE)
    unknown = Progress(STABLE, 50)
    assert intake.check("x", unknown, 100 + GRACE - 1, 900) == [], "a slow link"
    [(name, ask)] = asked(intake.check("x", unknown, 100 + GRACE, 901))
    assert (name, ask.after) == ("x", 0)


def test_the_last_message_is_missed_when_the_replica_says_it_again() -> None:
    intake, feeder = connect(x=STABLE)
    subscription, _ = feeder.numbers["x"]
    said = Progress(STABLE, 50, 0, subscription, 1)
    assert intake.check("x", said, 50, 50) == [], "it may be on its way"
    assert len(asked(intake.check("x", said, 60, 60))) == 1


def test_a_replica_that_loses_messages_is_left_for_one_in_the_same_state() -> None:
    intake, feeder = connect(x=STABLE, y=STABLE)
    subscription, _ = feeder.numbers["x"]
    said = Progress(STABLE, 50, 0, subscription, 1)
    intake.check("x", said, 50, 50)
    intake.check("x", said, 60, 60)
    assert asked(read_on(intake, 61, x=STABLE, y=UP)) == [], "y is worse"
    [(name, _)] = asked(read_on(intake, 62, x=STABLE, y=STABLE))
    assert name == "y"
    assert asked(read_on(intake, 63, x=STABLE, y=STABLE)) == [], "x has failed us more lately"


def test_a_replica_that_gives_nothing_is_left_for_one_that_has_more() -> None:
    intake, feeder = connect(x=UP, y=UP)
    feeder.feed("x", Preview(piece(0, 10)))
    ahead = Progress(UP, 0, previewed=20)
    intake.check("y", ahead, 10, 10)
    assert asked(read_on(intake, 11, x=UP, y=UP)) == [], "it may be on its way"
    intake.check("y", ahead, 20, 20)
    [(name, ask)] = asked(read_on(intake, 21, x=UP, y=UP))
    assert (name, ask.after, ask.shown) == ("y", 0, 10)


def test_a_replica_that_is_slow_but_goes_on_is_not_left() -> None:
    intake, feeder = connect(x=STABLE, y=STABLE)
    for start in range(0, 100, 10):
        intake.check("y", Progress(STABLE, 1_000, previewed=1_000), start, start)
        feeder.feed("x", Stable(piece(start, start + 10)))
        assert asked(read_on(intake, start, x=STABLE, y=STABLE)) == []


# Gaps, and room


def test_a_gap_sends_the_reader_to_another_replica() -> None:
    intake, feeder = connect(x=STABLE, y=STABLE)
    assert feeder.feed("x", Gap(50), Stable(piece(50, 60))) == ([], [])
    sends = read_on(intake, 5, x=STABLE, y=STABLE)
    [(name, ask)] = asked(sends)
    assert (name, ask.after, left(sends)) == ("y", 0, ["x"])
    assert intake.gap({"x": STABLE, "y": STABLE}) is None


def test_a_replica_with_a_hole_is_not_asked_again_before_the_others_had_their_turn() -> None:
    """Its line begins before our place: only the gap told that a piece of it is missing."""
    intake, feeder = connect(x=STABLE, y=STABLE)
    feeder.feed("x", Gap(50), Stable(piece(50, 60)), now=3)
    feeder.follow(read_on(intake, 5, x=STABLE, y=STABLE))
    intake.check("x", Progress(STABLE, 60, start=0), 6, 7)
    assert asked(read_on(intake, 8, x=STABLE, y=UP)) == [], "its stable line is of no use"
    assert intake.choice.current == "y"
    later = 4 + 2 * GRACE
    intake.check("x", Progress(STABLE, 60, start=0), later, later)
    [(name, _)] = asked(read_on(intake, later, x=STABLE, y=UP))
    assert name == "x", "it may have found the piece since"


def test_a_replica_that_has_not_heard_that_it_was_left_is_told_again() -> None:
    intake, feeder = connect(x=STABLE, y=STABLE)
    feeder.feed("x", Stable(piece(0, 10)))
    [(_, before)] = asked(read_on(make("x", "y"), 0, x=STABLE, y=STABLE))
    assert left(read_on(intake, 5, x=GONE, y=STABLE)) == ["x"]
    told = Progress(STABLE, 10, subscription=before.subscription, sent=1)
    assert intake.check("x", told, 6, 7) == [Send("x", Unsubscribe("s", before.subscription))]
    assert intake.check("x", Progress(STABLE, 10), 8, 9) == []


def test_what_came_after_a_gap_is_read_once_the_gap_is_given_up() -> None:
    intake, feeder = connect(x=STABLE)
    feeder.feed("x", Gap(50), Stable(piece(50, 60)), Stable(piece(60, 70)))
    assert intake.gap({"x": STABLE}) == 50
    assert [item.segment.end for item in intake.jump(50)] == [60, 70]
    assert intake.position == 70
    assert asked(read_on(intake, 6, x=STABLE)) == []


def test_only_when_nobody_has_it_there_is_a_gap() -> None:
    intake, feeder = connect(x=STABLE, y=STABLE)
    feeder.feed("x", Gap(50))
    feeder.follow(read_on(intake, 5, x=STABLE, y=STABLE))
    feeder.feed("y", Gap(40))
    assert intake.gap({"x": STABLE, "y": STABLE}) == 40
    intake.jump(40)
    assert intake.position == 40
    [(name, ask)] = asked(read_on(intake, 6, x=STABLE, y=STABLE))
    assert (name, ask.after) == ("y", 40)


def test_a_replica_that_is_away_may_still_have_it_unless_one_is_in_haste() -> None:
    intake, feeder = connect(x=STABLE, y=GONE)
    feeder.feed("x", Gap(50))
    states = {"x": STABLE, "y": GONE}
    assert intake.gap(states) is None
    assert intake.gap(states, hasty=True) == 50


def test_a_gap_before_our_place_is_none() -> None:
    intake, feeder = connect(x=STABLE)
    feeder.feed("x", Stable(piece(0, 30)))
    news, sends = feeder.feed("x", Gap(20), Stable(piece(30, 40)))
    assert (news, sends) == ([Stable(piece(30, 40))], [])
    assert intake.gap({"x": STABLE}) is None


def test_what_did_not_fit_after_a_gap_is_asked_for_again_when_the_gap_is_given_up() -> None:
    intake = make("x", "y")
    line = Line("s", ("r",))
    line.skip(1000)
    states = {"x": STABLE, "y": GONE}

    def talk(now: int) -> None:
        sends = intake.check("x", line.progress("r", STABLE), now, now)
        sends += intake.read_on(states, {"x": line.end, "y": 0}, now)
        told = line.confirm("r", intake.place_of("x"))
        for send in sends:
            if send.to == "x" and isinstance(send.message, Subscribe):
                told += line.subscribe("r", send.message)
        for send in told:
            assert isinstance(send.message, Feed)
            intake.take("x", send.message, now)

    talk(0)
    for start in range(1000, 5000, 10):
        line.publish(piece(start, start + 10))
    for now in range(10, 200, 10):
        talk(now)
    intake.check("y", Progress(STABLE, 5000, 1000), 200, 200)
    assert intake.gap(states) == 1000
    intake.jump(1000)
    for now in range(210, 700, 10):
        talk(now)
    assert intake.position == line.end


def test_a_paused_intake_reads_nothing_and_goes_on_where_it_was() -> None:
    intake, feeder = connect(x=UP, y=FIXING)
    feeder.feed("x", Stable(piece(0, 10)))
    assert sorted(left(intake.pause())) == ["x", "y"]
    assert intake.is_paused
    assert feeder.feed("x", Stable(piece(10, 20))) == ([], [])
    assert read_on(intake, 5, x=STABLE, y=STABLE) == []
    intake.resume()
    [(name, ask)] = asked(read_on(intake, 6, x=STABLE, y=STABLE))
    assert (name, ask.after) == ("x", 10)


# Everything at once


class Replica:
    """Publishes what every replica does, at its own pace, and guesses ahead now and then."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.line = Line("s", ("r",))
        self.base = self.fork = 0
        self.state = STABLE

    def step(self, random: Random) -> list[Send]:
        match random.randrange(4):
            case 0 | 1:
                return self.publish(random.choice([10, 10, 5, 20]))
            case 2 if self.state is not STABLE:
                start = self.fork = max(self.fork, self.base)
                self.fork += 10
                return self.line.preview(piece(start, start + 10, f"guess of {self.name}"))
            case 3 if random.random() < 0.1:
                self.line = Line("s", ("r",))
                for start in range(0, self.base, 5):
                    self.line.publish(piece(start, start + 5))
                self.fork = self.base
        return []

    def publish(self, size: int) -> list[Send]:
        start, self.base = self.base, self.base + size
        return self.line.publish(piece(start, self.base))

    def receive(self, message: Message) -> list[Send]:
        if isinstance(message, Subscribe):
            return self.line.subscribe("r", message)
        assert isinstance(message, Unsubscribe)
        self.line.unsubscribe("r", message)
        return []

    @property
    def progress(self) -> Progress:
        line = self.line
        return line.progress("r", self.state)


class World:
    """Three replicas, one reader and a network that loses, repeats and mixes up."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.loss = self.random.choice([0, 0.05, 0.3])
        self.repeats = self.random.choice([0, 0.2])
        self.mixes = self.random.choice([0, 0.3])
        self.replicas = {name: Replica(name) for name in NAMES}
        self.intake = make()
        self.states = dict.fromkeys(NAMES, STABLE)
        self.flying: list[tuple[str, Send | Progress]] = []
        self.now = 0
        self.rows: list[Row] = []
        self.position = 0
        self.has_previews = False

    def fly(self, replica: str, what: Sequence[Send | Progress]) -> None:
        for each in what:
            if self.random.random() >= self.loss:
                self.flying += [(replica, each)] * (1 + (self.random.random() < self.repeats))

    def send(self, sends: Sequence[Send]) -> None:
        for send in sends:
            self.fly(send.to, [send])

    def tick(self) -> None:
        self.now += 1
        for _ in range(min(len(self.flying), self.random.randrange(6))):
            mixed = self.random.random() < self.mixes
            index = self.random.randrange(len(self.flying)) if mixed else 0
            self.arrive(*self.flying.pop(index))
        if self.random.random() < 0.3:
            self.read_on()
        for name, replica in self.replicas.items():
            if self.random.random() < 0.2:
                self.fly(name, [replica.progress])
                self.fly(name, replica.line.confirm("r", self.intake.place_of(name)))

    def read_on(self) -> None:
        ends = {name: replica.line.end for name, replica in self.replicas.items()}
        self.send(self.intake.read_on(self.states, ends, self.now))

    def arrive(self, replica: str, what: Send | Progress) -> None:
        if isinstance(what, Progress):
            self.states[replica] = what.state
            self.send(self.intake.check(replica, what, self.now, self.now))
        elif what.to == "r":
            assert isinstance(what.message, Feed)
            news, sends = self.intake.take(replica, what.message, self.now)
            self.apply(news)
            self.send(sends)
        else:
            self.fly(replica, self.replicas[replica].receive(what.message))

    def apply(self, news: Sequence[Item]) -> None:
        for item in news:
            match item:
                case Stable(segment):
                    assert segment.start == self.position
                    assert not self.has_previews, "no UNDO before something stable"
                    self.position = segment.end
                    self.rows += segment.rows
                case Preview(segment):
                    assert segment.start >= self.position
                    self.has_previews = True
                case Undo(boundary):
                    assert boundary == self.position
                    assert self.has_previews, "an UNDO of nothing"
                    self.has_previews = False
                case RecDone():
                    assert not self.has_previews
        assert self.intake.position == self.position

    def shake(self) -> None:
        """Anything may happen to a replica, or to how it is seen."""
        replica = self.replicas[self.random.choice(NAMES)]
        replica.state = self.random.choice([STABLE, UP, FIXING, UP])
        self.states[self.random.choice(NAMES)] = self.random.choice(list(State))
        if self.random.random() < 0.1:
            if self.intake.is_paused:
                self.intake.resume()
            else:
                self.send(self.intake.pause())


@pytest.mark.parametrize("seed", range(100))
def test_whatever_is_switched_and_lost_the_stable_stream_is_read_once(seed: int) -> None:
    world = World(seed)
    random = world.random
    for _ in range(300):
        for name, replica in world.replicas.items():
            if random.random() < 0.3:
                world.fly(name, replica.step(random))
        if random.random() < 0.15:
            world.shake()
        world.tick()
    world.loss = world.repeats = world.mixes = 0
    world.intake.resume()
    end = max(replica.fork for replica in world.replicas.values()) + 200
    for name, replica in world.replicas.items():
        replica.state = STABLE
        while replica.base < end:
            world.fly(name, replica.publish(10))
    for _ in range(300):
        world.tick()
    assert world.position >= end
    assert not world.has_previews
    assert world.rows == list(piece(0, world.position).rows)


def test_what_has_overtaken_other_messages_is_bounded_in_bytes() -> None:
    """Whoever never sends the first message cannot fill the memory with those that follow."""
    chunk = SimpleNamespace(size=HEAVY // 4)
    feeds = [Feed("s", 7, at, (Stable(piece(10 * at, 10 * at + 1, chunk)),)) for at in range(40)]
    liar = Subscription(7, asked=0, grace=GRACE)
    for feed in feeds[1:]:
        assert list(liar.take(feed)) == []
        assert len(liar.early) <= 4
    many = Stable(piece(0, 1))
    for at in range(1, 40):
        assert list(liar.take(Feed("s", 7, at, (many,) * (HEAVY // 200)))) == []
        assert len(liar.early) <= 2, "what is in no row takes room too"
    honest = Subscription(7, asked=0, grace=GRACE)
    swapped = [feed for pair in zip(feeds[1::2], feeds[::2], strict=True) for feed in pair]
    heard = [item for feed in swapped for item in honest.take(feed)]
    assert heard == [item for feed in feeds for item in feed.items]


def test_what_comes_after_a_gap_is_held_within_bounds() -> None:
    intake, feeder = connect(x=STABLE, y=GONE)
    feeder.feed("x", Gap(1000))
    large = SimpleNamespace(size=HEAVY // 10)
    for start in range(1000, 1400, 10):
        segment = Segment(start, start + 10, (Row(start, "k", large),))
        feeder.feed("x", Stable(segment))
    held = [segment.weight for segment in intake._subscriptions["x"].beyond]
    assert sum(held) <= HEAVY + large.size + 1000
    assert len(intake.jump(1000)) == len(held)
    assert intake._subscriptions["x"].beyond_bytes == 0
