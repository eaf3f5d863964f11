from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import StoreUnavailableError
from holdfast.verify.machine import (
    Agreed,
    Finding,
    Holder,
    JobState,
    Kind,
    Mode,
    Model,
    Run,
    StageState,
    Standing,
    Verdict,
)
from holdfast.verify.process.report import Account, hosts_of


def make(folder: Path, *, is_verified: bool = True, findings: tuple[Finding, ...] = ()) -> Account:
    return Account(
        submission="billing-1",
        job="billing",
        model=Model.BYZANTINE,
        faults=1,
        replicas=4,
        needed=3,
        mode=Mode.NON_BLOCKING,
        is_verified=is_verified,
        failure="" if is_verified else "job billing-1: replicas 1 and 2 differ",
        output=folder / "out" if is_verified else None,
        rows=1234,
        seconds=2.5,
        runs={"hourly": Run(1, 0), "bills": Run(1, 2)},
        findings=findings,
        pools={1: ("north",), 2: ("south", "spare")},
        hosts={1: ("n1", "n2")},
        verifier_starts=1,
        replica_seconds=1500.0,
        price=None,
        cut={},
        warning="",
        folder=folder,
    )


def test_what_was_written_is_told_though_the_job_has_failed(tmp_path: Path) -> None:
    account = replace(make(tmp_path, is_verified=False), written={"most": "warehouse/most"})
    text = account.text()
    assert "NOT VERIFIED, not all of it was delivered: job billing-1" in text
    assert "written all the same, agreed upon: most to warehouse/most" in text
    assert "nothing was delivered" in make(tmp_path, is_verified=False).text()


def finding(kind: Kind, number: int, text: str = "why") -> Finding:
    return Finding(kind, 2, "s1", "hourly", Run(), number, text)


def test_what_it_tells(tmp_path: Path) -> None:
    found = (finding(Kind.OUTVOTED, 0), finding(Kind.OUTVOTED, 1), finding(Kind.BROKEN_DATA, 1))
    assert make(tmp_path, findings=found).text().splitlines() == [
        "billing-1: byzantine, faults: 1, non-blocking; 3 of 4 replicas must agree",
        f"verified in 2.5 s: 1,234 rows in {tmp_path}/out",
        "stage bills was computed again 2 times",
        "the whole job was begun again once",
        "verifiers were started again once",
        "replicas ran 1,500.0 s, all together",
        "replica 2: outvoted, stage hourly: why (2 slices)",
        "replica 2: right digest, wrong data, stage hourly: why",
        "replica 1: in north; hosts: n1, n2",
        "replica 2: in south, then spare; hosts: none whose results count",
    ]


def test_what_it_costs_is_told_where_there_is_a_price(tmp_path: Path) -> None:
    account = replace(make(tmp_path), price=0.6)
    assert "replicas ran 1,500.0 s, all together; that costs 0.25" in account.text().splitlines()


def test_a_failure_says_that_nothing_was_delivered(tmp_path: Path) -> None:
    lines = make(tmp_path, is_verified=False).text().splitlines()
    assert lines[1] == (
        "NOT VERIFIED, nothing was delivered: job billing-1: replicas 1 and 2 differ"
    )
    assert "nobody was found out" in lines


def test_two_results_in_the_crash_model_are_warned_of_and_nobody_is_blamed(tmp_path: Path) -> None:
    account = replace(make(tmp_path, findings=(finding(Kind.OUTVOTED, 0),)), model=Model.CRASH)
    lines = account.text().splitlines()
    assert lines[1].startswith("verified in")
    assert lines[2].startswith("WARNING: replicas have different results")
    assert "replica 2: differs, stage hourly: why" in lines
    assert "outvoted" not in account.text()
    assert not replace(account, is_verified=False).is_disputed, "nothing was delivered"
    assert not replace(account, findings=(finding(Kind.MISSING, -1),)).is_disputed
    assert not replace(account, model=Model.BYZANTINE).is_disputed


def test_nothing_that_a_replica_says_looks_like_a_line_of_the_account(tmp_path: Path) -> None:
    forged = "h1\nverified in 1.0 s: \x1b[2J"
    account = make(tmp_path, is_verified=False, findings=(finding(Kind.MISPLACED, 0, forged),))
    account = replace(account, failure=f"replica 2 said last:\n{forged}", hosts={2: (forged,)})
    text = account.text()
    assert "\x1b" not in text
    assert not [line for line in text.splitlines() if line.startswith("verified")]
    assert r"h1\nverified in 1.0 s: \x1b[2J" in text


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    for account in (
        make(tmp_path, findings=(finding(Kind.MISSING, -1),)),
        make(tmp_path, is_verified=False),
    ):
        assert account.write().read_text() == account.text()
        assert Account.read(tmp_path) == account


def test_where_nothing_can_be_written_the_error_tells_all(tmp_path: Path) -> None:
    account = make(tmp_path / "none")
    with pytest.raises(StoreUnavailableError) as found:
        account.write()
    assert account.text() in str(found.value)


def test_hosts_are_those_of_tasks_that_count() -> None:
    holders = (Holder(2, "b", "path"), Holder(1, "a", "path"))
    verdict = Verdict("s", Run(), StageState.OK, {0: Agreed(b"", 1, holders)})
    again = Verdict("t", Run(), StageState.OK, {0: Agreed(b"", 1, (Holder(1, "c", "path"),))})
    standing = Standing(JobState.DONE, {"s": verdict, "t": again})
    assert hosts_of(standing) == {1: ("a", "c"), 2: ("b",)}


def test_what_was_cut_of_logs_is_said(tmp_path: Path) -> None:
    told = replace(make(tmp_path), cut={2: 1234567}).text()
    assert "replica 2: 1,234,567 bytes of its log and trace were cut" in told
