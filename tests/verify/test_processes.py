"""Processes that a job starts, with a replica that is a few lines of Python."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.verified.plain import write_energy
from harness.waiting import wait_for
from holdfast.errors import InvalidArgumentError
from holdfast.verify.config import Config, Pool
from holdfast.verify.orders import Orders
from holdfast.verify.placement import HERE, plan_placement
from holdfast.verify.processes import ProcessLauncher
from holdfast.verify.submission import Submission, submit

SLEEPER = """
import os, signal, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
print(child.pid, os.environ["PYTHONHASHSEED"], os.environ.get("WHO"), flush=True)
signal.pause()
"""


@pytest.fixture
def submission(tmp_path: Path) -> Submission:
    file, _ = write_energy(tmp_path / "job", 1)
    config = Config(storage=str(tmp_path / "storage"), work=str(tmp_path / "work"))
    made = submit(file, config)
    made.charter(plan_placement([1, 2, 3, 4], [], shared=True)).write(made.charter_path)
    return made


def started(launcher: ProcessLauncher) -> list[str]:
    wait_for("the replica", lambda: launcher.last_words(2) != "", 60)
    return launcher.last_words(2).split()


def is_there(pid: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def test_a_replica_ends_with_all_that_it_has_started(submission: Submission) -> None:
    launcher = ProcessLauncher(submission, replica=("-c", SLEEPER))
    replica = launcher.start_replica(2, HERE)
    child, seed, _ = started(launcher)
    assert seed == "0"
    assert replica.poll() is None
    replica.ask_to_end()
    replica.end(60)
    assert replica.poll() == -signal.SIGTERM
    wait_for("its child", lambda: not is_there(int(child)), 60)


def test_one_that_begins_again_lets_the_others_go_first(submission: Submission) -> None:
    launcher = ProcessLauncher(submission, replica=("-c", "import os; print(os.nice(0))"))
    for _ in range(2):
        launcher.start_replica(2, HERE).end(60)
    first, again = map(int, launcher.last_words(2).split())
    assert again > first


def test_one_that_does_not_listen_is_killed(submission: Submission) -> None:
    deaf = "import signal; signal.signal(15, signal.SIG_IGN)" + SLEEPER
    launcher = ProcessLauncher(submission, replica=("-c", deaf))
    replica = launcher.start_replica(2, HERE)
    started(launcher)
    replica.ask_to_end()
    replica.end(0)
    assert replica.poll() == -signal.SIGKILL


def test_a_pool_says_how_its_drivers_are_started(submission: Submission) -> None:
    pool = Pool(name="x", hosts=("x",), environment={"WHO": "x"}, launch=("env", "-u", "HOME"))
    launcher = ProcessLauncher(submission, replica=("-c", SLEEPER))
    replica = launcher.start_replica(2, pool)
    try:
        assert started(launcher)[2] == "x"
    finally:
        replica.end(0)


def test_a_command_that_is_not_there_is_named(submission: Submission) -> None:
    pool = Pool(name="x", hosts=("x",), launch=("no-such-command",))
    with pytest.raises(InvalidArgumentError, match="launch: no-such-command"):
        ProcessLauncher(submission).start_replica(2, pool)


def test_each_start_has_orders_that_others_cannot_read(submission: Submission) -> None:
    launcher = ProcessLauncher(submission, replica=("-c", ""))
    for _ in range(2):
        launcher.start_replica(3, HERE).end(60)
    paths = sorted(submission.replica_folder(3).glob("orders-*.json"))
    assert [path.name for path in paths] == ["orders-1.json", "orders-2.json"]
    for path in paths:
        assert path.stat().st_mode & 0o77 == 0
        assert Orders.read(path).secret == submission.signers[3].secret


def test_verifiers_end_with_the_coordinator(submission: Submission, tmp_path: Path) -> None:
    script = f"""
import os, pickle, signal, sys
from holdfast.verify.processes import ProcessLauncher
launcher = ProcessLauncher(pickle.load(open({str(tmp_path / "submission")!r}, "rb")))
print(launcher.start_verifier(1)._process.pid, flush=True)
signal.pause()
"""
    (tmp_path / "submission").write_bytes(pickle.dumps(submission))
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as coordinator:
        assert coordinator.stdout is not None
        verifier = int(coordinator.stdout.readline())
        log = submission.folder / "verifier-1.log"
        wait_for(log.read_text, lambda: "listens on" in log.read_text(), 60)
        coordinator.kill()
    wait_for(lambda: f"the end of {verifier}", lambda: not is_there(verifier), 60)
