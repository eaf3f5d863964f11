"""Replicas without Spark: threads that compute on Arrow tables, and say what real ones say.

Verifiers, storage, reports, traces and the coordinator are the real ones, so that every fault can
be tried in every mode within seconds.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path, PurePosixPath
from random import Random
from threading import Event, Thread
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from harness.verified.holds import Hold, hold_back, holds_for
from harness.verified.lies import (
    HANGS,
    Lie,
    LyingWitness,
    Wrong,
    fill,
    is_time,
    reach_of,
    rewrite_source,
)
from holdfast.errors import HoldfastError
from holdfast.storage.signing import Signer
from holdfast.verify.machine import Agreed, Compute, Holder, Input, Plan, Report, Standing
from holdfast.verify.process.client import Verifiers, Witness
from holdfast.verify.process.config import Pool
from holdfast.verify.process.confinement import confine
from holdfast.verify.process.job_files import load_job
from holdfast.verify.process.job_spec import Charter
from holdfast.verify.process.jobs import Job
from holdfast.verify.process.pinned_files import CHANGED, ChangedFileError, PinnedFiles
from holdfast.verify.process.processes import Running
from holdfast.verify.process.replica import Replica, Trace
from holdfast.verify.process.server import VerifierServer
from holdfast.verify.process.slice_files import SliceWriter, read_slice
from holdfast.verify.process.submission import Orders, Submission

__all__ = ["PlainComputer", "ThreadLauncher", "write_energy"]

SLOW: Final = 0.3
"""Seconds that a slow replica takes longer."""
KILLED: Final = -9
METERS, READINGS = 6, 60


class _EndedError(BaseException):
    """The replica was killed, or is to end."""


class PlainComputer:
    """Of one replica, with its lies."""

    def __init__(
        self,
        orders: Orders,
        home: Path,
        witness: Witness,
        lies: list[Lie],
        holds: Sequence[Hold],
        host: str,
        ending: Event,
    ) -> None:
        """`home`: the folder of the replica, in that of the submission."""
        job = load_job(orders.file, orders.code, orders.arguments)
        assert isinstance(job, Job)
        self._job = job
        self._orders = orders
        self._home = home
        self._witness = witness
        self._lies = lies
        self._holds = holds
        self._host = host
        self._ending = ending
        self._pinned = PinnedFiles()

    def compute(self, step: Compute) -> tuple[Agreed, ...]:
        home = self._home
        hold_back(self._holds, self._orders.replica, step.stage, home.parent, self._pause)
        lies = [lie.wrong for lie in self._lies if lie.stage == step.stage and is_time(lie, home)]
        self._misbehave(lies)
        sources = self._orders.sources
        tables = {
            **{name: self._source(name) for name in self._job.sources},
            **{parent: self._read(parent, inputs) for parent, inputs in step.inputs.items()},
        }
        stage = self._job.stages[step.stage]
        made: pa.Table = stage.make(*(tables[name] for name in stage.inputs))
        for name in set(stage.inputs) & sources.keys():
            if not any(lie.wrong is Wrong.SOURCE for lie in self._lies):
                self._pinned.check(name, sources[name])
        alike = any(lie.alike for lie in self._lies)
        return self._write(step, spoil_rows(made, lies, 0 if alike else self._orders.replica))

    def _misbehave(self, lies: list[Wrong]) -> None:
        if Wrong.CRASH in lies:
            raise _EndedError
        if Wrong.FILL in lies:
            fill(self._orders.storage, self._orders.job, self._orders.replica)
        if any(wrong in HANGS for wrong in lies):
            self._ending.wait()
            raise _EndedError
        if Wrong.SLOW in lies:
            self._pause(SLOW)
        if Wrong.SOURCE in lies:
            for files in self._orders.sources.values():
                for file in files:
                    rewrite_source(Path(file.path))

    def _pause(self, seconds: float) -> None:
        if self._ending.wait(seconds):
            raise _EndedError

    def _source(self, name: str) -> pa.Table:
        return pa.concat_tables(pq.read_table(file.path) for file in self._orders.sources[name])

    def _read(self, parent: str, inputs: tuple[Input, ...]) -> pa.Table:
        pieces = []
        for number, wanted in enumerate(inputs):

            def tell(holder: Holder, _: str, number: int = number) -> None:
                self._witness.broken(parent, number, holder.replica)

            storage = self._orders.reads
            wanted_rows = read_slice(storage, wanted.digest, wanted.rows, wanted.holders, tell)
            pieces += list(wanted_rows)
        return pa.concat_tables(pieces)

    def _write(self, step: Compute, table: pa.Table) -> tuple[Agreed, ...]:
        orders = self._orders
        rows: list[list[tuple[str, dict]]] = [[] for _ in range(orders.slices)]
        for row in table.to_pylist():
            text = repr(sorted(row.items()))
            label = sha256(text.encode()).digest()[0] % orders.slices
            rows[label].append((text, row))
        folder = PurePosixPath(
            orders.job, str(orders.replica), step.stage, f"{step.run.epoch}-{step.run.attempt}"
        )
        made = []
        for number, ordered in enumerate(map(sorted, rows)):
            with SliceWriter(Path(orders.storage), folder, number, table.schema) as writer:
                writer.add(pa.Table.from_pylist([row for _, row in ordered], table.schema))
                written = writer.finish()
            self._witness.report(
                Report(
                    job=orders.job,
                    stage=step.stage,
                    run=step.run,
                    slice=number,
                    replica=orders.replica,
                    host=self._host,
                    path=written.path,
                    digest=written.digest,
                    rows=written.rows,
                    basis=step.basis,
                )
            )
            holder = Holder(orders.replica, self._host, written.path)
            made.append(Agreed(written.digest, written.rows, (holder,)))
        return tuple(made)


def spoil_rows(table: pa.Table, lies: list[Wrong], teller: int) -> pa.Table:
    """Another last column, or a row less."""
    if Wrong.VALUE in lies:
        name = table.schema.names[-1]
        wrong = pa.array([value + 1 + teller for value in table[name].to_pylist()])
        table = table.set_column(
            table.num_columns - 1,
            table.schema.field(name),
            wrong.cast(table.schema.field(name).type),
        )
    if Wrong.COUNT in lies:
        table = table.slice(1 + teller)
    return table


class ThreadLauncher:
    """Starts verifiers and replicas in this process. Every lie is told: others wait for it."""

    def __init__(
        self, submission: Submission, lies: Sequence[Lie], holds: Sequence[Hold] = ()
    ) -> None:
        self._submission = submission
        self._lies = lies
        self._holds = [*holds_for(lies, submission.quorum.numbers), *holds]
        self._words: dict[int, str] = {}

    def start_verifier(self, number: int) -> Running:
        submission = self._submission
        address = submission.addresses[number - 1]
        return _Verifier(
            VerifierServer(
                Charter.read(submission.charter_path),
                submission.verifier_folder(number),
                address,
                submission.security,
                [peer for peer in submission.addresses if peer != address],
            )
        )

    def start_replica(self, number: int, pool: Pool) -> Running:
        orders = self._submission.orders(number, pool)
        lies = [lie for lie in self._lies if lie.replica == number]
        host = pool.environment.get("HOLDFAST_HOST", pool.hosts[0])

        def say(words: str) -> None:
            self._words[number] = words

        home = self._submission.replica_folder(number)
        folders = self._submission.own_folders(number, pool)
        return _Thread(orders, home, lies, self._holds, host, say, folders)

    def last_words(self, number: int) -> str:
        return self._words.get(number, "")

    def last_words_of_verifier(self, number: int) -> str:
        return ""

    def cut(self, number: int) -> int:
        return 0


class _Verifier:
    def __init__(self, server: VerifierServer) -> None:
        self._server = server

    def poll(self) -> int | None:
        return None

    def ask_to_end(self) -> None:
        pass

    def end(self, patience: float) -> None:
        self._server.close()


class _Thread:
    """A replica's process, so to speak."""

    def __init__(
        self,
        orders: Orders,
        home: Path,
        lies: list[Lie],
        holds: Sequence[Hold],
        host: str,
        say: Callable[[str], None],
        folders: Sequence[Path],
    ) -> None:
        self._folders = folders
        self._orders = orders
        self._home = home
        self._lies = lies
        self._holds = holds
        self._host = host
        self._say = say
        self._ending = Event()
        self._code: int | None = None
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def poll(self) -> int | None:
        return None if self._thread.is_alive() else self._code

    def ask_to_end(self) -> None:
        self._ending.set()

    def end(self, patience: float) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._work()
            self._code = 0
        except _EndedError:
            self._code = KILLED
        except HoldfastError as error:
            self._say(str(error))
            self._code = CHANGED if isinstance(error, ChangedFileError) else 1
        except Exception:
            self._say(traceback.format_exc())
            self._code = 1

    def _work(self) -> None:
        orders = self._orders
        for folder in self._folders:
            folder.mkdir(parents=True, exist_ok=True)
        if self._folders:
            confine(self._folders)
        witness = LyingWitness(
            orders.job,
            orders.replica,
            Signer(orders.secret),
            orders.verifiers,
            orders.security,
            lies=tuple(self._lies),
            storage=orders.storage,
            reach=reach_of(orders),
        )
        job = load_job(orders.file, orders.code, orders.arguments)
        plan = Plan(job.plan.stages, orders.slices, orders.pins)
        with _Verifiers(self._ending, plan, orders) as verifiers:
            witness.start(self._host)
            computer = PlainComputer(
                orders, self._home, witness, self._lies, self._holds, self._host, self._ending
            )
            trace = Trace(self._home / "trace.jsonl")
            Replica(orders.replica, plan, orders.mode, verifiers, computer, trace).finish()


class _Verifiers(Verifiers):
    """Not asked any more by a replica that is to end."""

    def __init__(self, ending: Event, plan: Plan, orders: Orders) -> None:
        super().__init__(plan, orders.retries, orders.asks, orders.security)
        self._ending = ending

    def consult(self) -> Standing:
        if self._ending.is_set():
            raise _EndedError
        return super().consult()


def write_energy(folder: Path, seed: int) -> tuple[Path, Mapping[str, tuple[float, int]]]:
    """The job's file with its data beside it, and what its bills are."""
    rng = Random(seed)
    (folder / "data").mkdir(parents=True)
    file = folder / "energy.py"
    file.write_bytes(Path(__file__).with_name("energy.py").read_bytes())
    readings = [
        {
            "meter": f"m{rng.randrange(METERS)}",
            "minute": rng.randrange(600),
            "wh": rng.lognormvariate(3, 2),
        }
        for _ in range(READINGS)
    ]
    contracts = [
        {"meter": f"m{number}", "customer": f"c{number // 2}", "price": rng.uniform(0.1, 0.5)}
        for number in range(METERS)
    ]
    sources = {"readings": readings, "contracts": contracts}
    for name, rows in sources.items():
        path = folder / "data" / f"{name}.parquet"
        # As liars can rewrite it.
        pq.write_table(pa.Table.from_pylist(rows), path, compression="none", use_dictionary=False)
    job = load_job(file)
    assert isinstance(job, Job)
    tables: dict = {name: pa.Table.from_pylist(rows) for name, rows in sources.items()}
    for stage in job.stages.values():
        tables[stage.name] = stage.make(*(tables[name] for name in stage.inputs))
    return file, {
        row["customer"]: (row["cents"], row["hours"]) for row in tables["bills"].to_pylist()
    }
