"""Processes of a job: its verifiers, and a driver for each replica.

Each is the leader of a Unix session of its own, so that Ctrl-C reaches the coordinator alone, which
then ends them with all that they have started. If it is killed itself, they end with it: verifiers
look for it, and the standard input of replicas ends.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event, Thread
from typing import IO, Final, Protocol

from holdfast.errors import InvalidArgumentError
from holdfast.verify.process.config import Pool, VerifierHost
from holdfast.verify.process.confinement import confined
from holdfast.verify.process.job_spec import Charter, VerifierOrders
from holdfast.verify.process.submission import Submission

SHOWN: Final = 12
"""Lines of a log that an error shows."""
TRACE: Final = "trace.jsonl"
"""In the folder of a replica: what it did. See `Trace`."""
SCRATCH: Final = "scratch"
"""There too: the temporary files of one that is confined."""
REPLICA: Final = ("-m", "holdfast.verify.process.replica_process")
SUBMISSION: Final = "HOLDFAST_SUBMISSION"
"""The variable by which all processes of a submission are known, and all that they have started."""
LOOK: Final = 0.1
"""Seconds between two looks whether processes have ended."""
BEHIND: Final = 19
"""How nice a replica is that was started again: where it shares a host, it takes what those who are
ahead of it leave."""


LOG_BYTES: Final = 16 << 20
"""What is kept of a log or a trace of a replica, in two files of which the older goes."""
DRAIN: Final = 5.0
"""Seconds for what a process has said when it ended to be written down."""
READ: Final = 64 << 10
REST: Final = 0.01
"""Seconds between two reads of one that has said more than that: it is made to wait."""


class Running(Protocol):
    def poll(self) -> int | None:
        """How it has ended; None as long as it runs."""

    def ask_to_end(self) -> None: ...

    def end(self, patience: float) -> None:
        """Wait until it has ended, and make it end after so many seconds."""


class Launcher(Protocol):
    """How the coordinator starts what it needs."""

    def start_verifier(self, number: int) -> Running:
        """Again if it has run before: it goes on from its journal."""

    def start_replica(self, number: int, pool: Pool) -> Running: ...

    def last_words(self, number: int) -> str:
        """What a replica said in the end, for people."""

    def last_words_of_verifier(self, number: int) -> str: ...

    def cut(self, number: int) -> int:
        """Bytes of the log and the trace of a replica that were not kept."""


class ProcessLauncher:
    def __init__(
        self,
        submission: Submission,
        *,
        replica: Sequence[str] = REPLICA,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`replica`: what Python is given to run one."""
        self._submission = submission
        self._replica = tuple(replica)
        self._environment = dict(environment or {})
        self._starts: dict[int, int] = {}
        self._kept: dict[int, list[_Kept]] = {}

    def start_verifier(self, number: int) -> Running:
        submission = self._submission
        address = submission.addresses[number - 1]
        host = submission.verifier_host(number)
        launch = host.launch if host else ()
        variables = {SUBMISSION: submission.name}
        orders = b""
        if launch:
            # It sees none of our files.
            charter = Charter.read(submission.charter_path)
            orders = VerifierOrders(charter, submission.security.token).encode()
            launch = (*launch, "env", *(f"{name}={value}" for name, value in variables.items()))
        command = [
            *launch,
            sys.executable,
            "-m",
            "holdfast.verify.process.server",
            "-" if launch else str(submission.charter_path),
            str(submission.verifier_folder(number)),
            f"--address={address}",
            *([] if launch else ["--attended"]),
            *(f"--peer={peer}" for peer in submission.addresses if peer != address),
            *self._security(host),
        ]
        return _Process(command, self._log(f"verifier-{number}"), variables, orders=orders)

    def start_replica(self, number: int, pool: Pool) -> Running:
        folder = self._submission.replica_folder(number)
        folder.mkdir(exist_ok=True)
        own = self._submission.own_folders(number, pool)
        scratch = folder / SCRATCH if own else None
        for each in (*own, scratch) if scratch else ():
            each.mkdir(parents=True, exist_ok=True)
        start = self._starts[number] = self._starts.get(number, 0) + 1
        variables = {"PYTHONHASHSEED": "0", SUBMISSION: self._submission.name}
        variables |= self._environment | pool.environment
        command = [sys.executable, *self._replica]
        if scratch:
            variables |= _temporary(scratch)
            command = confined(command, own)
        if pool.launch:
            said = [f"{name}={value}" for name, value in variables.items()]
            command = [*pool.launch, "env", *said, *command]
        orders = self._submission.orders(number, pool).encode()
        # One after the other: the process that wrote there before has ended.
        log, trace = self._kept.setdefault(
            number, [_Kept(self._log(folder.name)), _Kept(folder / TRACE)]
        )
        process = _Process(command, log, variables, trace, orders, scratch)
        if start > 1:
            process.yield_to_others()
        return process

    def last_words(self, number: int) -> str:
        return _end_of(self._log(f"replica-{number}"))

    def last_words_of_verifier(self, number: int) -> str:
        return _end_of(self._log(f"verifier-{number}"))

    def cut(self, number: int) -> int:
        return sum(each.cut for each in self._kept.get(number, ()))

    def _log(self, name: str) -> Path:
        return self._submission.folder / f"{name}.log"

    def _security(self, host: VerifierHost | None) -> list[str]:
        keys = self._submission.config.security
        own = host or VerifierHost(address="")
        # It gets the token with its orders.
        launched = bool(own.launch)
        if keys is None:
            return [] if launched else [f"--token-file={self._submission.token_path}"]
        given = {
            "certificate": own.certificate or keys.certificate,
            "key": own.key or keys.key,
            "authority": own.authority or keys.authority,
        }
        if not launched:
            given |= {"token-file": keys.token_file, "token-env": keys.token_env}
        options = [f"--{name}={value}" for name, value in given.items() if value is not None]
        return [*options, *(["--mutual"] if keys.mutual else [])]


def end_leftovers(submission: str, patience: float) -> None:
    """Return when no process of a submission is left on this machine, whose coordinator is none any
    more. They end by themselves; those that do not are killed after so many seconds."""
    end = time.monotonic() + patience
    while left := [pid for pid in _pids() if _is_of(submission, pid)]:
        for pid in left if time.monotonic() >= end else ():
            _kill(submission, pid)
        time.sleep(LOOK)


def _pids() -> list[int]:
    """None where there is no /proc."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []


def _kill(submission: str, pid: int) -> None:
    """No other process, though that may have got its number meanwhile."""
    with suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if _is_of(submission, pid):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def _is_of(submission: str, pid: int) -> bool:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return f"{SUBMISSION}={submission}".encode() in variables


def _temporary(folder: Path) -> dict[str, str]:
    """What keeps temporary files of Python, Spark and its JVM in a folder."""
    options = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} -Djava.io.tmpdir={folder}"
    return {
        "TMPDIR": str(folder),
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_SUBMIT_OPTS": f"{options} -XX:-UsePerfData".strip(),
    }


def _end_of(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join(line[:300] for line in lines[-SHOWN:])


class _Kept:
    """A file that has the last of what a process writes, however much that is."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._older = path.with_name(f"{path.name}.older")
        self._written = 0
        self.cut = 0
        """Bytes that are kept no longer."""
        path.touch()

    def take(self, pipe: IO[bytes], is_over: Event) -> None:
        """Until nobody can write to it any more."""
        with pipe:
            while data := os.read(pipe.fileno(), READ):
                with suppress(OSError):
                    self._write(data)
                self._written += len(data)
                if self._written > LOG_BYTES:
                    is_over.wait(REST)

    def _write(self, data: bytes) -> None:
        size = self._path.stat().st_size if self._path.exists() else 0
        if size + len(data) > LOG_BYTES // 2:
            self.cut += self._older.stat().st_size if self._older.exists() else 0
            self._path.replace(self._older)
        with self._path.open("ab", buffering=0) as file:
            file.write(data)


class _Process:
    def __init__(
        self,
        command: Sequence[str],
        log: Path | _Kept,
        variables: Mapping[str, str],
        output: _Kept | None = None,
        orders: bytes = b"",
        scratch: Path | None = None,
    ) -> None:
        """`output`: where what it prints goes; the log also takes what it says of errors.
        `scratch`: a folder that goes with it."""
        self._scratch = scratch
        self._has_ended = Event()
        with ExitStack() as stack:
            errors = printed = subprocess.PIPE
            if isinstance(log, Path):
                errors = printed = stack.enter_context(log.open("ab")).fileno()
            try:
                self._process = subprocess.Popen(
                    list(command),
                    env={**os.environ, **variables},
                    stdin=subprocess.PIPE,
                    stdout=printed,
                    stderr=errors,
                    start_new_session=True,
                )
            except OSError as error:
                raise InvalidArgumentError(
                    f"launch: {command[0]}: {error.strerror}; give a command that is there"
                ) from error

        pipes = [(self._process.stderr, log), (self._process.stdout, output)]
        self._readers = [
            Thread(target=kept.take, args=(pipe, self._has_ended), name="holdfast log", daemon=True)
            for pipe, kept in pipes
            if pipe is not None and isinstance(kept, _Kept)
        ]
        for reader in self._readers:
            reader.start()
        # A pipe takes only so much as long as nobody reads, and a host may be slow to answer.
        Thread(target=self._hand, args=(orders,), name="holdfast orders", daemon=True).start()

    def _hand(self, orders: bytes) -> None:
        """Give it its orders, and leave the pipe open as long as it runs."""
        assert self._process.stdin is not None
        with suppress(OSError), self._process.stdin as pipe:
            pipe.write(orders)
            pipe.flush()
            self._has_ended.wait()

    def poll(self) -> int | None:
        return self._process.poll()

    def yield_to_others(self) -> None:
        """With all that it starts from now on."""
        with suppress(ProcessLookupError, PermissionError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, BEHIND)

    def ask_to_end(self) -> None:
        self._send(signal.SIGTERM)

    def end(self, patience: float) -> None:
        try:
            self._process.wait(max(patience, 0.1))
        except subprocess.TimeoutExpired:
            self._send(signal.SIGKILL)
            self._process.wait()
        # What it has started may be left: a JVM whose driver was killed, for instance.
        self._send(signal.SIGKILL)
        self._has_ended.set()
        end = time.monotonic() + DRAIN
        for reader in self._readers:
            reader.join(max(0.0, end - time.monotonic()))
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)
