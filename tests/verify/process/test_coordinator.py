"""The coordinator with real verifiers and replicas without Spark: every fault, and what it says.

`make soak PART=verified` tries every fault at every stage in every mode.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, replace
from itertools import count, repeat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from harness.verified.cases import ACCUSATIONS, STAGES, Case, is_bill, judge, run_plain
from harness.verified.holds import Hold, Seen
from harness.verified.lies import Lie, Wrong
from harness.verified.plain import ThreadLauncher, write_energy
from holdfast.errors import REFUSED, StoreUnavailableError
from holdfast.verify.machine import Kind, Mode, Model, Run
from holdfast.verify.process.boundaries import Target
from holdfast.verify.process.config import ALL_TO_ALL, Config
from holdfast.verify.process.confinement import can_confine
from holdfast.verify.process.coordinator import HUNG, Coordinator, _Verifier
from holdfast.verify.process.placement import plan_placement
from holdfast.verify.process.progress import Log, Writing
from holdfast.verify.process.report import Account
from holdfast.verify.process.submission import Submission, submit


def liars(
    faults: int, count: int, wrong: Wrong, stage: str, mode: Mode = Mode.HYBRID, **more: Any
) -> Case:
    lies = [Lie(number, stage, wrong, sticky=True, alike=True) for number in range(1, count + 1)]
    return Case(faults, mode, tuple(lies), **more)


def held(stage: str, *replicas: int, until: Seen) -> tuple[Hold, ...]:
    return tuple(Hold(replica, stage, until) for replica in replicas)


def run(case: Case, folder: Path) -> Account:
    account, expected = run_plain(case, folder, seed=7)
    judge(case, account, is_bill(expected))
    return account


def steps(account: Account, replica: int) -> list[dict[str, Any]]:
    trace = account.folder / f"replica-{replica}" / "trace.jsonl"
    lines = [json.loads(line) for line in trace.read_text().splitlines()]
    return [line for line in lines if line["event"] == "starts"]


@pytest.mark.parametrize("stage", [STAGES[0], STAGES[-1]])
@pytest.mark.parametrize("wrong", Wrong)
def test_one_liar_of_four_changes_nothing_and_is_named(
    wrong: Wrong, stage: str, tmp_path: Path
) -> None:
    run(liars(1, 1, wrong, stage), tmp_path)


@pytest.mark.parametrize(
    ("faults", "count", "mode"),
    [
        (1, 2, Mode.HYBRID),
        (2, 3, Mode.BLOCKING),
        (2, 2, Mode.NON_BLOCKING),
    ],
)
@pytest.mark.parametrize("wrong", Wrong)
def test_more_liars_never_make_a_wrong_result(
    wrong: Wrong, faults: int, count: int, mode: Mode, tmp_path: Path
) -> None:
    run(liars(faults, count, wrong, "charges", mode), tmp_path)


@pytest.mark.parametrize("mode", Mode)
def test_a_source_that_a_replica_rewrites_ends_the_job_with_its_name(
    mode: Mode, tmp_path: Path
) -> None:
    """With as many bytes and the same time; the others read it one stage later."""
    account = run(liars(1, 1, Wrong.SOURCE, "hourly", mode, confine=False), tmp_path)
    assert not account.is_verified
    assert re.search(
        r"source (readings|contracts): \S*\1\.parquet was changed after the job was submitted",
        account.failure,
    )


def staged(folder: Path, target: Target) -> Path:
    """A result of which the program writes one stage."""
    part = folder / f"part-{len(list(folder.glob('part-*')))}"
    row = {"target": target.encode()}
    for name, rows in (("w", [{"n": 1}, {"n": 2}]), ("w.target", [row])):
        (part / name).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), part / name / "00000.parquet")
    return part


def write(folder: Path, submission: Submission, target: Target) -> dict[str, bool]:
    """As a coordinator does that was started again; what its journal says then."""
    placement = plan_placement((1, 2, 3, 4), (), shared=True)
    launcher = ThreadLauncher(submission, ())
    part = staged(folder, target)
    with Coordinator(submission, placement, launcher, folder / "out") as coordinator:
        coordinator._write(part)
        assert list(part.iterdir()) == [], "it is no part of the output"
        return dict(coordinator._log.progress.writes)


def test_a_coordinator_that_is_started_again_writes_once(tmp_path: Path) -> None:
    file, _ = write_energy(tmp_path / "job", 1)
    config = Config(storage=str(tmp_path / "storage"), work=str(tmp_path / "work"))
    submission = replace(submit(file, config), writes=("w",))
    table = Target("delta", "append", str(tmp_path / "table"), None, (), {})
    for _ in range(2):
        assert write(tmp_path, submission, table) == {"w": True}
    assert DeltaTable(tmp_path / "table").to_pyarrow_table()["n"].to_pylist() == [1, 2]


def test_what_may_have_been_written_elsewhere_is_not_written_again(tmp_path: Path) -> None:
    file, _ = write_energy(tmp_path / "job", 1)
    config = Config(storage=str(tmp_path / "storage"), work=str(tmp_path / "work"))
    submission = replace(submit(file, config), writes=("w",))
    with Log(submission.folder) as log:
        log.note(Writing(1.0, "w"))
    with pytest.raises(StoreUnavailableError, match=r"killed while it wrote to db\.t, and nobody"):
        write(tmp_path, submission, Target("parquet", "append", None, "db.t", (), {}))


@pytest.mark.parametrize("mode", Mode)
def test_without_faults_nobody_is_accused(mode: Mode, tmp_path: Path) -> None:
    everybody = [held("bills", 1, 2, 3, 4, until=Seen(n, "bills")) for n in (1, 2, 3, 4)]
    account = run(Case(1, mode, holds=sum(everybody, ())), tmp_path)
    assert account.findings == ()
    assert set(account.runs.values()) == {Run()}
    assert account.hosts == {1: ("h1",), 2: ("h2",), 3: ("h3",), 4: ("h4",)}


def test_two_colluders_of_four_who_stay_wrong_end_the_job_and_are_shown(tmp_path: Path) -> None:
    account = run(liars(1, 2, Wrong.VALUE, "charges"), tmp_path)
    assert not account.is_verified
    assert "replicas 1 and 2 agree on" in account.failure
    assert "replicas 3 and 4 agree on" in account.failure
    assert not (tmp_path / "output").exists()


def test_two_liars_of_four_who_lie_once_cost_one_stage(tmp_path: Path) -> None:
    lies = tuple(Lie(number, "charges", Wrong.VALUE, alike=True) for number in (1, 2))
    account = run(Case(1, Mode.HYBRID, lies), tmp_path)
    assert account.is_verified
    assert account.runs == {"hourly": Run(), "charges": Run(0, 1), "bills": Run()}


@pytest.mark.parametrize("alike", [False, True])
def test_who_differs_tries_again_on_other_hosts_where_too_few_agree(
    alike: bool, tmp_path: Path
) -> None:
    """Those who are right too, if as many say something else; but not they alone."""
    lies = tuple(Lie(number, "charges", Wrong.VALUE, alike=alike) for number in (1, 2))
    account = run(Case(1, Mode.HYBRID, lies), tmp_path)
    assert account.is_verified
    (moved,) = [replica for replica, pools in account.pools.items() if len(pools) > 1]
    assert moved in (1, 2)
    assert account.pools[moved] == (f"p{moved}", "p-spare")
    kinds = {each.kind for each in account.findings}
    assert not kinds & {Kind.MISSING, Kind.MISPLACED}, "nobody was given up, nor blamed for moving"


def test_a_first_stage_without_quorum_is_computed_again_itself(tmp_path: Path) -> None:
    lies = tuple(Lie(number, "hourly", Wrong.VALUE, alike=True) for number in (1, 2))
    account = run(Case(1, Mode.HYBRID, lies), tmp_path)
    assert account.is_verified
    assert account.runs["hourly"] == Run(0, 1)


def test_where_nothing_blocks_the_whole_job_begins_again(tmp_path: Path) -> None:
    lies = (Lie(1, "hourly", Wrong.VALUE), Lie(2, "charges", Wrong.VALUE))
    # Nothing is agreed upon before the first liar has gone on from what it made.
    holds = held("hourly", 3, 4, until=Seen(1, "charges"))
    account = run(Case(1, Mode.NON_BLOCKING, lies, holds=holds), tmp_path / "non-blocking")
    assert account.is_verified
    assert {run.epoch for run in account.runs.values()} == {1}
    account = run(Case(1, Mode.HYBRID, lies, holds=holds), tmp_path / "hybrid")
    assert account.is_verified
    assert set(account.runs.values()) == {Run()}


def test_an_outvoted_replica_reads_the_bytes_of_another(tmp_path: Path) -> None:
    holds = held("charges", 2, 3, 4, until=Seen(1, "charges"))
    lie = Lie(1, "hourly", Wrong.VALUE)
    account = run(Case(1, Mode.BLOCKING, (lie,), holds=holds), tmp_path)
    read = [
        each
        for step in steps(account, 1)
        if step["stage"] == "charges"
        for each in step["inputs"]["hourly"]
    ]
    assert read
    assert all(each["verified"] and each["replica"] != 1 for each in read)
    assert all(f"/{each['replica']}/hourly/" in each["path"] for each in read)


def test_a_replica_that_crashes_is_started_again_on_spare_hosts(tmp_path: Path) -> None:
    holds = held("hourly", 1, 3, 4, until=Seen(2, "hourly", times=2))
    account = run(Case(1, Mode.HYBRID, (Lie(2, "hourly", Wrong.CRASH),), holds=holds), tmp_path)
    assert account.pools[2] == ("p2", "p-spare")
    (finding,) = account.findings
    assert (finding.kind, finding.host) == (Kind.MISSING, "h2"), "it ended there, not on the spare"


def test_wrong_data_of_the_last_stage_is_not_delivered(tmp_path: Path) -> None:
    everybody = tuple(Lie(number, "bills", Wrong.DATA) for number in (1, 2, 3))
    account, expected = run_plain(Case(1, Mode.HYBRID, everybody), tmp_path, seed=7)
    assert account.is_verified
    assert account.output is not None
    assert is_bill(expected)(account.output)
    found = {each.replica for each in account.findings if each.kind is Kind.BROKEN_DATA}
    assert found <= {1, 2, 3}


def test_one_word_against_another_is_settled_by_looking(tmp_path: Path) -> None:
    """Only replica 6 reads what replica 1 has spoilt, and one accuser may lie himself."""
    lies = (
        Lie(1, "hourly", Wrong.DATA),
        Lie(1, "charges", Wrong.HANG),
        Lie(6, "hourly", Wrong.VALUE),
    )
    others = (2, 3, 4, 5, 7)
    holds = (
        *held("charges", *others, until=Seen(6, "charges")),
        *held("bills", *others, until=Seen(6, "charges", "made")),
    )
    account = run(Case(2, Mode.BLOCKING, lies, holds=holds), tmp_path)
    found = {(each.replica, each.kind, each.stage) for each in account.findings}
    assert (1, Kind.BROKEN_DATA, "hourly") in found


@pytest.mark.skipif(not can_confine(), reason="this kernel has no Landlock")
def test_one_that_rewrites_all_that_it_can_reach_reaches_nothing(tmp_path: Path) -> None:
    lies = tuple(Lie(4, stage, Wrong.REWRITE, sticky=True) for stage in STAGES)
    account = run(Case(1, Mode.HYBRID, lies), tmp_path)
    assert account.is_verified
    assert account.findings == ()
    assert account.warning == ""


def test_one_that_fills_the_storage_is_ended_and_named(tmp_path: Path) -> None:
    others = held("hourly", 1, 2, 3, until=Seen(4, "hourly", times=2))
    account = run(Case(1, Mode.HYBRID, (Lie(4, "hourly", Wrong.FILL),), holds=others), tmp_path)
    assert account.is_verified
    (finding,) = account.findings
    assert (finding.kind, finding.replica) == (Kind.OVER_QUOTA, 4)
    assert "took 4 MiB in" in finding.text
    assert "may take 2 MiB" in finding.text
    assert not list((tmp_path / "storage").rglob("junk"))


@pytest.mark.parametrize("mode", Mode)
def test_where_all_can_write_nobody_is_accused(tmp_path: Path, mode: Mode) -> None:
    lies = (Lie(4, "hourly", Wrong.REWRITE), Lie(4, "bills", Wrong.REWRITE))
    case = Case(1, mode, lies, confine=False)
    account = run(case, tmp_path)
    assert not [each for each in account.findings if each.kind in ACCUSATIONS]
    assert "replicas in p1, p2, p3, p4, p-spare can change the files of others" in account.warning


def test_when_all_copies_of_the_result_are_bad_it_is_computed_again(tmp_path: Path) -> None:
    everybody = tuple(Lie(number, "bills", Wrong.DATA) for number in (1, 2, 3, 4))
    account, expected = run_plain(Case(1, Mode.HYBRID, everybody), tmp_path, seed=7)
    assert account.is_verified
    assert account.output is not None
    assert is_bill(expected)(account.output)
    assert account.runs["bills"] == Run(0, 1)


@pytest.mark.parametrize("verifiers", [3, ALL_TO_ALL])
@pytest.mark.parametrize("wrong", [Wrong.EQUIVOCATION, Wrong.VALUE, Wrong.CRASH])
def test_several_verifiers_come_to_the_same(
    wrong: Wrong, verifiers: int | str, tmp_path: Path
) -> None:
    run(liars(1, 1, wrong, "hourly", verifiers=verifiers), tmp_path)


def test_the_account_tells_people_and_programs(tmp_path: Path) -> None:
    account = run(Case(1, Mode.HYBRID, (Lie(1, "charges", Wrong.VALUE),)), tmp_path)
    text = account.write().read_text()
    assert "replica 1: outvoted, stage charges" in text
    told = json.loads((account.folder / "account.json").read_text())
    assert told["is_verified"] is True
    assert {each["kind"] for each in told["findings"]} == {"outvoted"}


@dataclass
class Over:
    """A replica that has ended."""

    code: int = REFUSED

    def poll(self) -> int | None:
        return self.code

    def ask_to_end(self) -> None: ...

    def end(self, patience: float) -> None: ...


@pytest.mark.parametrize("is_late", [False, True], ids=["before the delivery", "after it"])
def test_code_that_writes_by_itself_is_not_taken_for_done(
    is_late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the word of more replicas than may be wrong."""
    file, _ = write_energy(tmp_path / "job", 7)
    given = {"storage": str(tmp_path / "storage"), "work": str(tmp_path / "work")}
    submission = submit(file, Config().override(given))
    placement = plan_placement(submission.quorum.numbers, [], shared=True)
    launcher = ThreadLauncher(submission, ())
    said = {1: "lies", 2: "nightly.py: save writes", 3: "nightly.py: save writes"}
    monkeypatch.setattr(launcher, "last_words", lambda number: f"Spark\n{said[number]}")
    with Coordinator(submission, placement, launcher, tmp_path / "out") as coordinator:
        if is_late:
            monkeypatch.setattr(coordinator, "_rows", 3)
        for number in (1, 2):
            member = coordinator.members[number]
            member.running = Over()
            coordinator._notice_end(member)
            assert coordinator._failure() is None
            assert coordinator.account(None).refused == ""
        coordinator.members[3].running = Over()
        coordinator._notice_end(coordinator.members[3])
        assert coordinator._failure() == said[3]
        account = coordinator.account(None)
    assert account.refused == (said[3] if is_late else "")
    assert ("WARNING" in account.text()) is is_late


@pytest.mark.parametrize(
    ("model", "codes", "is_told"),
    [
        (Model.BYZANTINE, (0, 0, 1, 0), False),
        (Model.BYZANTINE, (0, -9, 1, -9), False),
        (Model.BYZANTINE, (0, 0, 1, 1), True),
        (Model.CRASH, (0, 1), False),
        (Model.CRASH, (1, 1), True),
    ],
)
def test_code_that_fails_after_the_delivery_is_not_taken_for_done(
    model: Model,
    codes: tuple[int, ...],
    is_told: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file, _ = write_energy(tmp_path / "job", 7)
    given = {"storage": str(tmp_path / "storage"), "work": str(tmp_path / "work"), "model": model}
    submission = submit(file, Config().override(given))
    placement = plan_placement(submission.quorum.numbers, [], shared=True)
    launcher = ThreadLauncher(submission, ())
    monkeypatch.setattr(launcher, "last_words", lambda _: "at\nPermissionError: 'out'")
    with Coordinator(submission, placement, launcher, tmp_path / "out") as coordinator:
        for (number, member), code in zip(coordinator.members.items(), codes, strict=True):
            member.running = Over(code)
            coordinator._notice_end(coordinator.members[number])
        assert coordinator.account(None).refused == ""
        monkeypatch.setattr(coordinator, "_rows", 3)
        refused = coordinator.account(None).refused
    assert ("after the last boundary: PermissionError: 'out'" in refused) is is_told


class Reading:
    """A verifier that answers nobody yet."""

    ended = False

    def poll(self) -> int | None:
        return None

    def end(self, patience: float) -> None:
        self.ended = True


@pytest.mark.parametrize("is_going_on", [True, False])
def test_a_verifier_that_reads_its_journal_is_not_ended(
    tmp_path: Path, is_going_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that takes: by its log it is seen that it goes on."""
    file, _ = write_energy(tmp_path / "job", 7)
    given = {"storage": str(tmp_path / "storage"), "work": str(tmp_path / "work")}
    submission = submit(file, Config().override(given))
    placement = plan_placement(submission.quorum.numbers, [], shared=True)
    launcher = ThreadLauncher(submission, ())
    words = count() if is_going_on else repeat("reads")
    monkeypatch.setattr(launcher, "last_words_of_verifier", lambda number: str(next(words)))
    with Coordinator(submission, placement, launcher, tmp_path / "out") as coordinator:
        now = time.monotonic()
        monkeypatch.setattr(coordinator._asked, "silent_since", lambda at: now)
        reading = Reading()
        monkeypatch.setattr(coordinator, "_verifiers", {1: _Verifier(reading, now)})
        for late in (1.0, HUNG, 1.5 * HUNG, 2 * HUNG, 3 * HUNG):
            monkeypatch.setattr(time, "monotonic", lambda late=late: now + late)
            coordinator._keep_verifiers()
        monkeypatch.undo()
        assert reading.ended is not is_going_on
