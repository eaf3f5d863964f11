"""Who voted how on the last buckets, as the gates that vote know it."""

from __future__ import annotations

from holdfast.pipeline.gates import Copy, Sample, Vote, VoteLatest
from holdfast.pipeline.gates.ballot import Ballot, Stand
from tests.pipeline.machine.vote_rig import KEY

FOUR = ("a", "b", "c", "d")
AHEAD = 8


def test_everybody_has_a_stand() -> None:
    ballot = Ballot(4, 3)
    for name, digest in (("a", b"right"), ("b", b"wrong"), ("c", b"right")):
        ballot.take(Copy(name, 7, digest))
    assert [ballot.stand_of(name) for name in FOUR] == [
        Stand.WAITING,
        Stand.WAITING,
        Stand.WAITING,
        Stand.MISSING,
    ]
    ballot.take(Copy("d", 7, b"right"))
    assert [ballot.stand_of(name) for name in FOUR] == [
        Stand.AGREED,
        Stand.DISSENTED,
        Stand.AGREED,
        Stand.AGREED,
    ]


def run(gate: Vote | VoteLatest | Sample, buckets: int) -> None:
    """d is late by two buckets, b lies in every third."""
    for bucket in range(buckets + 2):
        for name in FOUR:
            at = bucket - 2 if name == "d" else bucket
            is_lie = name == "b" and at % 3 == 0
            if 0 <= at < buckets:
                gate.take(Copy(name, at, b"wrong" if is_lie else b"right"))


def stands(gate: Vote | VoteLatest | Sample, bucket: int) -> list[Stand]:
    return [gate.ballots[bucket].stand_of(name) for name in FOUR]


def test_the_last_votes_are_kept_and_who_is_late_has_voted_too() -> None:
    gates = [Vote(FOUR, ahead=AHEAD), VoteLatest(FOUR, ahead=AHEAD)]
    for gate in gates:
        run(gate, 100)
        assert stands(gate, 99) == [Stand.AGREED, Stand.DISSENTED, Stand.AGREED, Stand.AGREED]
        assert stands(gate, 98) == [Stand.AGREED] * 4
        assert AHEAD <= len(gate.ballots) <= 3 * AHEAD


def test_votes_on_samples_are_kept_when_they_are_settled() -> None:
    gate = Sample(FOUR, key=KEY, every=3, ahead=AHEAD)
    run(gate, 300)
    found = gate.ballots
    assert all(gate.is_sampled(bucket) for bucket in found)
    assert AHEAD <= len(found) <= 3 * AHEAD
    last = max(bucket for bucket in found if bucket % 3 == 0)
    assert stands(gate, last)[1] is Stand.DISSENTED
    assert stands(gate, last)[0] is Stand.AGREED
