"""A standalone Spark cluster from the pip package: a master and workers in their own processes."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pyspark

from harness.processes import Family, Member, spark_environment
from harness.waiting import wait_for

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
DEADLINE = 100.0


class Cluster:
    """Listens on loopback only, on ports the system gives. Used as a context; ends with it."""

    def __init__(self, folder: Path, workers: int, hosts: Sequence[str] = ("127.0.0.1",)) -> None:
        """`hosts`: addresses of this machine that the workers take turns to be known by."""
        self._folder = folder
        self._hosts = hosts
        self._count = workers
        self._stack = ExitStack()
        self.url = ""
        self.workers: list[Family] = []

    def __enter__(self) -> Cluster:
        with ExitStack() as stack:
            master = stack.enter_context(
                self._start("master.Master", "master", "--host", "127.0.0.1")
            )
            (self.url,) = wait_for_line(master, r"Starting Spark master at (spark://\S+)")
            self.workers = [
                stack.enter_context(
                    self._start(
                        "worker.Worker",
                        f"worker-{number}",
                        *("--host", self._hosts[number % len(self._hosts)]),
                        *("--cores", "1", "--memory", "1g"),
                        *("--work-dir", str(self._folder / f"work-{number}"), self.url),
                    )
                )
                for number in range(self._count)
            ]
            for worker in self.workers:
                wait_for_line(worker, "Successfully registered with master")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self, name: str, log: str, *arguments: str) -> Family:
        listen = ["--port", "0", "--webui-port", "0"]
        environment = spark_environment(self._folder) | {"SPARK_DAEMON_MEMORY": "256m"}
        command = [os.fspath(SPARK_CLASS), f"org.apache.spark.deploy.{name}", *listen, *arguments]
        return Family(command, self._folder, environment, log=f"{log}.log")


def executors(worker: Family) -> list[Member]:
    """The live ones that a worker has started."""
    return worker.members("CoarseGrainedExecutorBackend")


def wait_for_line(process: Family, pattern: str) -> tuple[str, ...]:
    """Wait until a process has said something; answers the groups of the pattern."""
    found: list[re.Match[str]] = []

    def has_said() -> bool:
        if process.status is not None:
            raise AssertionError(f"ended with status {process.status}:\n{process.tail()}")
        found.extend(re.finditer(pattern, process.log.read_text(errors="replace")))
        return bool(found)

    wait_for(lambda: f"{pattern!r}; it said\n{process.tail()}", has_said, DEADLINE)
    return found[0].groups()
