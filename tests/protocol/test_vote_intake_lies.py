"""Reading one stream from replicas that forge, keep back or withhold: nobody else suffers."""

from __future__ import annotations

import pytest

from holdfast.protocol.comparison import Comparison
from holdfast.protocol.gates import Sample
from holdfast.protocol.messages import Again, Item, Stable
from holdfast.protocol.states import State
from holdfast.tuples import Segment
from tests.protocol.vote_rig import GRACE, NAMES, SIZE, Talk, bucket, buckets

AHEAD = 64


def talk(policy: str, names: tuple[str, ...] = NAMES, faults: int = 1, every: int = 10) -> Talk:
    comparison = Comparison(policy, faults, every=every)
    return Talk(comparison.intake("s", names, size=SIZE, grace=GRACE), names)


def test_rows_before_a_long_silence_are_not_taken_for_silent_while_a_bucket_is_redone() -> None:
    reader = talk("vote")
    reader.look()
    silence = Stable(Segment((AHEAD + 1) * SIZE, 20 * AHEAD * SIZE, ()))
    for name, value in zip(NAMES, ("lie", "lie", "right", "right"), strict=True):
        reader.say(name, [*buckets(0, value=value), *buckets(*range(1, AHEAD))])
    for name in NAMES:
        reader.say(name, [*buckets(AHEAD), silence])
    assert reader.released == []
    for name in NAMES:
        reader.say(name, [Again(bucket(0), 1)])
    assert reader.released == [bucket(number) for number in range(AHEAD)]
    for name in NAMES:
        assert reader.asked[name].after == AHEAD * SIZE
        reader.say(name, [*buckets(AHEAD), silence])
    assert reader.released[AHEAD] == bucket(AHEAD)
    assert reader.intake.position == 20 * AHEAD * SIZE


def test_a_forged_subscription_number_is_for_the_forger_alone() -> None:
    reader = talk("vote")
    reader.look(1)
    reader.beat("x", 2, subscription=2**63 - 1)
    for name in NAMES:
        reader.say(name, buckets(*range(AHEAD + 1)), 3)
    assert reader.intake.position == AHEAD * SIZE
    assert all(reader.asked[name].subscription < 2**32 for name in NAMES if name != "x")
    assert reader.asked["x"].subscription < 2**63, "else it cannot be read when it is mended"


def test_sampling_goes_on_when_the_first_two_of_seven_are_down() -> None:
    names = tuple("abcdefg")
    reader = talk("sample", names, 2)
    reader.states |= {"a": State.FAILURE, "b": State.FAILURE}
    reader.look()
    reader.look(1)
    for name in names[2:]:
        reader.say(name, buckets(*range(5)), 2)
    assert reader.released == [bucket(number) for number in range(5)]


@pytest.mark.parametrize("every", [10, 1000])
@pytest.mark.parametrize("says", [[], [Stable(bucket(10**6))]])
def test_sampling_passes_over_one_that_keeps_back_what_others_have(
    every: int, says: list[Item]
) -> None:
    reader = talk("sample", every=every)
    reader.look()
    for name in NAMES[1:]:
        reader.say(name, buckets(0, 1, 2), 1)
    for now in range(1, 8 * GRACE, GRACE // 2):
        reader.say("w", says, now)
        reader.beat("w", now)
        reader.look(now)
        for name in NAMES[1:]:
            if name in reader.asked and reader.asked[name].after == reader.intake.position:
                reader.say(name, buckets(*range(reader.intake.position // SIZE, 3)), now)
    assert reader.released == [bucket(number) for number in range(3)]
    assert not reader.intake.findings.accused


def test_sampling_does_not_leave_the_trusted_one_for_fewer_than_have_to_agree() -> None:
    reader = talk("sample")
    reader.look()
    for name in ("x", "y"):
        reader.say(name, buckets(*range(AHEAD)), 1)
    for now in range(1, 8 * GRACE):
        reader.look(now)
    assert isinstance(reader.intake.gate, Sample)
    assert reader.intake.gate.trusted == "w"
