from __future__ import annotations

import logging
import os
import time
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from holdfast.errors import StoreUnavailableError
from holdfast.storage.signing import Signer
from holdfast.verify.machine import (
    COORDINATOR,
    JobState,
    Kind,
    Model,
    Quorum,
    Rules,
    Run,
)
from holdfast.verify.machine.reports import MAX_FINDINGS
from holdfast.verify.machine.verifier import MAX_STARTS
from holdfast.verify.process.job_spec import Charter
from holdfast.verify.process.messages import Back, Broken, Envelope, Gone, Reported, Started, seal
from holdfast.verify.process.verifier_state import Register
from tests.verify.process.charters import QUORUM, SIGNERS, charter, report, reports_of_a_stage, told


class Clock:
    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def test_reports_come_to_a_verdict_and_are_remembered(tmp_path: Path) -> None:
    with Register(charter(), tmp_path) as register:
        envelopes = [told(each.replica, each) for each in reports_of_a_stage("xyxx")]
        assert register.tell(envelopes) == [""] * 8
        assert register.tell(envelopes) == [""] * 8
        assert register.counts == {"told": 8, "known": 8}
        standing = register.standing()
        version = register.version
        assert standing.verdicts["hourly"].is_ok
        assert {(each.kind, each.replica) for each in standing.findings} == {(Kind.OUTVOTED, 2)}
    with Register(charter(), tmp_path) as again:
        assert again.standing() == standing
        assert again.version == version
        assert again.told == envelopes
        assert again.tell(envelopes[:1]) == [""]
        assert again.counts == {"known": 1}


@pytest.mark.parametrize(
    ("envelope", "message"),
    [
        (told(2, report(1)), "replica 2 reports in the name of replica 1"),
        (Envelope(3, told(2, report(3)).body, told(2, report(3)).signature), "has not signed"),
        (told(0, report(1)), "reports in the name of"),
        (told(0, Started("bill", "h")), "the coordinator computes nothing"),
        (told(2, Gone("bill", 1, 5)), "only the coordinator"),
        (told(2, Back("bill", 1, 5)), "only the coordinator"),
        (told(0, Gone("bill", 9, 5)), "there is no 9"),
        (told(1, report(1, job="other")), "not of 'other'"),
        (told(1, Started("other", "h")), "not of 'other'"),
        (told(1, report(1, stage="none")), "has no 'none'"),
        (told(1, report(1, slice=2)), "no slice 2"),
        (told(1, report(1, seq=10**6)), "no chunk"),
        (told(1, replace(report(1), run=Run(0, 9))), "no run 0.9"),
        (told(1, replace(report(1), path="../x")), "out of the storage"),
        (told(4, replace(report(4), path=report(1).path)), "no file of replica 4"),
        (told(1, replace(report(1), path="bill/10/x")), "no file of replica 1"),
        (told(1, Broken("bill", "hourly", 0, 7)), "there is no 7"),
        (Envelope(7, b"", bytes(64)), "no replica 7"),
        (Envelope(1, b"junk", SIGNERS[1].sign(b"junk")), "cannot be read"),
    ],
)
def test_what_is_forged_or_makes_no_sense_changes_nothing(
    tmp_path: Path, envelope: Envelope, message: str
) -> None:
    with Register(charter(), tmp_path) as register:
        before = register.standing()
        (answer,) = register.tell([envelope])
        assert message in answer
        assert register.standing() == before
        assert not register.counts
        assert register.refused.total() == 1
        assert register.told == []
    with Register(charter(), tmp_path) as again:
        assert again.standing() == before


def test_a_signature_is_for_these_bytes_only(tmp_path: Path) -> None:
    good = told(1, report(1))
    forged = Envelope(1, told(1, report(1, "y")).body, good.signature)
    with Register(charter(), tmp_path) as register:
        assert register.tell([forged, good]) == ["replica 1 has not signed this", ""]


def test_what_the_coordinator_said_cannot_be_said_again_later(tmp_path: Path) -> None:
    gone, back = told(0, Gone("bill", 4, 5)), told(0, Back("bill", 4, 6))
    older = told(0, Gone("bill", 4, 4))
    with Register(charter(), tmp_path) as register:
        assert register.tell([gone, back]) == ["", ""]
        assert "said this before" in register.tell([older])[0]
        assert register.tell([gone]) == [""]
        assert register.counts["known"] == 1
        register.tell([told(each.replica, each) for each in reports_of_a_stage("xxy")])
        assert register.standing().verdicts["hourly"].run == Run(), "replica 4 is there"
    with Register(charter(), tmp_path) as again:
        assert "said this before" in again.tell([older])[0]


def test_what_was_said_of_others_meanwhile_is_heard_late_too(tmp_path: Path) -> None:
    """By one that was down, from another verifier."""
    with Register(charter(), tmp_path) as register:
        newer, older = told(0, Gone("bill", 4, 5)), told(0, Gone("bill", 3, 4))
        assert register.tell([newer, older]) == ["", ""]
        assert [each.replica for each in register.standing().findings] == [4, 3]


def test_the_same_in_other_words_is_not_kept(tmp_path: Path) -> None:
    """Else one liar fills the memory and the disk of a verifier."""
    again = [
        *(told(1, report(1, path=f"bill/1/{number}.arrow")) for number in range(50)),
        *(told(1, report(1, seq=3, path=f"bill/1/{number}.arrow")) for number in range(50)),
        *(told(2, Started("bill", f"host{number}")) for number in range(500)),
        told(2, Broken("bill", "hourly", 0, 3)),
    ]
    with Register(charter(), tmp_path) as register:
        for envelope in again:
            assert register.tell([envelope]) == [""]
        assert register.counts.total() == len(again)
        assert register.counts["told"] == len(register.told) == 2 + MAX_STARTS
        size = (tmp_path / "journal").stat().st_size
        register.tell(again[1:50])
        assert (tmp_path / "journal").stat().st_size == size
        standing = register.standing()
    with Register(charter(), tmp_path) as known:
        assert known.standing() == standing
        assert len(known.told) == 2 + MAX_STARTS


def test_thousands_of_slices_are_a_matter_of_seconds(tmp_path: Path) -> None:
    """4,096 slices of 7 replicas, one of which is wrong everywhere."""
    quorum = Quorum(Model.BYZANTINE, 2)
    signers = {number: Signer.make() for number in (COORDINATOR, *quorum.numbers)}
    keys = {number: signer.public for number, signer in signers.items()}
    rules = Rules(limit=60.0)
    large = Charter("bill", {"hourly": ()}, 4096, quorum.model, quorum.faults, rules, keys)
    size = turns = 0
    begun = time.process_time()
    with Register(large, tmp_path) as register:
        for first in range(0, 4096, 32):
            known = register.version
            envelopes = [
                seal(replica, Reported(report(replica, word, slice=number)), signers[replica])
                for number in range(first, first + 32)
                for replica, word in enumerate("yxxxxxx", 1)
            ]
            size += sum(len(each.body) + len(each.signature) for each in envelopes)
            assert not any(register.tell(envelopes))
            turns += register.turned > known
        standing = register.standing()
    seconds = time.process_time() - begun
    assert standing.state is JobState.DONE
    assert {each.replica for each in standing.findings} == {1}
    assert len(standing.findings) == MAX_FINDINGS + 1
    assert turns == 2, "that somebody is wrong, and that all is agreed upon"
    assert (tmp_path / "journal").stat().st_size < 1.2 * size
    assert seconds < 60


def test_an_accusation_counts_when_there_is_a_copy_to_accuse(tmp_path: Path) -> None:
    broken = told(0, Broken("bill", "hourly", 0, 1))
    with Register(charter(), tmp_path) as register:
        register.tell([broken])
        register.tell([told(each.replica, each) for each in reports_of_a_stage("xxx")])
        register.tell([broken])
        holders = register.standing().verdicts["hourly"].slices[0].holders
        assert [each.replica for each in holders] == [2, 3]


def test_where_a_replica_may_be_is_remembered(tmp_path: Path) -> None:
    pools = {number: frozenset({f"host{number}"}) for number in QUORUM.numbers}
    with Register(charter(pools=pools), tmp_path) as register:
        register.tell([told(0, Back("bill", 3, 1, ("host3", "spare")))])
        for number in (1, 2, 3):
            host = "spare" if number == 3 else f"host{number}"
            register.tell([told(number, replace(report(number), host=host))])
    with Register(charter(pools=pools), tmp_path) as again:
        assert set(again.standing().verdicts["hourly"].slices) == {0}
        assert again.standing().findings == ()


def test_its_clock_stands_still_while_it_is_down(tmp_path: Path) -> None:
    clock = Clock()
    with Register(charter(patience=10.0), tmp_path, clock) as register:
        clock.now += 5
        register.tell([told(each.replica, each) for each in reports_of_a_stage("xxy")])
        assert register.next_wake == 15.0
    later = Clock(5.0)
    with Register(charter(patience=10.0), tmp_path, later) as register:
        assert register.now == 5.0
        register.wake()
        assert register.standing().verdicts["hourly"].run == Run()
        later.now += 10
        register.wake()
        assert register.standing().verdicts["hourly"].run == Run(0, 1)
    with Register(charter(patience=10.0), tmp_path, Clock()) as register:
        assert register.standing().verdicts["hourly"].run == Run(0, 1)


def test_what_is_not_on_disk_has_not_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    envelopes = [told(each.replica, each) for each in reports_of_a_stage()]
    with Register(charter(), tmp_path) as register:
        register.tell(envelopes[:3])
        before = register.standing()
        with monkeypatch.context() as patch:

            def fail(_: int) -> None:
                raise OSError(28, "No space left on device")

            patch.setattr(os, "fdatasync", fail)
            with pytest.raises(StoreUnavailableError):
                register.tell(envelopes[3:])
        assert register.standing() == before
        assert register.told == envelopes[:3]
        register.tell(envelopes[3:])
        assert register.standing().verdicts["hourly"].is_ok
        assert register.standing().state is JobState.RUNNING


def test_it_says_how_far_it_is_while_it_reads_a_long_journal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Register(charter(), tmp_path) as register:
        register.tell([told(each.replica, each) for each in reports_of_a_stage("xxxx")])
    seconds = count(1000.0)
    with caplog.at_level(logging.INFO), Register(charter(), tmp_path, lambda: next(seconds)):
        said = [each.getMessage() for each in caplog.records]
    assert len(said) > 1
    assert all("of 8 words of its journal" in each for each in said)
    assert len(set(said)) == len(said)
