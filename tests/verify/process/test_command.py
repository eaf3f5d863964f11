"""`holdfast verify`, with replicas without Spark."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path
from threading import Event, Thread

import pytest
from rich.console import Console

from harness.verified.cases import is_bill
from harness.verified.holds import Hold, Seen
from harness.verified.lies import Lie, Wrong
from harness.verified.plain import ThreadLauncher, write_energy
from harness.waiting import wait_for
from holdfast.errors import HoldfastError, InvalidArgumentError, StoreUnavailableError
from holdfast.verify import JobFailedError
from holdfast.verify.machine import Mode, Model
from holdfast.verify.process import coordinator
from holdfast.verify.process.command import verify_job
from holdfast.verify.process.config import Config, Need, Pool
from holdfast.verify.process.processes import Launcher, ProcessLauncher, Running
from holdfast.verify.process.report import Account
from holdfast.verify.process.submission import Submission


class Desk:
    """Where jobs are submitted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file, expected = write_energy(folder / "job", 3)
        self.is_right = is_bill(expected)
        self.screen = StringIO()
        self.submissions: list[Submission] = []

    def verify(
        self,
        *lies: Lie,
        config: Config | None = None,
        holds: Sequence[Hold] = (),
        launch: Callable[[Submission], Launcher] | None = None,
        **more: bool | Event,
    ) -> Account:
        given = {"storage": str(self.folder / "storage"), "work": str(self.folder / "work")}
        settings = (config or Config(pools=hosts(4), linger=60.0)).override(given)

        def start(submission: Submission) -> Launcher:
            self.submissions.append(submission)
            return launch(submission) if launch else ThreadLauncher(submission, lies, holds)

        console = Console(file=self.screen, width=120)
        output = self.folder / "out"
        return verify_job(self.file, settings, output, console, launch=start, **more)  # type: ignore[arg-type]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def hosts(count: int, **more: int) -> tuple[Pool, ...]:
    return tuple(Pool(name=f"p{n}", hosts=(f"h{n}",), **more) for n in range(1, count + 1))


def test_a_job_is_verified_and_told_of(desk: Desk) -> None:
    account = desk.verify(Lie(2, "charges", Wrong.VALUE))
    assert account.output is not None
    assert desk.is_right(account.output)
    shown = desk.screen.getvalue()
    assert "stage bills: agreed upon in run 0.0" in shown
    assert "replica 2: outvoted, stage charges" in shown
    assert (account.folder / "account.txt").read_text() in shown


def test_what_replicas_cost_is_told(desk: Desk) -> None:
    """Also of those that were started again."""
    config = Config(pools=hosts(4), linger=60.0, price=3600.0)
    account = desk.verify(Lie(2, "charges", Wrong.CRASH), config=config)
    assert 0 < account.replica_seconds < 5 * (account.seconds + config.linger)
    assert account.price == 3600.0
    assert f"{account.replica_seconds:,.2f}" in account.text()


def test_a_job_that_fails_names_who_disagrees(desk: Desk) -> None:
    lies = [Lie(number, "hourly", Wrong.COUNT, sticky=True) for number in (1, 3)]
    with pytest.raises(JobFailedError, match=r"(?=.*replica 1 says)(?=.*replica 3 says)"):
        desk.verify(*lies)
    assert not (desk.folder / "out").exists()
    told = json.loads((desk.submissions[0].folder / "account.json").read_text())
    assert told["is_verified"] is False
    assert told["output"] is None


def test_shared_hosts_are_refused_or_warned_of(desk: Desk) -> None:
    with pytest.raises(InvalidArgumentError, match="no pools of hosts are given"):
        desk.verify(config=Config())
    account = desk.verify(config=Config(allow_shared_hosts=True))
    assert account.is_verified
    assert "WARNING: no pools of hosts are given" in desk.screen.getvalue()
    assert "shared a host" in account.text()


def test_tasks_on_another_host_than_planned_do_not_count(desk: Desk) -> None:
    pools = list(hosts(4))
    pools[1] = Pool(name="p2", hosts=("h2",), environment={"HOLDFAST_HOST": "h1"})
    holds = [Hold(number, "hourly", Seen(2, "hourly")) for number in (1, 3, 4)]
    account = desk.verify(config=Config(pools=tuple(pools), linger=60.0), holds=holds)
    assert account.is_verified
    assert "replica 2: on a host that is not its own" in account.text()
    assert 2 not in account.hosts


def test_a_job_waits_for_room_or_is_refused(desk: Desk, tmp_path: Path) -> None:
    config = Config(pools=hosts(4, cores=1), replica=Need(cores=1), linger=0.0)
    other = Desk(tmp_path / "other")
    ending = Event()
    held = Lie(1, "hourly", Wrong.HANG), Lie(2, "hourly", Wrong.HANG)
    slow = Thread(target=run_to_end, args=(desk, config, held, ending))
    slow.start()
    try:
        ledger = tmp_path / "work" / "slots" / "ledger.json"
        wait_for("a job", lambda: ledger.exists() and "true" in ledger.read_text(), 60)
        config = config.override({"slots": str(tmp_path / "work" / "slots")})
        with pytest.raises(InvalidArgumentError, match=r"pool p1 has 1 cores.*--wait"):
            other.verify(config=config)
        waiting = Thread(target=other.verify, kwargs={"config": config, "wait": True})
        waiting.start()
        wait_for("the wait", lambda: "waits: pool p1" in other.screen.getvalue(), 60)
        ending.set()
        waiting.join(60)
    finally:
        ending.set()
        slow.join()
    assert other.is_right(tmp_path / "other" / "out")


def run_to_end(desk: Desk, config: Config, lies: tuple[Lie, ...], ending: Event) -> None:
    with pytest.raises(JobFailedError, match="was ended before its end"):
        desk.verify(*lies, config=config, ending=ending)


def test_errors_of_the_job_itself_are_shown_soon(desk: Desk) -> None:
    text = desk.file.read_text()
    desk.file.write_text(text.replace('row["wh"])', 'row["watt"])'))
    with pytest.raises(JobFailedError, match=r"(?s)ended again and again.*KeyError: 'watt'"):
        desk.verify(config=Config(pools=hosts(4), restarts=0))


def test_the_crash_model_needs_two(desk: Desk) -> None:
    config = Config(model=Model.CRASH, pools=hosts(2), restarts=0)
    account = desk.verify(Lie(1, "charges", Wrong.CRASH), config=config)
    assert account.is_verified
    assert account.replicas == 2


def test_the_crash_model_cannot_tell_who_is_right(desk: Desk) -> None:
    config = Config(model=Model.CRASH, mode=Mode.BLOCKING, pools=hosts(2))
    # Neither comes to an end before the other has said something.
    held = Lie(1, "charges", Wrong.HANG), Lie(2, "charges", Wrong.HANG)
    with pytest.raises(JobFailedError, match="the crash model cannot tell which is right"):
        desk.verify(Lie(1, "hourly", Wrong.VALUE), *held, config=config)


def test_another_result_after_the_delivery_is_warned_of(desk: Desk) -> None:
    config = Config(model=Model.CRASH, mode=Mode.BLOCKING, pools=hosts(2), linger=60.0)
    late = Hold(2, "bills", Seen(1, "bills", "made"))
    with pytest.raises(JobFailedError, match=r"was delivered, but .* do not use it"):
        desk.verify(Lie(2, "bills", Wrong.VALUE), config=config, holds=[late])
    account = Account.read(desk.submissions[0].folder)
    assert account.is_verified
    assert account.is_disputed
    assert "WARNING: replicas have different results" in desk.screen.getvalue()


class Spoiling(ThreadLauncher):
    """A replica spoils the ledger when it is let in."""

    def start_replica(self, number: int, pool: Pool) -> Running:
        (self._submission.folder.parent / "slots" / "ledger.json").write_text("{")
        return super().start_replica(number, pool)


def test_a_spoilt_ledger_does_not_cost_the_account(desk: Desk) -> None:
    account = desk.verify(launch=lambda submission: Spoiling(submission, ()))
    assert account.is_verified
    assert Account.read(account.folder) == account
    assert not (desk.folder / "storage" / "slots").exists(), "replicas write there"


class Ended:
    """A process that was killed."""

    def poll(self) -> int | None:
        return -9

    def ask_to_end(self) -> None:
        pass

    def end(self, patience: float) -> None:
        pass


class Silent(ThreadLauncher):
    """Nobody stays."""

    def start_verifier(self, number: int) -> Running:
        return Ended()

    def start_replica(self, number: int, pool: Pool) -> Running:
        return Ended()


def test_verifiers_that_do_not_stay_are_in_the_account(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "VERIFIER_STARTS", 2)
    with pytest.raises(JobFailedError, match="verifier 1 has ended"):
        desk.verify(launch=lambda submission: Silent(submission, ()))
    assert "verifier 1 has ended" in Account.read(desk.submissions[0].folder).failure


class Still:
    """A process that does nothing, or has ended with a code."""

    def __init__(self, code: int | None = None) -> None:
        self._code = code

    def poll(self) -> int | None:
        return self._code

    def ask_to_end(self) -> None:
        pass

    def end(self, patience: float) -> None:
        pass


class Partly(ThreadLauncher):
    """Only some verifiers can be started; if fewer than two, replicas do nothing."""

    def __init__(self, submission: Submission, there: int) -> None:
        super().__init__(submission, ())
        self._there = there

    def start_verifier(self, number: int) -> Running:
        return super().start_verifier(number) if number <= self._there else Still(1)

    def start_replica(self, number: int, pool: Pool) -> Running:
        return super().start_replica(number, pool) if self._there > 1 else Still()


def test_more_than_half_of_the_verifiers_are_enough(desk: Desk) -> None:
    config = Config(pools=hosts(4), linger=60.0, verifiers=3)
    account = desk.verify(config=config, launch=lambda submission: Partly(submission, 2))
    assert account.output is not None
    assert desk.is_right(account.output)
    assert account.findings == ()


def test_half_of_the_verifiers_are_not_enough(desk: Desk) -> None:
    config = Config(pools=hosts(4), linger=60.0, verifiers=3)
    with pytest.raises(JobFailedError, match="verifier 2 has ended 3 times"):
        desk.verify(config=config, launch=lambda submission: Partly(submission, 1))


@pytest.mark.parametrize("error", [StoreUnavailableError("--output: no space"), KeyError("bug")])
def test_an_error_at_the_end_is_in_the_account(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> int:
        raise error

    monkeypatch.setattr(coordinator, "deliver", fail)
    with pytest.raises((JobFailedError, KeyError), match=r"no space|bug"):
        desk.verify()
    account = Account.read(desk.submissions[0].folder)
    assert not account.is_verified
    assert account.output is None
    assert str(error) in account.failure
    assert set(account.runs) == {"hourly", "charges", "bills"}


def test_an_error_after_the_delivery_does_not_deny_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StoreUnavailableError("the disk is gone")

    monkeypatch.setattr(coordinator.Coordinator, "_linger", fail)
    account = desk.verify()
    assert account.output is not None
    assert desk.is_right(account.output)
    assert "warning: the disk is gone" in account.text()


def test_a_verifier_whose_port_was_taken_says_so(desk: Desk) -> None:
    with socket.socket() as taker:

        def launch(submission: Submission) -> ProcessLauncher:
            host, port = submission.addresses[0].split(":")
            taker.bind((host, int(port)))
            taker.listen()
            return ProcessLauncher(submission, replica=("-c", "import signal; signal.pause()"))

        with pytest.raises(
            HoldfastError,
            match=r"verifier 1 has ended 3 times .*cannot serve on .*see whether another process",
        ):
            desk.verify(launch=launch, config=Config(pools=hosts(4)))


class Killable(ThreadLauncher):
    """Verifiers are processes. The first gets a signal when two of four replicas have reported to
    it, and before the others start."""

    def __init__(self, submission: Submission, number: signal.Signals) -> None:
        super().__init__(submission, ())
        self._signal = number
        self._journal = submission.verifier_folder(1) / "journal"
        self._processes = ProcessLauncher(submission)
        self.started: list[Running] = []

    def start_verifier(self, number: int) -> Running:
        self.started.append(self._processes.start_verifier(number))
        return self.started[-1]

    def start_replica(self, number: int, pool: Pool) -> Running:
        if number == 3:
            wait_for("the first reports", self._has_reports, 200)
            os.kill(self.started[0]._process.pid, self._signal)  # type: ignore[attr-defined]
        return super().start_replica(number, pool)

    def _has_reports(self) -> bool:
        return self._journal.exists() and self._journal.stat().st_size > 2000


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_verifier_that_is_killed_or_hangs_goes_on(
    number: signal.Signals, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.verify.process.coordinator.HUNG", 10.0)
    made: list[Killable] = []

    def launch(submission: Submission) -> Killable:
        made.append(Killable(submission, number))
        return made[-1]

    account = desk.verify(launch=launch, config=Config(pools=hosts(4)))
    assert account.output is not None
    assert desk.is_right(account.output)
    assert account.verifier_starts == 1
    assert all(each.poll() is not None for each in made[0].started)
