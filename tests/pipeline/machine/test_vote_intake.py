"""Reading one stream from all its replicas: what the gate lets through, once and in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.gates import First, Gate, Latest, Sample, Vote, VoteLatest
from holdfast.pipeline.machine.findings import Findings
from holdfast.pipeline.machine.messages import (
    Again,
    Feed,
    Item,
    Progress,
    Recalculate,
    Send,
    Stable,
    Subscribe,
    Unsubscribe,
)
from holdfast.pipeline.machine.output_log import Line
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.machine.tuples import Row, Segment
from holdfast.pipeline.machine.vote_subscription import Comparison, VoteIntake
from tests.pipeline.machine.vote_rig import KEY

SIZE, GRACE = 10, 20
NAMES = ("w", "x", "y", "z")
GATES: dict[str, Callable[[int], Gate]] = {
    "vote": lambda first: Vote(NAMES, first=first, ahead=8),
    "vote-latest": lambda first: VoteLatest(NAMES, first=first),
    "sample": lambda first: Sample(NAMES, key=KEY, every=3, first=first, ahead=8),
    "first": lambda first: First(NAMES, first=first, ahead=8),
    "latest": lambda first: Latest(NAMES, first=first),
}
EVERY_BUCKET = ["vote", "sample", "first"]


def make(policy: str = "vote") -> VoteIntake:
    quorum = 1 if policy in ("first", "latest") else 3
    return VoteIntake("s", GATES[policy], NAMES, size=SIZE, grace=GRACE, quorum=quorum)


def bucket(number: int, value: object = "right") -> Segment:
    start = number * SIZE
    return Segment(start, start + SIZE, (Row(start + 3, "k", value),))


class Replica:
    def __init__(self, name: str, *, lies: bool = False) -> None:
        self.name = name
        self.lies = lies
        self.line = Line("s", ("r",))
        self.silent_until = 0
        """Nothing is in the buckets before this one."""

    def publish(self) -> list[Send]:
        number = self.line.end // SIZE
        if number < self.silent_until:
            return self.line.publish(Segment(number * SIZE, (number + 1) * SIZE, ()))
        return self.line.publish(bucket(number, f"lie of {self.name}" if self.lies else "right"))

    def receive(self, send: Send) -> list[Send]:
        match send.message:
            case Subscribe():
                return self.line.subscribe("r", send.message)
            case Unsubscribe():
                self.line.unsubscribe("r", send.message)
            case Recalculate(_, start, attempt):
                found = [s for s in self.line.segments.since(start) if s.start == start]
                return self.line.repeat("r", Again(found[0], attempt)) if found else []
        return []

    @property
    def progress(self) -> Progress:
        line = self.line
        return line.progress("r", State.STABLE)


class World:
    def __init__(self, policy: str, seed: int, liars: Sequence[str] = ()) -> None:
        self.random = Random(seed)
        self.loss = 0.0
        self.mixes = 0.0
        self.intake = make(policy)
        self.replicas = {name: Replica(name, lies=name in liars) for name in NAMES}
        self.states = dict.fromkeys(NAMES, State.STABLE)
        self.flying: list[tuple[str, Send | Progress]] = []
        self.now = 0
        self.news: list[Item] = []
        self.most = 0

    def fly(self, name: str, what: Sequence[Send | Progress]) -> None:
        self.flying += [(name, each) for each in what if self.random.random() >= self.loss]

    def send(self, sends: Sequence[Send]) -> None:
        for send in sends:
            self.fly(send.to, [send])

    def tick(self) -> None:
        self.now += 1
        for _ in range(len(self.flying)):
            mixed = self.random.random() < self.mixes
            self.arrive(*self.flying.pop(self.random.randrange(len(self.flying)) if mixed else 0))
        self.send(self.intake.read_on(self.states, {}, self.now))
        for name, replica in self.replicas.items():
            if self.random.random() < 0.3:
                self.fly(name, [replica.progress])
                self.fly(name, replica.line.confirm("r", self.intake.place_of(name)))
        self.most = max(self.most, self.intake.held)

    def arrive(self, name: str, what: Send | Progress) -> None:
        if isinstance(what, Progress):
            self.send(self.intake.check(name, what, self.now, self.now))
        elif isinstance(what.message, Feed):
            news, sends = self.intake.take(name, what.message, self.now)
            self.news += news
            self.send(sends)
        else:
            self.fly(name, self.replicas[name].receive(what))

    def run(self, ticks: int, *, silent: Sequence[str] = ()) -> None:
        for _ in range(ticks):
            for name, replica in self.replicas.items():
                if name not in silent and self.random.random() < 0.4:
                    self.fly(name, replica.publish())
            self.tick()

    def settle(self, until: int) -> None:
        self.loss = self.mixes = 0
        for name, replica in self.replicas.items():
            while replica.line.end < until:
                self.fly(name, replica.publish())
        for _ in range(100):
            self.tick()

    @property
    def released(self) -> list[Segment]:
        found = []
        for item in self.news:
            assert isinstance(item, Stable)
            found.append(item.segment)
        return found


@pytest.mark.parametrize("policy", GATES)
@pytest.mark.parametrize("seed", range(15))
def test_whatever_is_lost_buckets_come_once_and_in_order(policy: str, seed: int) -> None:
    world = World(policy, seed)
    world.loss = world.random.choice([0, 0.1, 0.3])
    world.mixes = world.random.choice([0, 0.3])
    world.run(100)
    end = max(replica.line.end for replica in world.replicas.values()) + 20 * SIZE
    world.settle(end)
    released = world.released
    assert released[0].start == 0
    assert [each.end for each in released[:-1]] == [each.start for each in released[1:]]
    assert world.intake.position == released[-1].end == end
    for each in released:
        assert each.rows == bucket(each.end // SIZE - 1).rows
    if policy in EVERY_BUCKET:
        assert released == [bucket(number) for number in range(end // SIZE)]


@pytest.mark.parametrize("seed", range(10))
def test_a_liar_is_outvoted_and_named(seed: int) -> None:
    liar = NAMES[seed % 4]
    world = World("vote", seed, [liar])
    world.run(60)
    world.settle(400)
    assert world.released == [bucket(number) for number in range(world.intake.position // SIZE)]
    assert {each.replica for each in world.intake.findings.accused} == {liar}


def test_a_split_is_calculated_again_and_then_given_up() -> None:
    world = World("vote", 0, ["w", "x"])
    world.settle(100)
    findings = world.intake.findings
    assert findings.redone >= 3
    assert findings.gave_up is not None
    assert findings.gave_up.bucket == 0
    assert world.released == []


def test_a_lost_request_to_calculate_again_is_repeated() -> None:
    intake = make()
    sends = intake.read_on(dict.fromkeys(NAMES, State.STABLE), {}, 0)
    numbers = {s.to: s.message.subscription for s in sends if isinstance(s.message, Subscribe)}
    for name, value in zip(NAMES, ("lie", "lie", "right", "right"), strict=True):
        feed = Feed("s", numbers[name], 0, (Stable(bucket(0, value)),))
        _, sends = intake.take(name, feed, 2)
    asked = [send for send in sends if isinstance(send.message, Recalculate)]
    assert sorted(send.to for send in asked) == sorted(NAMES)
    again = intake.check("y", Progress(State.STABLE, 10, 0, numbers["y"], 1), 3, 3)
    assert [send.message for send in again] == [asked[0].message]


def test_replicas_may_change_their_minds_with_every_attempt() -> None:
    intake = VoteIntake(
        "s", lambda first: Vote(NAMES, first=first, attempts=9), NAMES, size=SIZE, grace=GRACE
    )
    sends = intake.read_on(dict.fromkeys(NAMES, State.STABLE), {}, 0)
    numbers = {s.to: s.message.subscription for s in sends if isinstance(s.message, Subscribe)}
    for attempt in range(8):
        for i, name in enumerate(NAMES):
            value = f"{attempt}, {i % 2}" if attempt < 7 else "right"
            item = Again(bucket(0, value), attempt) if attempt else Stable(bucket(0, value))
            news, _ = intake.take(name, Feed("s", numbers[name], attempt, (item,)), 1)
            if news:
                assert news == [Stable(bucket(0))]
    assert intake.position == SIZE


@pytest.mark.parametrize("seed", range(10))
def test_a_split_that_heals_is_got_over_however_far_the_replicas_have_run_ahead(seed: int) -> None:
    world = World("vote", seed, ["w", "x"])
    world.intake.gate.attempts = 10**6  # type: ignore[attr-defined]
    world.loss = world.random.choice([0, 0.3])
    world.run(60)
    for name in ("w", "x"):
        replica = world.replicas[name]
        line, replica.line, replica.lies = replica.line, Line("s", ("r",)), False
        while replica.line.end < line.end:
            replica.publish()
    world.settle(600)
    assert world.released == [bucket(number) for number in range(60)]


@pytest.mark.parametrize("policy", GATES)
def test_a_replica_that_tells_many_stories_fills_no_memory(policy: str) -> None:
    intake = make(policy)
    sends = intake.read_on(dict.fromkeys(NAMES, State.STABLE), {}, 0)
    [number] = [
        s.message.subscription for s in sends if s.to == "x" and isinstance(s.message, Subscribe)
    ]
    for k in range(200):
        items = (Again(bucket(5, k), k % 3), Stable(bucket(6, k)))
        intake.take("x", Feed("s", number, k, items), 1)
    assert intake.held <= 8


@pytest.mark.parametrize("hasty", [False, True])
def test_one_liar_sends_nobody_far_ahead(hasty: bool) -> None:
    intake = VoteIntake("s", GATES["vote"], NAMES, size=SIZE, grace=GRACE, enough=3)
    states = dict.fromkeys(NAMES, State.STABLE)
    intake.check("x", Progress(State.STABLE, 10, 10**15), 1, 1)
    assert intake.gap(states, hasty=hasty) is None
    for name in ("w", "y", "z"):
        intake.check(name, Progress(State.STABLE, 200, 100), 1, 1)
    assert intake.gap(states, hasty=hasty) == 100
    intake.jump(100)
    assert intake.gap(states, hasty=hasty) is None


@pytest.mark.parametrize("policy", ["vote", "sample"])
def test_one_liar_sends_nobody_far_ahead_when_an_honest_replica_is_away(policy: str) -> None:
    intake = Comparison(policy).intake("s", NAMES, size=SIZE, grace=GRACE, secret=KEY)
    states = dict.fromkeys(NAMES, State.STABLE) | {"w": State.FAILURE}
    intake.check("x", Progress(State.STABLE, 10, 10**15), 1, 1)
    for name in ("y", "z"):
        intake.check(name, Progress(State.STABLE, 200, 100), 1, 1)
    assert intake.gap(states, hasty=True) == 100
    intake.jump(100)
    assert intake.gap(states, hasty=True) is None


def test_vitals_of_strangers_are_left() -> None:
    assert make().check("nobody", Progress(State.STABLE, 10), 0, 0) == []


def test_the_newest_agreed_bucket_stands_for_those_before_it() -> None:
    world = World("latest", 0)
    for replica in world.replicas.values():
        for _ in range(5):
            replica.publish()
    world.intake.jump(0)
    world.settle(50)
    assert world.released[-1].end == 50
    assert world.released[0].start == 0


@pytest.mark.parametrize("policy", EVERY_BUCKET)
def test_what_waits_is_bounded_when_one_replica_runs_ahead(policy: str) -> None:
    world = World(policy, 1)
    others = NAMES[1:] if policy == "vote" else ()
    world.run(200, silent=others)
    assert world.most <= 3 * 8 * len(NAMES)


@pytest.mark.parametrize("policy", GATES)
def test_a_paused_intake_reads_nothing_and_goes_on_where_it_was(policy: str) -> None:
    world = World(policy, 2)
    world.run(20)
    assert all(isinstance(s.message, Unsubscribe) for s in world.intake.pause())
    before = len(world.news)
    world.run(20)
    assert len(world.news) == before
    world.intake.resume()
    world.settle(600)
    assert world.intake.position == 600


def test_feeds_of_strangers_and_of_old_subscriptions_are_left() -> None:
    intake = make("first")
    sends = intake.read_on(dict.fromkeys(NAMES, State.STABLE), {}, 50)
    assert sorted(send.to for send in sends) == sorted(NAMES)
    feed = Feed("s", 7, 0, (Stable(bucket(0)),))
    assert intake.take("w", feed, 51) == ([], [])
    assert intake.take("nobody", feed, 51) == ([], [])


def test_a_replica_that_failed_is_not_read() -> None:
    intake = make("first")
    states = {**dict.fromkeys(NAMES, State.STABLE), "x": State.FAILURE}
    assert "x" not in {send.to for send in intake.read_on(states, {}, 0)}


def test_nothing_tentative_is_asked_for() -> None:
    for send in make().read_on(dict.fromkeys(NAMES, State.STABLE), {}, 0):
        assert isinstance(send.message, Subscribe)
        assert not send.message.previews


@pytest.mark.parametrize("piece", [Segment(0, 5, ()), Segment(5, 15, ())])
def test_what_is_not_one_bucket_is_left(piece: Segment) -> None:
    intake = make("first")
    [number] = [
        send.message.subscription
        for send in intake.read_on(dict.fromkeys(NAMES, State.STABLE), {}, 0)
        if send.to == "w" and isinstance(send.message, Subscribe)
    ]
    news, _ = intake.take("w", Feed("s", number, 0, (Stable(piece), Again(piece, 1))), 1)
    assert news == []
    assert intake.held == 0


@pytest.mark.parametrize("policy", GATES)
@pytest.mark.parametrize("seed", range(5))
def test_a_long_silence_is_skipped_as_far_as_enough_replicas_agree(policy: str, seed: int) -> None:
    world = World(policy, seed, liars=["y"] if policy == "vote" else [])
    world.loss, world.mixes = 0.2, 0.2
    ends = {"w": 10**9, "x": 10**9 + 7, "y": 10**12, "z": 10**9 + 50}
    for name, replica in world.replicas.items():
        replica.silent_until = 10**9 + 60
        silence = Segment(0, ends[name] * SIZE, ())
        world.fly(name, replica.line.publish(silence))
    world.run(200)
    assert world.released[0].start == 0
    assert all(one.end == other.start for one, other in pairwise(world.released))
    if policy in ("first", "latest"):
        assert world.intake.position >= 10**12 * SIZE
        return
    # The silence of one alone is not believed where replicas may lie.
    honest = [replica for name, replica in world.replicas.items() if name != "y"]
    end = max(replica.line.end for replica in honest) + 20 * SIZE
    world.settle(end)
    assert world.intake.position == end


@pytest.mark.parametrize("policy", ["first", "latest"])
def test_after_a_jump_it_goes_on_from_there(policy: str) -> None:
    world = World(policy, 3)
    for replica in world.replicas.values():
        for _ in range(20):
            replica.publish()
        replica.line.acknowledge("r", 100)
    for _ in range(20):
        world.tick()
    assert world.intake.gap(world.states) in (None, 100)
    world.intake.jump(100)
    world.settle(300)
    assert world.intake.position == 300
    assert world.released[0].start in (0, 100)


@pytest.mark.parametrize("seed", range(5))
def test_the_votes_of_a_liar_count_no_more_until_it_is_admitted_again(seed: int) -> None:
    world = World("vote", seed, ["x"])
    world.run(60)
    world.settle(600)
    assert world.intake.findings.quarantined == {"x"}
    world.replicas["x"].lies = False
    world.replicas["w"].line = Line("s", ("r",), start=10**9 * SIZE)
    world.states["w"] = State.FAILURE
    before = world.intake.position
    world.run(60, silent=["w"])
    assert world.intake.position == before
    assert world.intake.readmit("w") == ([], [])
    news, sends = world.intake.readmit("x")
    world.news += news
    world.send(sends)
    world.run(60, silent=["w"])
    assert world.intake.position > before
    assert all(each.rows[0].value == "right" for each in world.released)


@pytest.mark.parametrize(("liars", "comes_through"), [(2, True), (3, False)])
@pytest.mark.parametrize("seed", range(3))
def test_among_seven_two_liars_are_outvoted_and_three_stop_the_stream(
    liars: int, comes_through: bool, seed: int
) -> None:
    names = tuple("abcdefg")
    intake = Comparison("vote", 2).intake("s", names, size=SIZE, grace=GRACE)
    random = Random(seed)
    lying = random.sample(names, liars)
    world = World("vote", seed)
    world.intake, world.states = intake, dict.fromkeys(names, State.STABLE)
    world.replicas = {name: Replica(name, lies=name in lying) for name in names}
    world.run(40)
    world.settle(300)
    assert all(each.rows[0].value == "right" for each in world.released)
    if comes_through:
        assert intake.position == world.released[-1].end >= 300
        assert intake.findings.quarantined == set(lying)
    else:
        assert intake.position == 0
        assert intake.findings.gave_up is not None


def test_the_fastest_rests_while_much_waits() -> None:
    """One replica publishes ten buckets where the others publish one."""

    def most_held(*, rests: bool) -> int:
        world = World("vote", 0)
        world.intake = VoteIntake(
            "s",
            lambda first: Vote(NAMES, first=first, ahead=200),
            NAMES,
            size=SIZE,
            grace=GRACE,
            enough=3,
            quorum=3,
        )
        if not rests:
            world.intake._pace.threshold = 10**9
        for tick in range(600):
            for name, replica in world.replicas.items():
                for _ in range(10 if name == "w" else tick % 2):
                    world.fly(name, replica.publish())
            world.tick()
        assert world.released[:250] == [bucket(number) for number in range(250)]
        return world.most

    assert most_held(rests=True) <= 32 + 64
    assert most_held(rests=False) >= 150


@pytest.mark.parametrize(("enough", "state"), [(1, State.STABLE), (3, State.UP_FAILURE)])
def test_a_stream_is_as_good_as_those_who_have_to_agree(enough: int, state: State) -> None:
    intake = VoteIntake("s", GATES["vote"], NAMES, size=SIZE, grace=GRACE, enough=enough)
    states = dict(
        zip(NAMES, (State.STABLE, State.FAILURE, State.UP_FAILURE, State.STABLE), strict=True)
    )
    assert intake.best(states) is state


def test_one_liar_does_not_say_how_far_the_stream_goes() -> None:
    assert make().newest({"w": 100, "x": 10**15, "y": 90, "z": 80}) == 100
    assert make("first").newest({"w": 100, "x": 10}) == 10


def test_nothing_is_read_before_all_are_there() -> None:
    intake = Comparison("vote", barrier=50).intake("s", NAMES, size=SIZE, grace=GRACE, secret=KEY)
    states = {**dict.fromkeys(NAMES, State.STABLE), "x": State.FAILURE}
    assert intake.read_on(states, {}, 100) == []
    assert intake.read_on(states, {}, 149) == []
    assert {send.to for send in intake.read_on(states, {}, 150)} == {"w", "y", "z"}


def test_only_policies_that_compare_have_an_intake() -> None:
    with pytest.raises(InvalidArgumentError, match="'switch' does not compare replicas"):
        Comparison("switch")


def test_who_was_found_lying_before_does_not_count_from_the_start() -> None:
    findings = Findings(quarantined={"w"})
    intake = Comparison("vote").intake("s", NAMES, size=SIZE, grace=GRACE, findings=findings)
    sends = intake.read_on(dict.fromkeys(NAMES, State.STABLE), {}, 0)
    numbers = {s.to: s.message.subscription for s in sends if isinstance(s.message, Subscribe)}
    for name in ("w", "x", "y"):
        feed = Feed("s", numbers[name], 0, (Stable(bucket(0)),))
        assert intake.take(name, feed, 1)[0] == []
    assert intake.take("z", Feed("s", numbers["z"], 0, (Stable(bucket(0)),)), 1)[0]
