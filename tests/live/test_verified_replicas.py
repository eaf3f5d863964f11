"""Replicas of a job as processes, with a verifier that is one too: kills cost nothing but time."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from harness.ports import free_port
from harness.processes import Family, spark_environment
from harness.waiting import wait_for
from holdfast.storage.signing import Signer
from holdfast.verify import Job, load_job
from holdfast.verify.machine import Holder, JobState, Mode, Model, Rules
from holdfast.verify.process.client import Verifiers, Witness
from holdfast.verify.process.job_spec import Charter
from holdfast.verify.process.processes import REPLICA
from holdfast.verify.process.replica_process import replica_environment
from holdfast.verify.process.slice_files import read_slice
from holdfast.verify.process.submission import Orders, pin_sources

JOB = """
import os
import signal
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import functions as F
from holdfast.verify import Job

job = Job("sums", slices=2)
job.source("rows", "rows.parquet")

@job.stage
def sums(rows):
    return rows.groupBy("k").agg(F.sum("n").alias("n"))

@job.stage
def most(sums, *, calls):
    killed = Path.cwd() / f"killed-{calls.witness.replica}"

    def tell(batches):
        if not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        task = TaskContext.get().partitionId()
        table = pa.Table.from_batches(batches)
        said = repr(table.to_pylist()).encode()
        assert calls.non_blocking_verify(task, said, 0).result()
        assert calls.blocking_verify(task, said, raw=True)
        assert calls.agreed_output("most", task) == said
        assert calls.consult_verifier("sums", task)
        yield from table.to_batches()

    return sums.agg(F.max("n").alias("n")).mapInArrow(tell, "n bigint")
"""
MOST = sum(n for n in range(1000) if n % 7 == 5)


class Submission:
    """A job for two replicas, of which one may crash."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "job.py").write_text(JOB)
        pq.write_table(
            pa.table({"k": [n % 7 for n in range(1000)], "n": range(1000)}), folder / "rows.parquet"
        )
        job = load_job(folder / "job.py")
        assert isinstance(job, Job)
        self.plan = job.plan
        self.signers = {number: Signer.make() for number in (0, 1, 2)}
        self.address = f"127.0.0.1:{free_port()}"
        self.storage = folder / "storage"
        keys = {number: signer.public for number, signer in self.signers.items()}
        rules = Rules(mode=Mode.HYBRID, shared_hosts=True)
        stages = dict(job.plan.stages)
        Charter("sums-1", stages, job.slices, Model.CRASH, 1, rules, keys).write(folder / "charter")
        files = pin_sources(job)
        self.orders = {
            number: Orders(
                file=str(folder / "job.py"),
                code=JOB.encode(),
                job="sums-1",
                replica=number,
                mode=rules.mode,
                slices=job.slices,
                retries=rules.retries,
                submitted=time.time_ns() // 1000,
                sources=files,
                storage=str(self.storage),
                hosts=(),
                verifiers=(self.address,),
                asks=(self.address,),
                secret=self.signers[number].secret,
                spark={"spark.master": "local[1]"},
            )
            for number in (1, 2)
        }

    @property
    def coordinator(self) -> Witness:
        return Witness("sums-1", 0, self.signers[0], (self.address,))

    def verifier(self) -> Family:
        places = [str(self.folder / name) for name in ("charter", "verifier")]
        arguments = ["-m", "holdfast.verify.process.server", *places, "--address", self.address]
        return self._start(arguments, "verifier.log")

    def replica(self, number: int) -> Family:
        return self._start(REPLICA, f"replica-{number}.log", self.orders[number].encode())

    def _start(self, arguments: Sequence[str], log: str, orders: bytes | None = None) -> Family:
        environment = spark_environment(self.folder) | replica_environment()
        command = [sys.executable, *arguments]
        return Family(command, self.folder, environment, log=log, orders=orders)


def refuse(holder: Holder, why: str) -> None:
    raise AssertionError(f"{holder}: {why}")


def test_a_job_survives_kills_of_a_replica_a_worker_and_the_verifier(tmp_path: Path) -> None:
    """The first worker that computes the last stage is killed in the midst of it."""
    submission = Submission(tmp_path)
    with submission.verifier() as verifier, ExitStack() as stack:
        second = stack.enter_context(submission.replica(2))
        wait_for(second.tail, lambda: '"event": "starts"' in second.log.read_text(), 120)
        second.kill()
        first = stack.enter_context(submission.replica(1))
        verifier.kill()
        stack.enter_context(submission.verifier())
        submission.coordinator.gone(2, 1)
        wait_for(lambda: f"the end\n{first.tail()}", lambda: first.status is not None, 120)
        assert first.status == 0, first.tail()
        assert (tmp_path / "killed-1").exists()
        assert '"event": "failed"' in first.log.read_text()
        with Verifiers(submission.plan, 3, [submission.address]) as verifiers:
            standing = verifiers.consult()
        assert standing.state is JobState.DONE
        rows = [
            row
            for agreed in standing.verdicts["most"].slices.values()
            for piece in read_slice(
                submission.storage, agreed.digest, agreed.rows, agreed.holders, refuse
            )
            for row in piece.to_pylist()
        ]
        assert rows == [{"n": MOST}]
