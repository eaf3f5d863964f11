"""When a replica that lies is in quarantine, and when no more."""

from __future__ import annotations

from holdfast.pipeline.gates import Accuse
from holdfast.pipeline.machine.findings import Findings


def accusation(name: str, bucket: int = 0) -> Accuse:
    return Accuse(name, bucket, b"said", b"agreed")


def test_after_enough_proofs_a_replica_is_in_quarantine() -> None:
    findings = Findings(proofs=3)
    assert [findings.accuse(accusation("x", n)) for n in range(4)] == [False, False, True, False]
    assert findings.quarantined == {"x"}


def test_there_are_never_more_than_can_be_outvoted() -> None:
    findings = Findings(faults=1, proofs=1)
    assert findings.accuse(accusation("x"))
    assert not findings.accuse(accusation("y"))
    assert findings.quarantined == {"x"}
    assert findings.counts == {"x": 1, "y": 1}
    assert findings.readmit("x")
    assert findings.accuse(accusation("y"))


def test_who_is_admitted_again_begins_anew() -> None:
    findings = Findings(proofs=2)
    for number in range(5):
        findings.accuse(accusation("x", number))
    assert findings.readmit("x")
    assert not findings.readmit("x")
    assert findings.counts["x"] == 0
    assert not findings.accuse(accusation("x"))
    assert findings.accuse(accusation("x"))


def test_of_one_who_goes_on_lying_not_all_is_kept() -> None:
    findings = Findings()
    for number in range(1000):
        findings.accuse(accusation("x", number))
    assert len(findings.accused) < 100
    assert findings.counts["x"] == 1000
