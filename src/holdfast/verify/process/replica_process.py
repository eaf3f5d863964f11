"""One replica as a process: its own Spark application, until the job is done or has failed.

    python -m holdfast.verify.process.replica_process

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
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Final, Protocol, Self

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.errors import REFUSED, HoldfastError, InvalidArgumentError, RefusedWriteError
from holdfast.spark.python import worker_python
from holdfast.storage.signing import Signer
from holdfast.verify.machine import Compute, Plan, Standing
from holdfast.verify.process.client import Verifiers, Witness
from holdfast.verify.process.computing import SparkComputer, define_job
from holdfast.verify.process.daemon import DAEMON
from holdfast.verify.process.determinism import JOB_TIME
from holdfast.verify.process.job_files import Program, load_job
from holdfast.verify.process.pinned_files import CHANGED, CODE, ChangedFileError, PinnedFiles
from holdfast.verify.process.placement import this_host
from holdfast.verify.process.program import run_program
from holdfast.verify.process.reads import reads_checked, reads_of_job
from holdfast.verify.process.refusing import writes_refused
from holdfast.verify.process.replica import Replica, Trace
from holdfast.verify.process.submission import Orders
from holdfast.verify.process.task_api import TaskCalls

# What ties a replica's process to the coordinator that has started it, wherever it runs.
#
# Orders come by its standard input, which stays open as long as the coordinator is there: keys are
# in no file and on no command line. The trace goes by its standard output. So neither needs a
# folder that both machines see.

logger = logging.getLogger("holdfast")


def attend() -> tuple[Orders, int]:
    """The orders, and the number of the open file for the trace. From now on the process ends with
    the coordinator; the job's own code reads nothing, and what it prints goes to the log."""
    if os.isatty(sys.stdin.fileno()):
        raise InvalidArgumentError(
            "orders: standard input is a terminal, which would show the keys in them; launch "
            "drivers without one, as ssh does without -t"
        )
    coordinator = os.dup(sys.stdin.fileno())
    trace = os.dup(sys.stdout.fileno())
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), sys.stdin.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with open(coordinator, "rb", closefd=False) as said:
        orders = Orders.decode(said.readline())
    Thread(target=_end_with, args=(coordinator,), name="holdfast attendance", daemon=True).start()
    return orders, trace


def _end_with(coordinator: int) -> None:
    while os.read(coordinator, 1 << 16):
        pass
    logger.error("the coordinator has ended: so does this replica")
    # Nothing is left to be told to anybody, and the JVM ends with its driver.
    os._exit(1)


# Looks at how the job stands while a replica computes, and ends what need not be computed.
#
# A replica that has gone on from something that is outvoted meanwhile begins again at once, and not
# when it is through with it. So nobody loses time by not having waited.

PATIENCE: Final = 5.0
"""Seconds to wait for news at a time."""
AGAIN: Final = 0.2
"""Seconds until it is ended again: code of a stage may begin something between two of Spark's jobs;
and until verifiers are asked again that did not answer."""


class News(Protocol):
    """The verifiers, for this thread alone."""

    def consult(self) -> Standing: ...

    def await_news(self, seconds: float) -> None: ...


@dataclass(eq=False)
class _Watched:
    wants_no_more: Callable[[Standing], bool]
    is_stale: bool = False


class Watcher:
    """See `Watch`. A context manager, whose end waits for news: that the job is done, mostly."""

    def __init__(self, verifiers: News, cancel: Callable[[], None]) -> None:
        """`cancel`: ends what is computed, from another thread; it raises there."""
        self._verifiers = verifiers
        self._cancel = cancel
        self._lock = Lock()
        self._watched: _Watched | None = None
        self._closing = Event()
        self._thread = Thread(target=self._watch, name="holdfast watch", daemon=True)

    @contextmanager
    def over(self, is_stale: Callable[[Standing], bool]) -> Iterator[_Watched]:
        watched = _Watched(is_stale)
        with self._lock:
            self._watched = watched
        try:
            yield watched
        finally:
            # Nothing is cancelled any more once the lock was had.
            with self._lock:
                self._watched = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._closing.is_set():
            try:
                if self._look():
                    self._closing.wait(AGAIN)
                else:
                    self._verifiers.await_news(PATIENCE)
            except HoldfastError as error:
                logger.debug("%s", error)
                self._closing.wait(AGAIN)

    def _look(self) -> bool:
        """End what is stale; whether there was such a thing."""
        standing = self._verifiers.consult()
        with self._lock:
            watched = self._watched
            if watched is None or self._closing.is_set():
                return False
            if watched.wants_no_more(standing):
                watched.is_stale = True
                self._cancel()
            return watched.is_stale


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
    parser = argparse.ArgumentParser("holdfast.verify.process.replica_process", description=__doc__)
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
