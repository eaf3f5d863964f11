"""One replica as a process: its own Spark application, until the job is done or has failed.

    python -m holdfast.verify.replica_process

Its orders come by standard input, and it ends when that ends: see `attendance`. It ends with 0 when
the job is done, and with 1 and a message when it cannot be, or 3 if that is because a file of a
source was changed, or 4 because its code writes. Killed and started again with the same orders, it
computes anew what is not agreed upon yet.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.errors import HoldfastError, InvalidArgumentError
from holdfast.protocol.verification import Compute, Plan, Standing
from holdfast.spark.python import worker_python
from holdfast.verify.attendance import attend
from holdfast.verify.client import Verifiers, Witness
from holdfast.verify.computing import SparkComputer, define_job
from holdfast.verify.daemon import DAEMON
from holdfast.verify.determinism import JOB_TIME
from holdfast.verify.errors import REFUSED, RefusedWriteError
from holdfast.verify.hosts import this_host
from holdfast.verify.job_files import Program, load_job
from holdfast.verify.orders import Orders
from holdfast.verify.pinned_files import CHANGED, CODE, ChangedFileError, PinnedFiles
from holdfast.verify.program import run_program
from holdfast.verify.reads import reads_checked, reads_of_job
from holdfast.verify.refusing import writes_refused
from holdfast.verify.replica import Replica
from holdfast.verify.signing import Signer
from holdfast.verify.task_calls import TaskCalls
from holdfast.verify.trace import Trace
from holdfast.verify.watching import Watcher

__all__ = ["main", "replica_environment", "run_replica"]

TASK_PATIENCE: Final = 5.0
"""Seconds that a task tries to bring a report; after that its driver does."""
_SETTINGS: Final = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
    "spark.python.daemon.module": DAEMON,
}

logger = logging.getLogger("holdfast")


def replica_environment() -> dict[str, str]:
    """What the process is to have in its environment: sets of texts have one order then."""
    return {"PYTHONHASHSEED": "0"}


def run_replica(orders: Orders, trace: Trace) -> Standing:
    """How the job stands in the end. Raises JobFailedError if it fails."""
    host = this_host()
    if orders.hosts and host not in orders.hosts:
        raise InvalidArgumentError(
            f"launch: this driver runs on {host}, and its pool has {', '.join(orders.hosts)}; let "
            "launch name a host of the pool, or the pool what the host calls itself"
        )
    # Before it is run, which imports them.
    pinned = PinnedFiles()
    pinned.check(CODE, orders.sources.get(CODE, ()))
    job = load_job(orders.file, orders.code, orders.arguments)
    plan = Plan(job.plan.stages, orders.slices, orders.pins)
    os.environ[JOB_TIME] = str(orders.submitted)
    witness = Witness(
        orders.job, orders.replica, Signer(orders.secret), orders.verifiers, orders.security
    )
    spark = _session(orders)
    try:
        with ExitStack() as stack:
            verifiers = stack.enter_context(
                Verifiers(plan, orders.retries, orders.asks, orders.security, witness=witness)
            )
            witness.start(host)
            computer = SparkComputer(
                spark,
                orders.job,
                orders.replica,
                plan.slices,
                orders.reads,
                witness,
                replace(witness, timeout=TASK_PATIENCE),
                lambda step: _calls(orders, plan, witness, step),
                Path(orders.storage),
            )
            asked = stack.enter_context(
                Verifiers(plan, orders.retries, orders.asks, orders.security, witness=witness)
            )
            watch = stack.enter_context(Watcher(asked, spark.sparkContext.cancelAllJobs))
            replica = Replica(orders.replica, plan, orders.mode, verifiers, computer, trace, watch)
            if isinstance(job, Program):
                return run_program(job, replica, computer, orders, pinned)
            reads = reads_of_job(orders.file, orders.sources, pinned)
            define_job(computer, job, orders.sources, pinned, reads)
            with reads_checked(reads), writes_refused(orders.file) as refused:
                standing = replica.finish()
            if refused:
                raise RefusedWriteError(refused[0])
            return standing
    finally:
        spark.stop()


def _calls(orders: Orders, plan: Plan, witness: Witness, step: Compute) -> TaskCalls:
    return TaskCalls(
        stage=step.stage,
        run=step.run,
        basis=step.basis,
        stages=plan.stages,
        slices=plan.slices,
        retries=orders.retries,
        witness=witness,
        asks=orders.asks,
    )


def _session(orders: Orders) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = worker_python()
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = _SETTINGS | orders.spark
    if settings["spark.master"].startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings = {"spark.driver.host": "127.0.0.1"} | settings
    builder = SparkSession.builder.appName(f"{orders.job}, replica {orders.replica}")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main(
    arguments: Sequence[str] | None = None,
    run: Callable[[Orders, Trace], object] = run_replica,
) -> None:
    parser = argparse.ArgumentParser("holdfast.verify.replica_process", description=__doc__)
    parser.parse_args(arguments)
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        orders, trace = attend()
        if os.environ.get("PYTHONHASHSEED") != "0":
            raise InvalidArgumentError("PYTHONHASHSEED: is not 0; start replicas with it")
        run(orders, Trace(trace))
        logger.info("%s: replica %d is done", orders.job, orders.replica)
    except ChangedFileError as error:
        parser.exit(CHANGED, f"{error}\n")
    except RefusedWriteError as error:
        parser.exit(REFUSED, f"{error}\n")
    except (HoldfastError, PySparkException) as error:
        parser.exit(1, f"{error}\n")


if __name__ == "__main__":
    main()
