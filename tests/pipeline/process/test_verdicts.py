"""What a party says of the replicas that it compares, and what it keeps."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from holdfast.errors import StoreCorruptError
from holdfast.pipeline.gates import Accuse, Copy, Giveup, Sample, Split, Taint
from holdfast.pipeline.machine.states import State
from holdfast.pipeline.machine.vote_subscription import Comparison
from holdfast.pipeline.process.fault_tracker import LAST, Verdicts

NAMES = ("clean/1", "clean/2", "clean/3", "clean/4")
SIZE, GRACE = 10, 20


def verdicts(note: Path | None = None) -> Verdicts:
    return Verdicts("sums/1", Comparison("vote", barrier=100), {"clean": NAMES}, note)


def accuse(found: Verdicts, name: str, times: int) -> None:
    [intake] = found.intakes(size=SIZE, grace=GRACE).values()
    for bucket in range(times):
        intake.findings.accuse(Accuse(name, bucket, b"said", b"agreed"))
    found.look()


def test_each_life_draws_samples_of_its_own() -> None:
    gates = []
    for _ in range(2):
        found = Verdicts("sums/1", Comparison("sample", every=2), {"clean": NAMES})
        intake = found.intakes(size=10, grace=20)["clean"]
        assert isinstance(intake.gate, Sample)
        gates.append(intake.gate)
    assert len({tuple(map(gate.is_sampled, range(200))) for gate in gates}) == 2


def test_a_liar_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    found = verdicts()
    with caplog.at_level(logging.ERROR):
        accuse(found, "clean/2", 1)
        assert found.status["accused"] == {"clean/2": 1}
        assert found.status["quarantined"] == []
        accuse(found, "clean/2", 5)
        accuse(found, "clean/2", 5)
    assert found.status["quarantined"] == ["clean/2"]
    assert caplog.text.count("sums/1: clean/2 lies") == 1
    assert caplog.text.count("clean/2 is in quarantine") == 1


def test_what_cannot_be_agreed_upon_is_told_with_names(caplog: pytest.LogCaptureFixture) -> None:
    found = verdicts()
    [intake] = found.intakes(size=SIZE, grace=GRACE).values()
    said = [("clean/1", b"a"), ("clean/2", b"b"), ("clean/3", b"a"), ("clean/4", b"c")]
    intake.findings.gave_up = Giveup(7, tuple(said))
    with caplog.at_level(logging.ERROR):
        found.look()
    assert (
        "clean stops at bucket 7: clean/1, clean/3 against clean/2 against clean/4" in caplog.text
    )
    assert found.status["gave_up"] == {"clean": "clean/1, clean/3 against clean/2 against clean/4"}


def test_what_may_be_wrong_is_told(caplog: pytest.LogCaptureFixture) -> None:
    found = verdicts()
    [intake] = found.intakes(size=SIZE, grace=GRACE).values()
    intake.findings.tainted.append(Taint(3, 9, "clean/1"))
    with caplog.at_level(logging.ERROR):
        found.look()
        found.look()
    assert caplog.text.count("buckets 3 to 9 of clean have been released and may be wrong") == 1
    assert found.status["tainted"] == 7


def test_who_disagrees_where_a_stream_goes_on_is_told_when_it_is_twice_as_often(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = verdicts()
    [intake] = found.intakes(size=SIZE, grace=GRACE).values()
    with caplog.at_level(logging.ERROR):
        for bucket in range(1, 6):
            said = tuple(zip(NAMES, (b"x", b"x", b"y", b"y"), strict=True))
            intake.findings.split = Split(bucket, said)
            intake.findings.splits += 1
            found.look()
    told = "no agreement on bucket {} of clean: clean/1, clean/2 against clean/3, clean/4"
    assert [told.format(bucket) in caplog.text for bucket in range(1, 6)] == [
        *(True, True, False, True, False)
    ]
    assert found.status["splits"] == 5


def test_who_is_waited_for_is_told(caplog: pytest.LogCaptureFixture) -> None:
    found = verdicts()
    [intake] = found.intakes(size=SIZE, grace=GRACE).values()
    with caplog.at_level(logging.WARNING):
        intake.read_on(dict.fromkeys(NAMES, State.FAILURE), {}, 0)
        found.look()
        assert not caplog.text
        intake.read_on({**dict.fromkeys(NAMES, State.STABLE), "clean/3": State.FAILURE}, {}, 1)
        found.look()
        found.look()
    assert found.status["waits_for"] == ["clean/3"]
    assert caplog.text.count("does not begin with clean before clean/3 answers") == 1


def test_quarantine_is_kept_in_a_file(tmp_path: Path) -> None:
    note = tmp_path / "quarantine.json"
    accuse(verdicts(note), "clean/2", 3)
    again = verdicts(note)
    assert again.status["quarantined"] == ["clean/2"]
    [intake] = again.intakes(size=SIZE, grace=GRACE).values()
    intake.readmit("clean/2")
    again.readmitted("clean/2")
    assert verdicts(note).status["quarantined"] == []


def test_no_more_are_kept_in_quarantine_than_may_lie_now(tmp_path: Path) -> None:
    note = tmp_path / "quarantine.json"
    note.write_text('{"clean": ["clean/2", "clean/3"]}')
    assert verdicts(note).status["quarantined"] == ["clean/2"]


def test_replicas_that_are_no_more_are_forgotten(tmp_path: Path) -> None:
    note = tmp_path / "quarantine.json"
    note.write_text('{"clean": ["clean/9"], "other": ["other/1"]}')
    assert verdicts(note).status["quarantined"] == []


@pytest.mark.parametrize("text", ["", "[1]", '{"clean": 5}'])
def test_a_file_that_cannot_be_read_is_told(text: str, tmp_path: Path) -> None:
    note = tmp_path / "quarantine.json"
    note.write_text(text)
    with pytest.raises(StoreCorruptError, match="delete it, and liars are found out anew"):
        verdicts(note)


def test_the_last_votes_are_told_by_bucket() -> None:
    found = verdicts()
    [intake] = found.intakes(size=SIZE, grace=GRACE).values()
    assert found.status["votes"] == {}
    found.look()
    assert found.status["votes"] == {"clean": {"replicas": list(NAMES), "buckets": []}}
    for bucket in range(LAST + 3):
        for name in NAMES[:3]:
            is_lie = name == "clean/2" and bucket == LAST
            intake.gate.take(Copy(name, bucket, b"wrong" if is_lie else b"right"))
    found.look()
    buckets = found.status["votes"]["clean"]["buckets"]
    assert len(buckets) == LAST
    assert buckets[0] == [3 * SIZE, "aaam", 0]
    # Two of three are too few: not settled before the fourth has voted.
    assert buckets[-3] == [LAST * SIZE, "wwwm", 0]
    intake.gate.take(Copy("clean/4", LAST, b"right"))
    found.look()
    assert found.status["votes"]["clean"]["buckets"][-3] == [LAST * SIZE, "adaa", 0]


def test_who_is_first_is_no_vote() -> None:
    found = Verdicts("sums/1", Comparison("first"), {"clean": NAMES})
    found.intakes(size=SIZE, grace=GRACE)
    found.look()
    assert found.status["votes"]["clean"]["buckets"] == []
