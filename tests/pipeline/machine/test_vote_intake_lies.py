"""Reading one stream from replicas that forge, keep back or withhold: nobody else suffers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from holdfast.errors import InvalidArgumentError
from holdfast.pipeline.gates import Sample
from holdfast.pipeline.machine.messages import Again, Gap, Item, Stable
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.machine.tuples import Segment
from holdfast.pipeline.machine.vote_subscription import SLOW, Comparison
from tests.pipeline.machine.vote_rig import GRACE, KEY, NAMES, SIZE, Talk, bucket, buckets

AHEAD = 64


def talk(policy: str, names: tuple[str, ...] = NAMES, faults: int = 1, every: int = 10) -> Talk:
    comparison = Comparison(policy, faults, every=every)
    return Talk(comparison.intake("s", names, size=SIZE, grace=GRACE, secret=KEY), names)


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


def test_who_is_trusted_next_still_votes_on_what_it_has_not_given_yet() -> None:
    reader = talk("sample", every=2)
    reader.look()
    for name in ("w", "y", "z"):
        reader.say(name, buckets(*range(3), value="lie" if name == "z" else "right"))
    reader.states["w"] = State.FAILURE
    reader.look(1)
    assert isinstance(reader.intake.gate, Sample)
    assert reader.intake.gate.trusted == "x"
    assert reader.asked["x"].after == 0
    reader.publish("x", 4, 1)
    assert reader.intake.gate.ballots[0].agreed is not None
    assert reader.released == [bucket(number) for number in range(4)]


def test_a_gap_in_what_is_released_already_costs_no_trust() -> None:
    reader = talk("sample", every=2)
    reader.look()
    reader.say("w", buckets(*range(5)))
    reader.states["w"] = State.FAILURE
    reader.look(1)
    assert isinstance(reader.intake.gate, Sample)
    assert reader.intake.gate.trusted == "x"
    reader.say("x", [Gap(3 * SIZE)], 1)
    assert reader.intake.gate.trusted == "x"
    reader.say("x", [Gap(6 * SIZE)], 1)
    assert reader.intake.gate.trusted != "x"


def test_rows_that_are_released_are_not_kept_for_votes() -> None:
    reader = talk("sample", every=2)
    reader.look()
    for name in NAMES:
        reader.say(name, buckets(*range(20), value="lie" if name == "z" else "right"))
    assert reader.intake.position == 20 * SIZE
    assert not reader.intake._rows


@pytest.mark.parametrize("policy", ["vote", "vote-latest", "sample"])
def test_who_is_readmitted_is_not_accused_of_what_it_said_before(policy: str) -> None:
    reader = talk(policy, every=1)
    reader.look()
    for name in ("w", "x", "z"):
        reader.say(name, buckets(*range(20), value="lie" if name == "z" else "right"))
    for number in range(3):
        reader.say("y", buckets(number))
    assert reader.intake.findings.quarantined == {"z"}
    reader.readmit("z")
    reader.look(1)
    reader.publish("z", 20, 1)
    reader.publish("y", 20, 1)
    assert not reader.intake.findings.quarantined
    assert reader.intake.position == 20 * SIZE


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


def test_sampling_passes_over_one_that_comes_too_slowly_to_what_others_have() -> None:
    """As one does that tells all of it, but in disorder: a bucket now and then is the next."""
    reader = talk("sample")
    reader.look()
    for name in NAMES[1:]:
        reader.say(name, buckets(*range(AHEAD)), 1)
    for number in range(4 * SLOW):
        now = 1 + number * GRACE // 2
        reader.say("w", buckets(number), now)
        reader.look(now)
        for name in NAMES[1:]:
            if name in reader.asked and reader.asked[name].after == reader.intake.position:
                reader.publish(name, AHEAD, now)
    assert reader.released == [bucket(number) for number in range(AHEAD)]
    assert not reader.intake.findings.accused


def test_sampling_does_not_leave_one_that_is_behind_and_keeps_up() -> None:
    reader = talk("sample")
    reader.look()
    for number in range(20 * SLOW):
        now = 1 + number * GRACE // 2
        for name in NAMES[1:]:
            reader.publish(name, number + 3, now)
        reader.say("w", buckets(number), now)
        reader.look(now)
    assert isinstance(reader.intake.gate, Sample)
    assert reader.intake.gate.trusted == "w"
    assert reader.released == [bucket(number) for number in range(20 * SLOW)]


def test_sampling_does_not_leave_the_trusted_one_for_fewer_than_have_to_agree() -> None:
    reader = talk("sample")
    reader.look()
    for name in ("x", "y"):
        reader.say(name, buckets(*range(AHEAD)), 1)
    for now in range(1, 8 * GRACE):
        reader.look(now)
    assert isinstance(reader.intake.gate, Sample)
    assert reader.intake.gate.trusted == "w"


def publish_in_turn(reader: Talk, until: int, names: Sequence[str] = NAMES) -> None:
    for _ in range(until):
        for name in names:
            reader.publish(name, until)
        reader.look()


def test_stories_about_many_buckets_do_not_drop_what_an_honest_replica_will_agree_on() -> None:
    reader = talk("vote-latest")
    reader.look()
    reader.say("w", [Gap(2**62)])
    for until in range(32, 160, 32):
        reader.publish("x", until)
        reader.publish("y", until)
        reader.look()
        for number in range(until - 32, until):
            reader.say("w", [Again(bucket(number, story), 0) for story in range(4)])
    publish_in_turn(reader, 128, ("z", "x", "y"))
    assert reader.intake.position == 128 * SIZE
    assert all(each.rows[0].value == "right" for each in reader.released)


@pytest.mark.parametrize("lag", [10, 100, 1000])
def test_the_latest_is_released_however_far_behind_one_is_that_has_to_agree(lag: int) -> None:
    reader = talk("vote-latest")
    reader.look()
    for end in range(0, 1500, 20):
        reader.say("w", [Again(bucket(10**12), 0), *buckets(end + AHEAD, value="lie")])
        for name in ("x", "y"):
            reader.publish(name, end)
        reader.publish("z", end - lag)
        reader.look()
    assert reader.intake.position >= (1480 - lag) * SIZE
    assert all(each.rows[0].value == "right" for each in reader.released)


@pytest.mark.parametrize("policy", ["vote", "vote-latest", "sample"])
def test_who_has_forged_a_gap_is_read_again_when_it_keeps_what_comes_next(policy: str) -> None:
    reader = talk(policy)
    reader.look()
    reader.say("z", [Gap(2**63 - 1)])
    assert reader.intake.place_of("z") < 2**63, "else it does not answer when it is mended"
    for name in ("w", "x", "z"):
        reader.beat(name, 1)
    publish_in_turn(reader, 200, ("w", "x", "z"))
    assert reader.intake.position == 200 * SIZE


def test_who_is_readmitted_is_read_from_where_the_votes_are() -> None:
    reader = talk("vote")
    reader.look()
    publish_in_turn(reader, 10, ("w", "x", "y"))
    reader.say("z", [*buckets(0, 1, 2, value="lie"), Gap(2**62)])
    assert reader.intake.findings.quarantined == {"z"}
    reader.readmit("z")
    publish_in_turn(reader, 100, ("x", "y", "z"))
    assert reader.released == [bucket(number) for number in range(100)]


@pytest.mark.parametrize(("policy", "newest"), [("vote-latest", 9_800), ("latest", 10_000)])
def test_older_buckets_are_skipped_by_one_that_was_away(policy: str, newest: int) -> None:
    ends = {"w": 10_000 * SIZE, "x": 9_900 * SIZE, "y": 9_800 * SIZE, "z": 10 * SIZE}
    reader = talk(policy)
    reader.look(0, ends)
    assert {asked.after for asked in reader.asked.values()} == {(newest - 1) * SIZE}
    for name in NAMES:
        reader.publish(name, ends[name] // SIZE)
    assert reader.intake.position == newest * SIZE
    assert reader.released[0] == Segment(0, newest * SIZE, bucket(newest - 1).rows)


@pytest.mark.parametrize("policy", ["vote", "sample", "first"])
def test_nothing_is_skipped_where_every_bucket_is_promised(policy: str) -> None:
    reader = talk(policy)
    reader.look(0, dict.fromkeys(NAMES, 10_000 * SIZE))
    assert {asked.after for asked in reader.asked.values()} == {0}


@pytest.mark.parametrize("policy", ["vote-latest", "latest"])
def test_nothing_is_skipped_while_all_goes_well(policy: str) -> None:
    reader = talk(policy)
    for end in range(0, 500, 20):
        reader.look(0, dict.fromkeys(NAMES, end * SIZE))
        for name in NAMES:
            reader.publish(name, end)
    assert reader.released == [bucket(number) for number in range(480)]


def test_after_a_pause_the_newest_comes_first() -> None:
    reader = talk("vote-latest")
    reader.look(0, dict.fromkeys(NAMES, 10 * SIZE))
    publish_in_turn(reader, 10)
    reader.intake.pause()
    reader.asked.clear()
    reader.intake.resume()
    reader.look(1, dict.fromkeys(NAMES, 5_000 * SIZE))
    assert {asked.after for asked in reader.asked.values()} == {4_999 * SIZE}


def test_one_huge_end_skips_nothing_and_freezes_nothing() -> None:
    reader = talk("vote-latest")
    for end in range(0, 2000, 20):
        lags = {"x": end, "y": end, "z": max(0, end - 300)}
        reader.look(end, {"w": 2**62, **{name: at * SIZE for name, at in lags.items()}})
        for name, at in lags.items():
            reader.publish(name, at, end)
    assert len(reader.released) > 1980 - 300 - AHEAD
    assert reader.released == [bucket(number) for number in range(len(reader.released))]


@pytest.mark.parametrize("policy", ["vote-latest", "sample"])
def test_who_disagrees_is_told_where_nobody_calculates_again(policy: str) -> None:
    reader = talk(policy)
    reader.look()
    for name, value in zip(NAMES, ("right", "right", "lie", "lie"), strict=True):
        reader.say(name, buckets(*range(20), value=value))
    findings = reader.intake.findings
    assert findings.split is not None
    groups: dict[bytes, str] = {}
    for name, said in findings.split.said:
        groups[said] = groups.get(said, "") + name
    assert sorted(groups.values()) == ["wx", "yz"]
    gate = reader.intake.gate
    samples = sum(map(gate.is_sampled, range(20))) if isinstance(gate, Sample) else 20
    assert findings.splits == samples > 0
    assert not findings.accused


def test_a_vote_on_the_latest_goes_on_when_those_that_disagreed_are_well_again() -> None:
    reader = talk("vote-latest")
    reader.look()
    for _ in range(5):
        for name, value in zip(NAMES, ("right", "right", "lie", "lie"), strict=True):
            at = reader.intake.place_of(name) // SIZE
            reader.say(name, buckets(*range(at, min(at + 32, 100)), value=value))
        reader.look()
    assert reader.released == []
    publish_in_turn(reader, 200)
    assert reader.released[0].rows == bucket(100).rows
    assert reader.intake.position == 200 * SIZE


def test_a_trusted_liar_does_not_run_away_from_those_who_would_find_it_out() -> None:
    """Far ahead of the others it would be compared with nobody any more."""
    reader = talk("sample", every=2)
    reader.look()
    for start in range(0, 100 * AHEAD, 32):
        reader.say("w", buckets(*range(start, start + 32), value="lie"))
        reader.look()
    reach = 2 * AHEAD
    assert reach <= reader.intake.position // SIZE <= reach + 32
    for name in ("x", "y", "z"):
        reader.publish(name, reach)
    assert set(reader.intake.findings.counts) == {"w"}
    gate = reader.intake.gate
    assert isinstance(gate, Sample)
    assert gate.trusted != "w"


def test_what_a_reader_asks_for_does_not_depend_on_what_it_samples() -> None:
    heard = set()
    for number in range(10):
        intake = Comparison("sample", every=2).intake(
            "s", NAMES, size=SIZE, grace=GRACE, secret=bytes([number])
        )
        reader = Talk(intake)
        reader.look()
        for start in range(0, 10 * AHEAD, 16):
            for name in NAMES:
                reader.say(name, buckets(*range(start, start + 16)))
            reader.look()
        assert reader.intake.position == 10 * AHEAD * SIZE
        heard.add(tuple(reader.heard))
    assert len(heard) == 1


def test_another_stream_is_sampled_otherwise() -> None:
    gates = [
        Comparison("sample").intake(name, NAMES, size=SIZE, grace=GRACE, secret=KEY).gate
        for name in ("s", "t")
    ]
    drawn = {tuple(map(gate.is_sampled, range(100))) for gate in gates if isinstance(gate, Sample)}
    assert len(drawn) == 2


def test_samples_that_everybody_could_predict_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="secret: is empty"):
        Comparison("sample").intake("s", NAMES, size=SIZE, grace=GRACE)
