"""A stage whose replicas share its work, under kills, loss and false suspicion."""

from __future__ import annotations

from random import Random

import pytest

from harness.seats import READER, SIZE, StageRig, break_at_random
from holdfast.pipeline.machine.sharing.seats import seat_of

SECOND = 1_000_000


def sitters(rig: StageRig) -> list[list[str]]:
    return [
        [name for name, seats in rig.live.items() if at in seats.nodes]
        for at in range(len(rig.seats))
    ]


def test_without_faults_each_bucket_is_worked_on_once_and_each_replica_has_its_part() -> None:
    rig = StageRig(Random(1))
    rig.run(SECOND, rows=False)
    rig.run(6 * SECOND)
    rig.settle()
    assert rig.shown == rig.read == rig.right
    assert sitters(rig) == [[name] for name in rig.names]
    assert sum(rig.done.values()) <= 6 * SECOND // SIZE + 1
    assert min(rig.done.values()) >= 18


def test_the_source_keeps_a_bucket_until_all_readers_have_it() -> None:
    rig = StageRig(Random(2))
    rig.run(2 * SECOND)
    rig.cut.add("sink")
    before = rig.sink.position
    rig.run(SECOND)
    assert rig.source.line.dropped_before <= before
    rig.settle()
    assert rig.source.line.dropped_before > before
    assert rig.shown == rig.right


@pytest.mark.parametrize("routing", ["round-robin", "hash", "primary"])
def test_one_that_dies_is_taken_over_from_and_gets_its_seat_back(routing: str) -> None:
    rig = StageRig(Random(3), routing=routing)
    rig.run(2 * SECOND)
    rig.kill("clean/1")
    rig.run(3 * SECOND)
    assert sitters(rig) == [["clean/2"], ["clean/2"], ["clean/3"]]
    assert len(rig.shown) > 100, "the stream goes on"
    rig.start("clean/1")
    rig.run(2 * SECOND)
    rig.settle()
    assert sitters(rig) == [["clean/1"], ["clean/2"], ["clean/3"]]
    assert rig.shown == rig.read == rig.right


def test_one_that_is_left_alone_does_it_all() -> None:
    rig = StageRig(Random(4))
    rig.run(2 * SECOND)
    rig.kill("clean/1")
    rig.kill("clean/3")
    rig.run(4 * SECOND)
    rig.settle()
    assert sitters(rig) == [["clean/2"]] * 3
    assert rig.shown == rig.read == rig.right


def test_one_that_is_suspected_wrongly_steps_aside_and_comes_back() -> None:
    rig = StageRig(Random(5), replicas=2)
    rig.run(2 * SECOND)
    rig.cut.add("clean/1")
    rig.run(2 * SECOND)
    assert sitters(rig)[0] == ["clean/1", "clean/2"], "both think that it is theirs"
    rig.cut.clear()
    rig.run(3 * SECOND)
    rig.settle()
    assert sitters(rig) == [["clean/1"], ["clean/2"]]
    assert rig.shown == rig.read == rig.right


def test_while_colleagues_do_not_hear_each_other_the_stream_goes_on() -> None:
    rig = StageRig(Random(6), replicas=2)
    rig.run(2 * SECOND)
    rig.parted = True
    rig.run(3 * SECOND)
    assert sitters(rig) == [["clean/1", "clean/2"]] * 2, "each does all of it"
    assert rig.sink.position > rig.now - 5 * SIZE
    rig.parted = False
    rig.run(3 * SECOND)
    rig.settle()
    assert sitters(rig) == [["clean/1"], ["clean/2"]]
    assert rig.shown == rig.read == rig.right


def test_a_reader_that_may_not_wait_goes_on_without_a_share_and_corrects_it_later() -> None:
    rig = StageRig(Random(7), replicas=2, max_delay=3 * SIZE)
    rig.run(2 * SECOND)
    assert rig.previews == 0
    rig.severed.add(frozenset({"clean/2", READER}))
    rig.run(2 * SECOND)
    assert rig.previews > 0
    assert sitters(rig) == [["clean/1"], ["clean/2"]], "its colleague hears it"
    rig.settle()
    assert rig.shown == rig.read == rig.right


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_every_bucket_counts_once(seed: int) -> None:
    """`make soak PART=seats` goes on with more of them."""
    rig = break_at_random(seed)
    assert rig.shown == rig.right
    assert rig.read == rig.right


@pytest.mark.parametrize("seed", range(3))
def test_at_most_once_nothing_counts_twice_and_the_stream_goes_on(seed: int) -> None:
    rig = StageRig(Random(seed), keeps=False)
    rig.run(2 * SECOND)
    rig.kill("clean/2")
    rig.run(3 * SECOND)
    rig.settle()
    assert rig.shown == sorted(set(rig.shown))
    assert set(rig.shown) <= set(rig.right)
    assert rig.shown[-1] == rig.right[-1]


def test_all_buckets_have_a_seat() -> None:
    for routing in ("round-robin", "hash"):
        found = {seat_of(bucket, 3, routing) for bucket in range(100)}
        assert found == {0, 1, 2}
    assert {seat_of(bucket, 3, "primary") for bucket in range(100)} == {0}
