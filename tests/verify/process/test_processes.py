"""Processes that a job starts, with a replica that is a few lines of Python."""

from __future__ import annotations

import json
import pickle
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.verified.plain import write_energy
from harness.waiting import wait_for
from holdfast.errors import InvalidArgumentError, UnreachableError, WireError
from holdfast.transport.client import act
from holdfast.transport.security import Security
from holdfast.verify.machine import JobState
from holdfast.verify.process.config import Config, Keys, Pool, VerifierHost
from holdfast.verify.process.pinned_files import SourceFile
from holdfast.verify.process.placement import HERE, plan_placement
from holdfast.verify.process.processes import LOG_BYTES, TRACE, ProcessLauncher, end_leftovers
from holdfast.verify.process.submission import Orders, Submission, submit
from tests.transport.certificates import Authority

SLEEPER = """
import os, signal, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
print(child.pid, os.environ["PYTHONHASHSEED"], os.environ.get("WHO"), file=sys.stderr)
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
    nice = "import os, sys; print(os.nice(0), file=sys.stderr)"
    launcher = ProcessLauncher(submission, replica=("-c", nice))
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


TALKER = f"""
import sys
for file in (sys.stderr, sys.stdout):
    for number in range({LOG_BYTES // 1024 * 5 // 4}):
        print(f"{{number:01023}}", file=file)
"""


def test_a_replica_that_talks_without_end_fills_no_disk(submission: Submission) -> None:
    launcher = ProcessLauncher(submission, replica=("-c", TALKER))
    replica = launcher.start_replica(2, HERE)
    wait_for("its end", lambda: replica.poll() is not None, 120)
    replica.end(0)
    said = LOG_BYTES * 5 // 4
    folders = (submission.folder, submission.replica_folder(2))
    kept = [path for folder in folders for path in folder.iterdir() if path.is_file()]
    logs = [path for path in kept if path.name.startswith(("replica-2.log", TRACE))]
    assert len(logs) == 4
    sizes = sum(path.stat().st_size for path in logs)
    assert sizes <= 2 * LOG_BYTES
    assert launcher.cut(2) == 2 * said - sizes > 0
    last = (submission.folder / "replica-2.log").read_text().splitlines()[-1]
    assert int(last) == LOG_BYTES // 1024 * 5 // 4 - 1


def test_a_command_that_is_not_there_is_named(submission: Submission) -> None:
    pool = Pool(name="x", hosts=("x",), launch=("no-such-command",))
    with pytest.raises(InvalidArgumentError, match="launch: no-such-command"):
        ProcessLauncher(submission).start_replica(2, pool)


def test_a_verifier_demands_certificates_of_its_callers(tmp_path: Path) -> None:
    ours = Authority("ours")
    servers, clients = ours.sign(), ours.sign("", name="replica")
    contents = {
        "token": b"token",
        "certificate": servers.certificate,
        "key": servers.key,
        "authority": ours.certificate,
        "client_certificate": clients.certificate,
        "client_key": clients.key,
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    fields = {name: str(tmp_path / name) for name in contents if name != "token"}
    keys = Keys(token_file=str(tmp_path / "token"), mutual=True, **fields)
    file, _ = write_energy(tmp_path / "job", 1)
    folders = {"storage": str(tmp_path / "storage"), "work": str(tmp_path / "work")}
    made = submit(file, Config(security=keys, **folders))
    made.charter(plan_placement([1, 2, 3, 4], [], shared=True)).write(made.charter_path)
    launcher = ProcessLauncher(made)
    verifier = launcher.start_verifier(1)
    try:
        log = launcher.last_words_of_verifier
        wait_for("the verifier", lambda: "listens on" in log(1), 60)
        address = made.addresses[0]
        for good in (made.security, made.orders(1, HERE).security):
            assert json.loads(act(address, good, "status"))["state"] == "running"
        with pytest.raises(UnreachableError):
            act(address, Security("token", authority=ours.certificate), "status", timeout=5)
    finally:
        verifier.end(0)


READER = """
import os, signal, sys
from pathlib import Path
sys.stdout.buffer.write(sys.stdin.buffer.readline())
sys.stdout.flush()
os.write(2, Path("/proc/self/cmdline").read_bytes() + Path("/proc/self/environ").read_bytes())
signal.pause()
"""


@pytest.mark.parametrize("launch", [(), ("env", "-C", "/")])
def test_only_the_replica_itself_gets_its_key(
    submission: Submission, tmp_path: Path, launch: tuple[str, ...]
) -> None:
    """Not by a file, a command line or a variable. This one prints it: to where its trace goes."""
    many = {"readings": tuple(SourceFile(f"{number:0100}", 1, bytes(32)) for number in range(2000))}
    submission = replace(submission, sources=many)
    launcher = ProcessLauncher(submission, replica=("-c", READER))
    replica = launcher.start_replica(3, Pool(name="x", hosts=("x",), launch=launch))
    trace = submission.replica_folder(3) / TRACE
    try:
        wait_for("the orders", lambda: launcher.last_words(3) and trace.read_text(), 60)
        orders = Orders.decode(trace.read_bytes())
        assert orders.sources == many, "orders may have any size"
        assert orders.secret == submission.signers[3].secret
        secret = json.loads(trace.read_bytes())["secret"]
        others = [each for each in tmp_path.rglob("*") if each.is_file() and each != trace]
        assert others
        assert not any(secret.encode() in each.read_bytes() for each in others)
    finally:
        replica.end(0)


ATTENDED = """
import signal, sys
from holdfast.verify.process.replica_process import attend
attend()
print("attended", file=sys.stderr, flush=True)
signal.pause()
"""


def test_all_end_with_the_coordinator(submission: Submission, tmp_path: Path) -> None:
    script = f"""
import pickle, signal
from holdfast.verify.process.placement import HERE
from holdfast.verify.process.processes import ProcessLauncher
submission = pickle.load(open({str(tmp_path / "submission")!r}, "rb"))
launcher = ProcessLauncher(submission, replica=("-c", {ATTENDED!r}))
started = launcher.start_verifier(1), launcher.start_replica(2, HERE)
print(*(each._process.pid for each in started), flush=True)
signal.pause()
"""
    (tmp_path / "submission").write_bytes(pickle.dumps(submission))
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as coordinator:
        assert coordinator.stdout is not None
        pids = [int(pid) for pid in coordinator.stdout.readline().split()]
        for name, word in {"verifier-1": "listens on", "replica-2": "attended"}.items():
            log = submission.folder / f"{name}.log"
            wait_for(log.read_text, lambda log=log, word=word: word in log.read_text(), 60)
        assert all(map(is_there, pids))
        coordinator.kill()
    assert len(pids) == 2
    for pid in pids:
        wait_for(f"the end of {pid}", lambda pid=pid: not is_there(pid), 60)


def test_a_launched_verifier_sees_no_file_of_ours(tmp_path: Path) -> None:
    """Its charter and the token come by a pipe, and it ends when that does."""
    file, _ = write_energy(tmp_path / "job", 1)
    (tmp_path / "token").write_text("a-secret-token")
    host = VerifierHost(
        address="127.0.0.1", launch=("env", "-C", "/"), work=str(tmp_path / "own host")
    )
    config = Config(
        storage=str(tmp_path / "storage"),
        work=str(tmp_path / "work"),
        verifiers=(host,),
        security=Keys(token_file=str(tmp_path / "token")),
    )
    submission = submit(file, config)
    submission.charter(plan_placement([1, 2, 3, 4], [], shared=True)).write(submission.charter_path)
    running = ProcessLauncher(submission).start_verifier(1)
    try:
        submission.charter_path.unlink()
        with submission.verifiers(60.0) as verifiers:
            assert verifiers.consult().state is JobState.RUNNING
        (address,) = submission.addresses
        with pytest.raises(WireError):
            act(address, None, "status")
        assert submission.security is not None
        command = Path(f"/proc/{running._process.pid}/cmdline").read_bytes()  # type: ignore[attr-defined]
        assert b"a-secret-token" not in command
        assert str(tmp_path / "work").encode() not in command
        assert (submission.verifier_folder(1) / "journal").exists()
        assert submission.verifier_folder(1).is_relative_to(tmp_path / "own host")
        running._has_ended.set()  # type: ignore[attr-defined]
        wait_for("its end", lambda: running.poll() == 0, 60)
    finally:
        running.end(0)


def test_what_is_left_of_a_submission_is_ended(submission: Submission) -> None:
    """Also what has left its group, and nothing of another one."""
    end = 'signal.pause()"]'
    assert SLEEPER.count(end) == 1
    away = SLEEPER.replace(end, f"{end}, start_new_session=True")
    launcher = ProcessLauncher(submission, replica=("-c", away))
    replica = launcher.start_replica(2, HERE)
    child = int(started(launcher)[0])
    other = ProcessLauncher(replace(submission, name="other"), replica=("-c", SLEEPER))
    stranger = other.start_replica(3, HERE)
    try:
        end_leftovers(submission.name, 0.0)
        assert not is_there(child)
        wait_for("its end", lambda: replica.poll() == -signal.SIGKILL, 60)
        assert stranger.poll() is None
    finally:
        replica.end(0)
        stranger.end(0)
