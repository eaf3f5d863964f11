"""Cases: which replicas do what wrong, in which job and mode; and what must come of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from harness.verified.holds import Hold
from harness.verified.lies import HANGS, Lie, Wrong
from harness.verified.plain import ThreadLauncher, write_energy
from holdfast.verify.machine import Kind, Mode, Model, Quorum, Run
from holdfast.verify.process.config import Config, Pool
from holdfast.verify.process.coordinator import Coordinator
from holdfast.verify.process.placement import plan_placement
from holdfast.verify.process.report import Account
from holdfast.verify.process.submission import submit

__all__ = [
    "ACCUSATIONS",
    "STAGES",
    "Case",
    "is_bill",
    "judge",
    "matrix",
    "read_output",
    "run_plain",
    "run_plain_job",
]

STAGES: Final = ("hourly", "charges", "bills")
NAMED: Final = {
    Wrong.CRASH: Kind.MISSING,
    Wrong.VALUE: Kind.OUTVOTED,
    Wrong.COUNT: Kind.OUTVOTED,
    Wrong.DATA: Kind.BROKEN_DATA,
    Wrong.COPYCAT: Kind.BROKEN_DATA,
    Wrong.EQUIVOCATION: Kind.EQUIVOCATED,
    Wrong.IDENTITY: Kind.OUTVOTED,
    Wrong.SEQUENCE: Kind.OUTVOTED,
}
"""What is found of each; who hangs or is slow need not be waited for."""
CHANGED_SOURCE: Final = "was changed after the job was submitted"
ACCUSATIONS: Final = (Kind.OUTVOTED, Kind.EQUIVOCATED, Kind.BROKEN_DATA, Kind.MISPLACED)


@dataclass(frozen=True)
class Case:
    faults: int
    mode: Mode
    lies: tuple[Lie, ...] = ()
    verifiers: int | Literal["all-to-all"] = 1
    confine: bool = True
    """Whether no replica can write where others do."""
    holds: tuple[Hold, ...] = ()
    """Besides those by which every lie is told."""

    @property
    def liars(self) -> set[int]:
        """Who is wrong; to be slow is no fault."""
        return {lie.replica for lie in self.lies if lie.wrong is not Wrong.SLOW}

    @property
    def is_spoiled(self) -> bool:
        """Whether somebody alters files of others: the job may come to no result then, and nobody
        is named for it."""
        return not self.confine and any(lie.wrong is Wrong.REWRITE for lie in self.lies)

    def __str__(self) -> str:
        told = [
            f"{lie.wrong} of {lie.replica} at {lie.stage}{' (sticky)' * lie.sticky}"
            for lie in self.lies
        ]
        said = "; ".join(told) or "no faults"
        return f"{3 * self.faults + 1} replicas, {self.mode}, {said}"


def matrix() -> list[Case]:
    """Every fault at every stage, by so many liars as may be and by one more, in every mode; and
    those who are too many tell different lies too."""
    alike = [(wrong, *of, True) for wrong in Wrong for of in ((1, 1), (1, 2), (2, 2), (2, 3))]
    different = [(Wrong.VALUE, *of, False) for of in ((1, 2), (2, 3))]
    return [
        Case(
            faults,
            mode,
            tuple(
                Lie(replica, stage, wrong, sticky=True, alike=are_alike)
                for replica in range(1, liars + 1)
            ),
            # Who says two things says them to different verifiers.
            verifiers=3 if wrong is Wrong.EQUIVOCATION else 1,
        )
        for mode in Mode
        for stage in STAGES
        for wrong, faults, liars, are_alike in (*alike, *different)
    ]


def run_plain(
    case: Case, folder: Path, seed: int
) -> tuple[Account, Mapping[str, tuple[float, int]]]:
    """Run it without Spark; the account, and what the bills should be."""
    file, expected = write_energy(folder / "job", seed)
    return run_plain_job(file, case, folder), expected


def run_plain_job(file: Path, case: Case, folder: Path) -> Account:
    """Run a job whose stages take Arrow tables; its result is in `folder`/output."""
    quorum = Quorum(Model.BYZANTINE, case.faults)
    hangs = any(lie.wrong in HANGS for lie in case.lies)
    # Only those who hang are given up: on a busy machine those who are right are late too.
    is_short = hangs and len(case.liars) > case.faults
    config = Config(
        faults=case.faults,
        mode=case.mode,
        patience=1.0 if is_short else 120.0,
        limit=2.0 if is_short else 240.0,
        restarts=1,
        linger=0.5 if hangs else 60.0,
        verifiers=case.verifiers,
        confine=case.confine,
        quota="2m",
        storage=str(folder / "storage"),
        work=str(folder / "work"),
        pools=tuple(Pool(name=f"p{n}", hosts=(f"h{n}",)) for n in (*quorum.numbers, "-spare")),
    )
    submission = submit(file, config)
    placement = plan_placement(quorum.numbers, config.pools, shared=False)
    launcher = ThreadLauncher(submission, case.lies, case.holds)
    output = folder / "output"
    with Coordinator(submission, placement, launcher, output) as coordinator:
        return coordinator.run(lambda _: None)


def read_output(output: Path, stage: str) -> pa.Table:
    return pa.concat_tables(pq.read_table(file) for file in sorted((output / stage).iterdir()))


def judge(case: Case, account: Account, is_right: Callable[[Path], bool]) -> None:
    """Whatever happens, nothing wrong is delivered and nobody is accused who is right. So many
    liars as may be change nothing and are named; more than that may end the job, which then says
    of all of them what they said."""
    if account.is_verified:
        assert account.output is not None
        assert is_right(account.output), f"{case}: a wrong result was delivered"
    else:
        assert account.output is None
        assert account.failure, f"{case}: nobody says why there is no result"
        if any(lie.wrong is Wrong.SOURCE for lie in case.lies) and "source " in account.failure:
            # It is seen that a file was changed, and not by whom.
            assert CHANGED_SOURCE in account.failure, f"{case}: {account.text()}"
            return
        unnamed = set() if case.is_spoiled else case.liars - _named_in(account)
        assert not unnamed, f"{case}: {unnamed} are not named: {account.text()}"
    accused = {each.replica for each in account.findings if each.kind in ACCUSATIONS}
    assert accused <= case.liars, f"{case}: {accused} were accused: {account.text()}"
    if len(case.liars) > case.faults or case.is_spoiled:
        return
    assert account.is_verified, f"{case}: {account.text()}"
    if case.mode is not Mode.NON_BLOCKING:
        again = {stage: run for stage, run in account.runs.items() if run != Run()}
        assert not again, f"{case}: {again} were computed again: {account.text()}"
    # Who has ended is missing wherever the others are.
    found = {
        (each.replica, each.kind, "" if each.kind is Kind.MISSING else each.stage)
        for each in account.findings
    }
    for lie in case.lies:
        if lie.wrong in NAMED and _can_be_found(lie, account):
            kind = NAMED[lie.wrong]
            wanted = (lie.replica, kind, "" if kind is Kind.MISSING else lie.stage)
            assert wanted in found, f"{case}: {wanted} was not found: {account.text()}"


def _named_in(account: Account) -> set[int]:
    """Of whom the account tells something, in its failure or in what was found."""
    told = re.findall(r"replicas? ([0-9]+(?:(?:, | and )[0-9]+)*)", account.failure)
    return {
        *(int(number) for numbers in told for number in re.findall("[0-9]+", numbers)),
        *(each.replica for each in account.findings),
        *(replica for each in account.findings for replica in each.dissenters),
    }


def _can_be_found(lie: Lie, account: Account) -> bool:
    """Of wrong data: whether the liar has come to read its own copy when that was agreed upon, and
    so tells of it. What nobody reads does no harm."""
    if lie.wrong not in (Wrong.DATA, Wrong.COPYCAT):
        return True
    trace = account.folder / f"replica-{lie.replica}" / "trace.jsonl"
    return any(
        each["verified"] and each["replica"] == lie.replica
        for step in map(json.loads, trace.read_text().splitlines())
        if step["event"] == "starts"
        for each in step["inputs"].get(lie.stage, ())
    )


def is_bill(expected: Mapping[str, tuple[float, int]]) -> Callable[[Path], bool]:
    def check(output: Path) -> bool:
        rows: list[dict[str, Any]] = read_output(output, "bills").to_pylist()
        return {row["customer"]: (row["cents"], row["hours"]) for row in rows} == expected

    return check
