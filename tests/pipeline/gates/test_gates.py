"""Gates over one stream under every order of arrival, silence, lies and forged numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.gates import (
    Accuse,
    Command,
    Copy,
    First,
    Gate,
    Giveup,
    Latest,
    Redo,
    Release,
    Sample,
    Split,
    Taint,
    Vote,
    VoteLatest,
)
from tests.pipeline.machine.vote_rig import KEY

FOUR = ["a", "b", "c", "d"]
BUCKETS = 60
HUGE = 10**15


def right(bucket: int) -> bytes:
    return b"right %d" % bucket


class Upstream:
    """Replicas with logs. Honest ones publish in order, at their own pace; liars as they like."""

    def __init__(self, random: Random, replicas: list[str], liars: set[str]) -> None:
        self.random = random
        self.liars = liars
        self.published = dict.fromkeys(replicas, 0)
        self.attempts: dict[int, int] = {}

    def digest(self, replica: str, bucket: int) -> bytes:
        if replica in self.liars and self.random.random() < 0.5:
            return self.random.choice([b"wrong %d" % bucket, b"wronger %d" % bucket])
        return right(bucket)

    def advance(self) -> None:
        for replica, count in self.published.items():
            self.published[replica] = min(BUCKETS, count + self.random.choice([0, 1, 1, 3, 20]))

    def copies(self, gate: Gate) -> Iterator[Copy]:
        """Some of what the gate can read now, in any order; now and then twice, or forged."""
        for replica in self.random.sample(list(self.published), len(self.published)):
            wanted = gate.wants(replica)
            there = [b for b in wanted[:200] if b < self.published[replica]]
            self.random.shuffle(there)
            for bucket in there[: self.random.choice([1, 5, 50])]:
                attempt = self.attempts.get(bucket, 0)
                copy = Copy(replica, bucket, self.digest(replica, bucket), attempt)
                yield copy
                if self.random.random() < 0.1:
                    yield copy
            if replica in self.liars and self.random.random() < 0.3:
                forged = self.random.choice([HUGE, HUGE + 1, -5, self.random.randrange(BUCKETS)])
                yield Copy(replica, forged, b"forged", self.random.choice([0, 0, 7]))


def run(gate: Any, upstream: Upstream, rounds: int = 400) -> list[Command]:
    commands: list[Command] = []
    for _ in range(rounds):
        upstream.advance()
        for copy in upstream.copies(gate):
            new = gate.take(copy)
            for command in new:
                if isinstance(command, Redo):
                    upstream.attempts[command.bucket] = command.attempt
            commands += new
    return commands


def released(commands: list[Command]) -> list[Release]:
    return [command for command in commands if isinstance(command, Release)]


def accused(commands: list[Command]) -> set[str]:
    return {command.replica for command in commands if isinstance(command, Accuse)}


@pytest.mark.parametrize("faults", [1, 2])
@pytest.mark.parametrize("seed", range(40))
def test_so_many_liars_never_get_a_wrong_bucket_through_a_vote_and_are_named(
    seed: int, faults: int
) -> None:
    random = Random(seed)
    replicas = [chr(ord("a") + i) for i in range(3 * faults + 1)]
    liars = set(random.sample(replicas, faults))
    commands = run(
        Vote(replicas, faults, ahead=random.choice([1, 4, 64])), Upstream(random, replicas, liars)
    )
    assert [(each.bucket, each.digest) for each in released(commands)] == [
        (bucket, right(bucket)) for bucket in range(BUCKETS)
    ]
    for each in released(commands):
        assert len(set(each.holders)) >= 2 * faults + 1
    assert accused(commands) == liars
    assert not any(isinstance(command, Giveup) for command in commands)


@pytest.mark.parametrize("seed", range(20))
def test_silent_replicas_do_not_stall_a_vote(seed: int) -> None:
    random = Random(seed)
    silent = random.choice(FOUR)
    gate = Vote(FOUR, ahead=8)
    upstream = Upstream(random, [name for name in FOUR if name != silent], set())
    assert len(released(run(gate, upstream))) == BUCKETS


@pytest.mark.parametrize("seed", range(40))
def test_more_liars_than_faults_are_detected_or_stop_progress(seed: int) -> None:
    random = Random(seed)
    liars = set(random.sample(FOUR, 2))
    commands = run(Vote(FOUR, ahead=8, attempts=2), Upstream(random, FOUR, liars))
    # 2f+1 = 3 replicas that agree include an honest one: what passes is right.
    assert all(each.digest == right(each.bucket) for each in released(commands))
    stopped = any(isinstance(command, Giveup) for command in commands)
    assert stopped or accused(commands) & liars
    assert accused(commands) <= liars


def test_an_even_split_is_calculated_again() -> None:
    gate = Vote(FOUR)
    for replica, digest in zip(FOUR[:3], (b"x", b"x", b"y"), strict=True):
        assert gate.take(Copy(replica, 0, digest)) == []
    assert gate.take(Copy("d", 0, b"y")) == [Redo(0, 1)]
    assert gate.take(Copy("a", 0, b"x")) == [], "a vote on the attempt before"
    for replica in FOUR[:2]:
        assert gate.take(Copy(replica, 0, b"x", 1)) == []
    assert gate.take(Copy("c", 0, b"x", 1)) == [Release(0, b"x", ("a", "b", "c"))]
    assert gate.take(Copy("d", 0, b"y", 1)) == [Accuse("d", 0, b"y", b"x")]


def test_a_split_that_stays_stops_the_stream_and_tells_who_said_what() -> None:
    gate = Vote(FOUR, attempts=1)
    commands: list[Command] = []
    for attempt in (0, 1):
        for replica, digest in zip(FOUR, (b"x", b"x", b"y", b"y"), strict=True):
            commands += gate.take(Copy(replica, 0, digest, attempt))
    assert commands == [
        Redo(0, 1),
        Giveup(0, (("a", b"x"), ("b", b"x"), ("c", b"y"), ("d", b"y"))),
    ]
    assert gate.stopped
    assert gate.take(Copy("a", 1, b"z")) == []
    assert not gate.wants("a")


def test_buckets_agreed_upon_early_wait_for_their_turn() -> None:
    gate = Vote(FOUR)
    for replica in FOUR[:3]:
        assert released(gate.take(Copy(replica, 1, right(1)))) == []
    commands: list[Command] = []
    for replica in FOUR[:3]:
        commands += gate.take(Copy(replica, 0, right(0)))
    assert [each.bucket for each in released(commands)] == [0, 1]


def test_two_words_of_one_replica_are_told() -> None:
    gate = Vote(FOUR)
    gate.take(Copy("a", 0, b"x"))
    assert gate.take(Copy("a", 0, b"y")) == [Accuse("a", 0, b"y", b"x")]


@pytest.mark.parametrize("seed", range(30))
def test_memory_is_bounded_whatever_is_claimed(seed: int) -> None:
    random = Random(seed)
    for gate in (Vote(FOUR, ahead=4), VoteLatest(FOUR, ahead=4)):
        for _ in range(3_000):
            replica = random.choice([*FOUR, "stranger"])
            bucket = random.choice([random.randrange(50), random.randrange(HUGE), -3])
            gate.take(Copy(replica, bucket, random.choice([b"x", b"y"])))
            assert len(gate._ballots) <= 5 * 4


@pytest.mark.parametrize("faults", [1, 2])
@pytest.mark.parametrize("seed", range(40))
def test_a_vote_on_the_latest_goes_forward_only_and_is_right(seed: int, faults: int) -> None:
    random = Random(seed)
    replicas = [chr(ord("a") + i) for i in range(3 * faults + 1)]
    liars = set(random.sample(replicas, faults))
    commands = run(VoteLatest(replicas, faults, ahead=8), Upstream(random, replicas, liars))
    buckets = [each.bucket for each in released(commands)]
    assert buckets == sorted(set(buckets))
    assert buckets[-1] == BUCKETS - 1, "a forged number stalls nothing"
    assert all(each.digest == right(each.bucket) for each in released(commands))
    assert accused(commands) <= liars


@pytest.mark.parametrize("seed", range(40))
def test_a_sampled_stream_is_complete_and_lies_in_it_are_found_out(seed: int) -> None:
    random = Random(seed)
    liar = random.choice(FOUR)
    gate = Sample(FOUR, key=KEY, every=5, ahead=16)
    gate.trusted = liar
    commands = run(gate, Upstream(random, FOUR, {liar}))
    assert [each.bucket for each in released(commands)] == list(range(BUCKETS))
    assert accused(commands) <= {liar}
    wrong = {each.bucket for each in released(commands) if each.digest != right(each.bucket)}
    tainted = {
        bucket
        for each in commands
        if isinstance(each, Taint)
        for bucket in range(each.first, each.last + 1)
    }
    sampled = {bucket for bucket in wrong if gate.is_sampled(bucket)}
    assert sampled <= tainted, "every wrong bucket that was voted on is told"
    if sampled:
        first = min(sampled)
        before = max((each for each in range(first) if gate.is_sampled(each)), default=-1)
        assert {bucket for bucket in wrong if before < bucket <= first} <= tainted
        assert gate.trusted != liar
        assert liar in accused(commands)
    assert all(each.replica == liar for each in commands if isinstance(each, Taint))


def test_another_replica_is_trusted_when_the_trusted_one_is_gone() -> None:
    gate = Sample(FOUR, key=KEY, every=10)
    assert [each.bucket for each in released(gate.take(Copy("a", 0, right(0))))] == [0]
    gate.take(Copy("a", 2, right(2)))
    gate.fail(["a"])
    assert gate.trusted == "b"
    assert gate.take(Copy("a", 1, right(1))) == []
    assert released(gate.take(Copy("b", 1, right(1)))) == [Release(1, right(1), ("b",))]


@pytest.mark.parametrize("seed", range(20))
def test_the_first_copies_make_a_stream_without_gaps_or_duplicates(seed: int) -> None:
    random = Random(seed)
    commands = run(First(["a", "b"], ahead=8), Upstream(random, ["a", "b"], set()))
    assert [each.bucket for each in released(commands)] == list(range(BUCKETS))


@pytest.mark.parametrize("seed", range(20))
def test_the_latest_copies_never_go_back(seed: int) -> None:
    random = Random(seed)
    commands = run(Latest(["a", "b"]), Upstream(random, ["a", "b"], set()))
    buckets = [each.bucket for each in released(commands)]
    assert buckets == sorted(set(buckets))
    assert buckets[-1] == BUCKETS - 1


def test_a_gate_begins_where_it_is_told() -> None:
    gates: list[Gate] = [
        Vote(FOUR, first=7),
        VoteLatest(FOUR, first=7),
        Sample(FOUR, key=KEY, first=7),
        First(FOUR, first=7),
        Latest(FOUR, first=7),
    ]
    for gate in gates:
        commands: list[Command] = []
        for bucket in (6, 7):
            for replica in FOUR:
                commands += gate.take(Copy(replica, bucket, right(bucket)))
        assert [each.bucket for each in released(commands)] == [7]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Vote(["a", "b", "c"]), "give at least 4"),
        (lambda: Vote([*FOUR, "a"]), "name each once"),
        (lambda: Vote(FOUR, 0), "faults is 0"),
        (lambda: VoteLatest(FOUR, 2), "give at least 7"),
        (lambda: Sample(FOUR, key=KEY, every=0), "every is 0"),
        (lambda: First([]), "give at least 1"),
        (lambda: First(["a"], ahead=0), "ahead is 0"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make()


@pytest.mark.parametrize("make", [Vote, VoteLatest])
def test_who_is_in_quarantine_is_judged_and_does_not_count(make: type[Vote]) -> None:
    gate = make(("w", "x", "y", "z"))
    gate.quarantine("w")
    for name in ("w", "x", "y"):
        assert gate.take(Copy(name, 0, b"right")) == []
    assert gate.take(Copy("z", 0, b"right")) == [Release(0, b"right", ("w", "x", "y", "z"))]
    assert gate.take(Copy("w", 0, b"wrong")) == [Accuse("w", 0, b"wrong", b"right")]


def test_with_one_in_quarantine_the_others_have_to_agree() -> None:
    gate = Vote(("w", "x", "y", "z"))
    gate.quarantine("w")
    gate.take(Copy("x", 0, b"right"))
    gate.take(Copy("y", 0, b"right"))
    assert gate.take(Copy("z", 0, b"other")) == [Redo(0, 1)]


def test_a_vote_that_only_the_one_in_quarantine_could_settle_is_repeated() -> None:
    gate = Vote(("w", "x", "y", "z"))
    for name, said in (("x", b"right"), ("y", b"right"), ("z", b"other")):
        assert gate.take(Copy(name, 0, said)) == []
    assert gate.quarantine("w") == [Redo(0, 1)]


def test_who_is_admitted_again_counts_at_once() -> None:
    gate = Vote(("w", "x", "y", "z"))
    gate.quarantine("w")
    for name in ("w", "x", "y"):
        assert gate.take(Copy(name, 0, b"right")) == []
    assert gate.readmit("w") == [Release(0, b"right", ("w", "x", "y"))]


def test_sampling_does_not_trust_one_in_quarantine() -> None:
    gate = Sample(("w", "x", "y", "z"), key=KEY)
    gate.quarantine("w")
    assert gate.trusted != "w"
    gate.readmit("w")
    gate.fail(["x", "y", "z"])
    assert gate.trusted == "w"


def test_sampling_goes_on_when_everybody_has_been_found_lying_once() -> None:
    gate = Sample(FOUR, key=KEY, every=1)
    commands: list[Command] = []

    def say(bucket: int, liar: str) -> None:
        for name in sorted(FOUR, key=lambda each: each == liar):
            said = b"lie" if name == liar else right(bucket)
            commands.extend(gate.take(Copy(name, bucket, said)))

    def read_on(until: int) -> None:
        """A replica that is newly trusted is read from where nothing has been released."""
        while gate.next < until:
            commands.extend(gate.take(Copy(gate.trusted, gate.next, right(gate.next))))

    for bucket, liar in enumerate(FOUR):
        say(bucket, liar)
        read_on(bucket + 1)
    assert {each.replica for each in commands if isinstance(each, Accuse)} == set(FOUR)
    # The last one that was found out is not believed, least of all where the truth is known.
    for bucket in range(4, 8):
        say(bucket, "d")
        read_on(bucket + 1)
    assert not [each for each in released(commands) if each.digest == b"lie"]
    assert gate.trusted != "d"


def test_the_one_that_is_trusted_next_is_not_one_that_is_gone_too() -> None:
    gate = Sample("abcdefg", 2, key=KEY)
    for _ in range(3):
        gate.fail(["a", "b"])
        assert gate.trusted == "c"


def test_who_does_not_give_what_comes_next_is_passed_over_until_all_have_had_their_turn() -> None:
    gate = Sample(FOUR, key=KEY)
    seen = []
    for _ in range(8):
        seen.append(gate.trusted)
        gate.pass_over()
    assert sorted(seen[:4]) == sorted(seen[4:]) == FOUR


def test_those_found_lying_long_ago_are_trusted_rather_than_one_that_is_gone() -> None:
    gate = Sample(FOUR, key=KEY, every=1)
    for bucket, liar in enumerate(FOUR[:3]):
        for name in sorted(FOUR, key=lambda each: each == liar):
            gate.take(Copy(name, bucket, b"lie" if name == liar else right(bucket)))
    assert gate.trusted == "d"
    gate.fail(["d"])
    assert gate.trusted != "d"


def test_a_sample_that_nobody_settles_is_left_in_the_end() -> None:
    gate = Sample(("w", "x", "y", "z"), key=KEY, every=2, ahead=4)
    for number in range(40):
        for name, lie in zip("wxyz", (b"", b"", b"lie", b"lie"), strict=True):
            gate.take(Copy(name, number, (lie if number == 2 else b"") + right(number)))
    assert gate.next == 40
    assert gate.is_sampled(2)
    assert gate.wants("w").start == 40, "all samples since are settled"


def test_a_lie_is_not_true_because_the_liar_was_readmitted() -> None:
    gate = readmitted_liar()
    assert gate.trusted != "w"
    commands = [gate.take(Copy(gate.trusted, number, right(number))) for number in (0, 1)]
    assert [each.digest for found in commands for each in released(found)] == [right(0), right(1)]


def test_a_lie_is_not_true_because_nobody_but_the_liar_is_there() -> None:
    gate = readmitted_liar()
    gate.fail(["x", "y", "z"])
    commands = [*gate.take(Copy("w", 0, right(0))), *gate.take(Copy("w", 1, b"lie"))]
    assert b"lie" not in [each.digest for each in released(commands)]
    gate.fail(["y", "z"])
    commands = [*gate.take(Copy("x", 0, right(0))), *gate.take(Copy("x", 1, right(1)))]
    assert released(commands)[-1] == Release(1, right(1), ("x",))


def readmitted_liar() -> Sample:
    """A gate that trusts w again, who has lied about bucket 1 and repeats it."""
    gate = Sample(("w", "x", "y", "z"), key=KEY, every=1)
    for name in ("x", "y", "z"):
        gate.take(Copy(name, 1, right(1)))
    gate.take(Copy("w", 1, b"lie"))
    gate.quarantine("w")
    gate.readmit("w")
    gate.fail(["x", "y", "z"])
    gate.fail([])
    assert gate.trusted == "w"
    gate.take(Copy("w", 1, b"lie"))
    return gate


def test_a_vote_on_the_latest_goes_on_where_those_have_it_whose_votes_are_needed() -> None:
    gate = VoteLatest(FOUR, ahead=8)
    for bucket in range(8):
        for name in ("a", "b"):
            gate.take(Copy(name, bucket, right(bucket)))
        gate.take(Copy("d", bucket, b"lie"))
    gate.keeps_from("c", 1000)
    assert gate.wants("a").start == 8, "what c could settle it will not vote on"
    gate.keeps_from("d", HUGE)
    assert gate.wants("a").start == 1000, "only a and b have what is before"
    for name in ("a", "b"):
        gate.take(Copy(name, 1000, right(1000)))
    assert released(gate.take(Copy("c", 1000, right(1000)))) == [
        Release(1000, right(1000), ("a", "b", "c"))
    ]


@pytest.mark.parametrize("is_told_first", [True, False])
def test_a_vote_does_not_wait_for_one_that_keeps_the_bucket_no_longer(is_told_first: bool) -> None:
    gate = Vote(FOUR)
    commands = gate.keeps_from("d", 1) if is_told_first else []
    for name, said in (("a", b"lie"), ("b", b"lie"), ("c", right(0))):
        commands += gate.take(Copy(name, 0, said))
    commands += [] if is_told_first else gate.keeps_from("d", 1)
    assert commands == [Redo(0, 1)]
    for name, said in (("a", b"lie"), ("b", right(0)), ("c", right(0))):
        assert gate.take(Copy(name, 0, said, 1)) == []
    assert released(gate.take(Copy("d", 0, right(0), 1))), "d may have calculated it again"


def test_one_that_has_nothing_of_what_is_wanted_holds_nobody_up_and_skips_nothing() -> None:
    gate = VoteLatest(FOUR, ahead=8)
    gate.keeps_from("d", HUGE)
    commands: list[Command] = []
    for name in ("a", "b", "c"):
        for bucket in range(8):
            commands += gate.take(Copy(name, bucket, right(bucket)))
    assert [each.bucket for each in released(commands)] == list(range(8))


@pytest.mark.parametrize("gate", [VoteLatest(FOUR), Sample(FOUR, key=KEY, every=1)])
def test_a_split_is_told_once_where_it_is_not_calculated_again(gate: VoteLatest | Sample) -> None:
    commands: list[Command] = []
    for replica, said in (("a", b"x"), ("b", b"x"), ("c", b"y"), ("d", b"y"), ("d", b"y")):
        commands += gate.take(Copy(replica, 0, said))
    assert [each for each in commands if not isinstance(each, Release)] == [
        Split(0, (("a", b"x"), ("b", b"x"), ("c", b"y"), ("d", b"y")))
    ]


def test_a_gate_of_the_latest_does_not_go_back_when_it_is_told_to_skip() -> None:
    gates: list[VoteLatest | Latest] = [VoteLatest(FOUR), Latest(FOUR)]
    for gate in gates:
        gate.skip(100)
        gate.skip(50)
        assert gate.wants("a").start == 100
