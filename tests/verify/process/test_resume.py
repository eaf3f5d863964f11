"""A coordinator that is killed, and the same command that goes on: without Spark."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from harness.verified.cases import ACCUSATIONS, is_bill
from harness.verified.holds import Hold, Seen
from harness.verified.lies import Lie, Wrong
from harness.verified.plain import ThreadLauncher, write_energy
from harness.waiting import wait_for
from holdfast.errors import InvalidArgumentError, StoreUnavailableError
from holdfast.verify import JobFailedError
from holdfast.verify.machine import JobState, Kind, Standing
from holdfast.verify.process import coordinator
from holdfast.verify.process.command import verify_job
from holdfast.verify.process.config import Config, Pool
from holdfast.verify.process.delivery import part_of
from holdfast.verify.process.job_spec import Charter
from holdfast.verify.process.messages import Gone, seal
from holdfast.verify.process.messages import Started as VerifierStart
from holdfast.verify.process.progress import AgreedUpon, Delivering, Log, Moved, Noted
from holdfast.verify.process.report import Account
from holdfast.verify.process.resuming import Mark
from holdfast.verify.process.submission import Submission
from holdfast.verify.process.verifier_state import Register

ROOT = Path(__file__).parents[3]


class KilledError(BaseException):
    """Stands for `kill -9`: nothing of this life is written after it."""


class Killing:
    """Ends a life before one of its entries is written, or after."""

    def __init__(
        self, patch: pytest.MonkeyPatch, at: int, *, after: bool, of: type[Noted] | None
    ) -> None:
        self.noted: list[Noted] = []
        self._left = at
        self._after = after
        self._of = of
        self._note = Log.note
        patch.setattr(Log, "note", lambda log, *entries: self._take(log, entries))

    def _take(self, log: Log, entries: tuple[Noted, ...]) -> None:
        counts = self._of is None or isinstance(entries[0], self._of)
        self._left -= counts
        if self._left < 0 or (self._left == 0 and not self._after):
            raise KilledError
        self._note(log, *entries)
        self.noted += entries
        if counts and self._left == 0:
            raise KilledError


class Desk:
    """Where one job is submitted, again and again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file, expected = write_energy(folder / "job", 3)
        self.is_right = is_bill(expected)
        self.screen = StringIO()
        self.output = folder / "out"
        self.submissions: list[Submission] = []

    def verify(
        self,
        lies: Sequence[Lie] = (),
        holds: Sequence[Hold] = (),
        *,
        fresh: bool = False,
        ending: Event | None = None,
        stopping: Event | None = None,
        **settings: Any,
    ) -> Account:
        names = [*range(1, 5), "-spare"]
        config = Config(
            pools=tuple(Pool(name=f"p{n}", hosts=(f"h{n}",)) for n in names),
            linger=60.0,
            storage=str(self.folder / "storage"),
            work=str(self.folder / "work"),
        ).override(settings)

        def launch(submission: Submission) -> ThreadLauncher:
            self.submissions.append(submission)
            return ThreadLauncher(submission, lies, holds)

        console = Console(file=self.screen, width=120)
        return verify_job(
            self.file,
            config,
            self.output,
            console,
            launch=launch,
            fresh=fresh,
            ending=ending,
            stopping=stopping,
        )

    def killed(
        self,
        at: int = 1,
        lies: Sequence[Lie] = (),
        holds: Sequence[Hold] = (),
        *,
        after: bool = True,
        of: type[Noted] | None = None,
    ) -> list[Noted] | None:
        """Kill it at an entry, or only count those of one kind. The entries of this life; None if
        it came to its end before."""
        with pytest.MonkeyPatch.context() as patch:
            killing = Killing(patch, at, after=after, of=of)
            try:
                self.verify(lies, holds)
            except KilledError:
                return killing.noted
        return None

    def standing(self) -> Standing:
        """How the job stands by the journal of its verifier."""
        submission = self.submissions[-1]
        charter = Charter.read(submission.charter_path)
        with Register(charter, submission.verifier_folder(1)) as register:
            return register.standing()

    def steps(self) -> Counter[str]:
        return steps_in(self.submissions[-1].folder)


def steps_in(folder: Path) -> Counter[str]:
    """How often replicas have begun to compute each stage, in all lives."""
    found: Counter[str] = Counter()
    for trace in folder.glob("replica-*/trace.jsonl"):
        steps = map(json.loads, trace.read_text().splitlines())
        found.update(step["stage"] for step in steps if step["event"] == "starts")
    return found


def stat_of(output: Path) -> tuple[int, int] | None:
    return (output.stat().st_ino, output.stat().st_mtime_ns) if output.exists() else None


def check_resumed(desk: Desk, lives: int, liars: set[int]) -> None:
    """Go on after a kill: nothing that was agreed upon is computed again, and all is right."""
    before = desk.standing() if desk.submissions[-1].charter_path.exists() else None
    done = desk.steps()
    there = stat_of(desk.output)
    name = desk.submissions[-1].name
    account = desk.verify([Lie(each, "charges", Wrong.VALUE) for each in liars])
    assert account.submission == name
    assert account.lives == lives
    assert desk.is_right(desk.output)
    assert there in (None, stat_of(desk.output)), "the result was delivered twice"
    agreed = [s for s, v in before.verdicts.items() if v.is_ok] if before else []
    assert not set(desk.steps() - done) & set(agreed), "it was computed again"
    if before is not None and before.state is JobState.DONE:
        assert desk.steps() == done
    accused = {each.replica for each in account.findings if each.kind in ACCUSATIONS}
    assert accused <= liars
    assert not any(each.kind is Kind.MISSING for each in account.findings)
    assert f"went on {'once' if lives == 2 else f'{lives - 1} times'}" in account.text()
    assert not list(desk.folder.glob(".out.*"))


@pytest.mark.parametrize(("after", "liars"), [(False, {2}), (True, set())])
def test_killed_at_every_entry_it_goes_on(after: bool, liars: set[int], tmp_path: Path) -> None:
    lies = [Lie(each, "charges", Wrong.VALUE) for each in liars]
    kinds: set[type] = set()
    for at in range(1, 100):
        desk = Desk(tmp_path / str(at))
        noted = desk.killed(at, lies, after=after)
        if noted is None:
            break
        if not desk.submissions:
            # Nothing was begun.
            assert desk.verify(lies).is_verified
            continue
        kinds |= {type(each) for each in noted}
        if len(noted) > 1:
            check_resumed(desk, 2, liars)
    assert {AgreedUpon, Delivering} <= kinds


@pytest.mark.parametrize("seed", range(4))
def test_killed_again_and_again_it_goes_on(seed: int, tmp_path: Path) -> None:
    rng = Random(seed)
    desk = Desk(tmp_path)
    lives = 3
    for _ in range(lives):
        if desk.killed(rng.randint(3, 9), after=rng.random() < 0.5) is None:
            assert desk.is_right(desk.output)
            return
    check_resumed(desk, lives + 1, set())


def change_source(desk: Desk) -> str:
    path = desk.folder / "job" / "data" / "contracts.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    return r"source contracts: .*contracts.parquet has changed"


def change_job(desk: Desk) -> str:
    desk.file.write_text(desk.file.read_text() + "\n")
    return r"the job's file .*energy.py has changed"


@pytest.mark.parametrize("change", [change_source, change_job])
def test_what_has_changed_since_is_refused_by_name(
    change: Callable[[Desk], str], tmp_path: Path
) -> None:
    desk = Desk(tmp_path)
    assert desk.killed(of=AgreedUpon)
    message = change(desk)
    with pytest.raises(InvalidArgumentError, match=f"{message}.*--fresh"):
        desk.verify()
    account = desk.verify(fresh=True)
    assert account.submission != desk.submissions[0].name
    assert account.lives == 1
    assert not list(desk.folder.glob("work/*/unfinished"))


def test_a_setting_that_has_changed_is_refused_by_name(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert desk.killed(of=AgreedUpon)
    with pytest.raises(InvalidArgumentError, match="setting retries has changed"):
        desk.verify(retries=1)
    assert desk.verify().lives == 2, "it may still go on as it was"


def test_a_job_that_has_ended_is_begun_anew(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    first = desk.verify()
    with pytest.raises(InvalidArgumentError, match=r"--output: .* is there already"):
        desk.verify()
    shutil.rmtree(desk.output)
    assert desk.verify().submission != first.submission


def test_another_output_is_another_submission(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert desk.killed(of=AgreedUpon)
    desk.output = tmp_path / "other"
    assert desk.verify().lives == 1


def test_a_job_that_runs_is_not_gone_on_with(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert desk.killed(of=AgreedUpon)
    with (
        Log(desk.submissions[-1].folder),
        pytest.raises(InvalidArgumentError, match="runs already, with the same --output"),
    ):
        desk.verify()


def test_what_is_agreed_upon_waits_for_room_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that was full when the result was to be written costs no stage."""

    def fail(*_: object, **__: object) -> int:
        raise StoreUnavailableError("--output: no space")

    desk = Desk(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(coordinator, "deliver", fail)
        with pytest.raises(JobFailedError, match=r"no space.*the same command goes on"):
            desk.verify()
    check_resumed(desk, 2, set())


def test_a_job_that_is_given_up_does_not_go_on_and_one_that_is_stopped_does(tmp_path: Path) -> None:
    for is_stopped in (False, True):
        desk = Desk(tmp_path / str(is_stopped))
        ending, stopping = Event(), Event()
        if is_stopped:
            stopping.set()
        note = Log.note

        def end(log: Log, *entries: Noted, note: Any = note, ending: Event = ending) -> None:
            note(log, *entries)
            if isinstance(entries[0], AgreedUpon):
                ending.set()

        held = [Lie(number, "charges", Wrong.HANG) for number in (1, 2)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Log, "note", end)
            with pytest.raises(JobFailedError, match="ended before its end"):
                desk.verify(held, ending=ending, stopping=stopping)
        assert desk.verify().lives == 1 + is_stopped


def test_a_half_written_result_of_a_killed_command_is_removed(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert desk.killed(of=Delivering)
    part = part_of(desk.output, desk.submissions[-1].name)
    (part / "bills").mkdir(parents=True)
    (part / "bills" / "00000.parquet").write_bytes(b"half")
    check_resumed(desk, 2, set())


def test_another_folder_in_place_of_the_result_is_not_taken_for_it(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert desk.verify().lives == 1
    mark = Mark(desk.submissions[-1].folder)
    mark.set(desk.file, desk.output)
    there = stat_of(desk.output)
    assert desk.verify().lives == 2
    assert stat_of(desk.output) == there, "it was delivered, and only the account was missing"
    mark.set(desk.file, desk.output)
    shutil.rmtree(desk.output)
    desk.output.mkdir()
    with pytest.raises(InvalidArgumentError, match="is there already"):
        desk.verify()


def test_a_replica_that_was_moved_stays_where_it_is(tmp_path: Path) -> None:
    """So does what was lost: its end is told, and counts among those that it may have."""
    desk = Desk(tmp_path)
    crash = [Lie(2, "hourly", Wrong.CRASH)]
    holds = [Hold(number, "hourly", Seen(2, "hourly", times=2)) for number in (1, 3, 4)]
    assert desk.killed(1, crash, holds, of=Moved)
    account = desk.verify((), holds)
    assert account.lives == 2
    assert account.pools[2] == ("p2", "p-spare")
    assert [(each.kind, each.replica) for each in account.findings] == [(Kind.MISSING, 2)]
    assert desk.is_right(desk.output)


def test_the_account_covers_all_lives(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    noted = desk.killed(of=AgreedUpon)
    assert noted is not None
    account = desk.verify()
    assert account.seconds > noted[-1].at  # type: ignore[union-attr]
    assert account.replica_seconds > noted[-1].at  # type: ignore[union-attr]
    assert account.pools == {n: (f"p{n}", f"p{n}") for n in range(1, 5)}


def test_what_was_signed_in_an_earlier_life_is_not_taken_again(tmp_path: Path) -> None:
    """Nor are earlier words of the coordinator: their numbers are lower."""
    desk = Desk(tmp_path)
    assert desk.killed(of=AgreedUpon)
    desk.verify()
    old, new = desk.submissions[-2:]
    assert old.name == new.name
    assert not {each.public for each in old.signers.values()} & {
        each.public for each in new.signers.values()
    }
    charter = Charter.read(new.charter_path)
    with Register(charter, new.verifier_folder(1)) as register:
        version = register.version
        forged = [
            seal(1, VerifierStart(new.name, "h9"), old.signers[1]),
            seal(0, Gone(new.name, 1, 2**62), old.signers[0]),
            seal(0, Gone(new.name, 1, 7), new.signers[0]),
        ]
        answers = register.tell(forged)
        assert "has not signed this" in answers[0]
        assert "has not signed this" in answers[1]
        assert "or something newer" in answers[2]
        assert register.version == version


def test_verifiers_that_agree_on_something_else_than_before_are_found_out(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    assert desk.killed(of=AgreedUpon)
    folder = desk.submissions[-1].folder
    with Log(folder) as log:
        (stage, *_) = log.progress.agreed
        log.note(AgreedUpon(1.0, stage, b"other".ljust(32)))
    with pytest.raises(JobFailedError, match="agree on something else than before"):
        desk.verify()
    assert not desk.output.exists()


def test_killed_for_real(tmp_path: Path) -> None:
    """With processes: those that it has started end, and new ones go on."""
    desk = Desk(tmp_path)
    script = f"""
from pathlib import Path
from rich.console import Console
from functools import partial
from holdfast.verify.process.command import verify_job
from holdfast.verify.process.config import Config
from holdfast.verify.process.processes import ProcessLauncher
config = Config(allow_shared_hosts=True, linger=60.0, storage={str(tmp_path / "storage")!r},
    work={str(tmp_path / "work")!r})
launch = partial(ProcessLauncher, replica=("-m", "harness.verified.plain_replica"))
verify_job(Path({str(desk.file)!r}), config, Path({str(desk.output)!r}), Console(), launch=launch)
"""
    held = tmp_path / "held"
    held.touch()
    text = desk.file.read_text()
    place = "    known = {row"
    assert text.count(place) == 1
    wait = f"    while Path({str(held)!r}).exists():\n        time.sleep(0.05)\n"
    text = text.replace("import math\n", "import math\nimport time\nfrom pathlib import Path\n")
    desk.file.write_text(text.replace(place, wait + place))
    command = [sys.executable, "-c", script]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as first:
        try:
            wait_for("a stage", lambda: "hourly" in agreed_in(tmp_path / "work"), 120)
        finally:
            first.kill()
    (folder,) = (path.parent for path in (tmp_path / "work").glob("*/unfinished"))
    done = steps_in(folder)
    held.unlink()
    again = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr
    assert "was interrupted and goes on; stages agreed upon by then: hourly" in again.stdout
    assert not (steps_in(folder) - done)["hourly"]
    assert desk.is_right(desk.output)
    assert Account.read(folder).lives == 2


def agreed_in(work: Path) -> set[str]:
    """By the journal of a coordinator that runs."""
    found: set[str] = set()
    for path in work.glob("*/coordinator/journal"):
        copy = work / "copy"
        copy.mkdir(exist_ok=True)
        (copy / "coordinator").mkdir(exist_ok=True)
        (copy / "coordinator" / "journal").write_bytes(path.read_bytes())
        with Log(copy) as log:
            found |= set(log.progress.agreed)
    return found
