"""Samples are drawn in secret: who lies is found as often as promised, whatever it knows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from random import Random

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.gates import Accuse, Command, Copy, Release, Sample, Taint
from holdfast.pipeline.gates.sample import KEY_BYTES, is_drawn

FOUR = ("a", "b", "c", "d")
LIAR = "a"
"""The one that is trusted first."""
SIGMAS = 4.5
"""Standard deviations of the binomial distribution: one draw in 150,000 is further off."""

Lies = Callable[[int], bool]


def keys(count: int, seed: object) -> list[bytes]:
    random = Random(f"keys/{seed}")
    return [random.randbytes(KEY_BYTES) for _ in range(count)]


def assert_share(found: int, count: int, probability: float) -> None:
    spread = SIGMAS * math.sqrt(count * probability * (1 - probability))
    assert abs(found - count * probability) <= spread, (found, count, probability)


def read(gate: Sample, buckets: int, lies: Lies) -> list[Command]:
    """All copies, in turn; who is newly trusted is read from where nothing has been released."""
    commands: list[Command] = []

    def say(name: str, bucket: int) -> None:
        said = b"lie" if name == LIAR and lies(bucket) else b"right"
        commands.extend(gate.take(Copy(name, bucket, said)))

    for bucket in range(buckets):
        for name in FOUR:
            say(name, bucket)
        while gate.next <= bucket:
            say(gate.trusted, gate.next)
    return commands


def is_named(commands: Iterable[Command]) -> bool:
    return any(isinstance(each, Accuse) and each.replica == LIAR for each in commands)


@pytest.mark.parametrize("every", [1, 3, 10])
def test_one_bucket_in_so_many_is_drawn(every: int) -> None:
    drawn = sum(is_drawn(key, every, bucket) for key in keys(100, every) for bucket in range(300))
    assert_share(drawn, 30_000, 1 / every)


def test_the_last_draws_say_nothing_about_the_next() -> None:
    (key,) = keys(1, "one")
    drawn = [is_drawn(key, 4, bucket) for bucket in range(40_000)]
    for before in (True, False):
        after = [drawn[at + 1] for at in range(len(drawn) - 1) if drawn[at] is before]
        assert_share(sum(after), len(after), 1 / 4)


@pytest.mark.parametrize("lies", [1, 3, 10, 30])
def test_a_liar_is_found_with_the_probability_that_is_promised(lies: int) -> None:
    every, buckets, readers = 10, 40, 400
    about = set(Random(lies).sample(range(buckets), lies))
    found = sum(
        is_named(read(Sample(FOUR, key=key, every=every), buckets, about.__contains__))
        for key in keys(readers, lies)
    )
    assert_share(found, readers, 1 - (1 - 1 / every) ** lies)


def test_readers_with_keys_of_their_own_find_more_together() -> None:
    every, buckets, groups, readers, lies = 10, 20, 300, 3, 4
    about = set(range(0, buckets, buckets // lies))
    found = 0
    for group in range(groups):
        gates = [Sample(FOUR, key=key, every=every) for key in keys(readers, group)]
        found += any(is_named(read(gate, buckets, about.__contains__)) for gate in gates)
    assert_share(found, groups, 1 - (1 - 1 / every) ** (lies * readers))


def test_a_liar_that_counts_is_found_at_once() -> None:
    """In 100,000 buckets it told 90,000 lies unnoticed when every tenth was a sample."""
    every = 10
    wrong = []
    for key in keys(150, "counting"):
        gate = Sample(FOUR, key=key, every=every)
        commands = read(gate, 200, lambda bucket: bucket % every != 0)
        assert is_named(commands)
        assert gate.trusted != LIAR
        released = [each for each in commands if isinstance(each, Release)]
        assert [each.bucket for each in released] == list(range(200))
        wrong.append(sum(each.digest == b"lie" for each in released))
    # So many until the first that is drawn, and it: a geometric distribution.
    spread = SIGMAS * math.sqrt(1 - 1 / every) * every / math.sqrt(len(wrong))
    assert abs(sum(wrong) / len(wrong) - every) <= spread


def test_what_was_released_is_compared_though_its_giver_has_no_vote_any_more() -> None:
    """Whoever was readmitted is judged by what it says from then on, and accused of nothing."""
    gate = Sample(FOUR, key=bytes(KEY_BYTES), every=1)
    gate.take(Copy(LIAR, 0, b"lie"))
    gate.quarantine(LIAR)
    gate.readmit(LIAR)
    commands = [each for name in FOUR[1:] for each in gate.take(Copy(name, 0, b"right"))]
    assert not is_named(commands)
    assert Taint(0, 0, LIAR) in commands


def test_a_liar_that_guesses_a_key_is_found() -> None:
    guess, *others = keys(100, "guess")
    lies: Lies = lambda bucket: not is_drawn(guess, 10, bucket)  # noqa: E731
    gates = [Sample(FOUR, key=key) for key in others]
    assert all(is_named(read(gate, 200, lies)) for gate in gates)
    assert not is_named(read(Sample(FOUR, key=guess), 200, lies)), "whoever has the key can lie"


def test_what_was_let_through_since_the_last_right_sample_is_told() -> None:
    for key in keys(50, "told"):
        gate = Sample(FOUR, key=key, every=5)
        commands = read(gate, 100, lambda bucket: bucket >= 50)
        (taint,) = (each for each in commands if isinstance(each, Taint))
        samples = [bucket for bucket in range(100) if is_drawn(key, 5, bucket)]
        assert taint.first == max((each + 1 for each in samples if each < 50), default=0)
        assert taint.last == min(each for each in samples if each >= 50)


def test_lies_before_the_one_that_the_others_forestalled_are_told() -> None:
    """The lie that is found out is not released; those since the last right sample were."""
    (key,) = keys(1, "forestalled")
    gate = Sample(FOUR, key=key, every=5)
    sample = next(bucket for bucket in range(2, 100) if is_drawn(key, 5, bucket))
    assert not any(is_drawn(key, 5, bucket) for bucket in range(sample))
    for bucket in range(sample):
        assert gate.take(Copy(LIAR, bucket, b"lie")) == [Release(bucket, b"lie", (LIAR,))]
    for name in ("b", "c", "d"):
        assert gate.take(Copy(name, sample, b"right")) == []
    found = gate.take(Copy(LIAR, sample, b"lie"))
    assert found == [Accuse(LIAR, sample, b"lie", b"right"), Taint(0, sample - 1, LIAR)]
    released = [
        command
        for bucket in range(sample + 1)
        for command in gate.take(Copy("b", bucket, b"right"))
    ]
    assert released == [Release(sample, b"right", ("b",))]


def test_without_lies_what_is_released_does_not_depend_on_the_key() -> None:
    def released(key: bytes) -> list[Command]:
        return read(Sample(FOUR, key=key), 200, lambda _: False)

    first, *others = (released(key) for key in keys(20, "honest"))
    assert all(each == first for each in others)
    assert all(isinstance(each, Release) for each in first)


def test_nobody_sees_a_vote_before_the_bucket_is_released() -> None:
    """Else the trusted replica could wait, look who is asked to vote, and lie in all others."""
    gate = Sample(FOUR, key=bytes(KEY_BYTES), every=1)
    for name in ("b", "c", "d"):
        gate.take(Copy(name, 0, b"right"))
    assert not gate.ballots
    gate.take(Copy("a", 0, b"right"))
    assert list(gate.ballots) == [0]


def test_what_a_gate_wants_does_not_depend_on_samples_that_are_not_released() -> None:
    gates = [Sample(FOUR, key=key, every=2) for key in keys(20, "wants")]
    for bucket in range(30):
        for gate in gates:
            for name in ("b", "c", "d"):
                gate.take(Copy(name, bucket, b"right"))
        assert len({gate.wants(name) for gate in gates for name in FOUR}) == 1


def test_the_slowest_is_judged_too() -> None:
    gate = Sample(FOUR, key=bytes(KEY_BYTES), every=1)
    for name in ("a", "b", "c"):
        for bucket in range(10):
            gate.take(Copy(name, bucket, b"right"))
    assert gate.take(Copy("d", 3, b"lie")) == [Accuse("d", 3, b"lie", b"right")]


def test_a_short_key_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="the key has 3 bytes; give 32 random ones"):
        Sample(FOUR, key=b"abc")
