"""Spark sessions as Holdfast wants them: embedded, quiet, with this Python in the workers."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from holdfast.doctor import require_java
from holdfast.spark.daemon import DAEMON
from holdfast.spark.python import worker_python

__all__ = [
    "DRIVER_GONE",
    "SHORT_LIVED",
    "STREAMING",
    "driver_pid",
    "end_driver",
    "local_session",
    "require_rocksdb",
    "stop_session",
]

DRIVER_GONE: Final = (Py4JError, OSError)
"""What anything asked of Spark may raise when its JVM was killed."""

STREAMING: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # The default one forks helper processes for every file; a micro-batch takes twice as long.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
"""What Holdfast's streaming queries want of a session. One query at a time per checkpoint: the file
manager does not stop a second one."""


SHORT_LIVED: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
"""Options of a JVM that lives for a minute or two: it starts sooner and compiles less."""


def local_session(
    name: str,
    *,
    master: str = "local[*]",
    partitions: int = 2,
    java: str = "",
    memory: str = "",
    ui: bool = False,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """An embedded session on this machine; stop it when done.

    Without `ui` the interface is off; the driver listens on loopback only. `java` and
    `memory`: options and heap (such as 2g) of its JVM, if it is the first session of this process.
    `settings` of Spark's go first.
    """
    os.environ["PYSPARK_PYTHON"] = worker_python()
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = (
        SparkSession.builder.master(master)
        .appName(name)
        .config("spark.ui.enabled", "true" if ui else "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", partitions)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.log.level", "ERROR")
        .config("spark.python.daemon.module", DAEMON)
    )
    if java:
        builder = builder.config("spark.driver.extraJavaOptions", java)
    if memory:
        builder = builder.config("spark.driver.memory", memory)
    for setting, value in (STREAMING | dict(settings or {})).items():
        builder = builder.config(setting, value)
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError:
        # Without Java Spark says only that something has exited.
        require_java()
        raise


def stop_session(spark: SparkSession) -> None:
    """Also one whose JVM is gone."""
    with suppress(*DRIVER_GONE):
        spark.stop()


def end_driver(spark: SparkSession) -> None:
    """Stop a session and its JVM, alive or not, so that the next session gets a JVM of its own.

    PySpark keeps the gateway to its first JVM for good, also when that is gone.
    """
    gateway = SparkContext._gateway
    with suppress(Exception):
        # Anything may come of a JVM that is gone in the middle of an answer.
        spark.stop()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.kill()
        process.wait()
        process.stdin.close()
    with suppress(Exception):
        if gateway is not None:
            gateway.shutdown()
    with SparkContext._lock:
        SparkContext._gateway = None
        SparkContext._jvm = None
        SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None


def driver_pid(spark: SparkSession) -> int:
    """The process of the JVM that drives the session's queries."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    return int(jvm.java.lang.ProcessHandle.current().pid())


def require_rocksdb(spark: SparkSession) -> None:
    """Let queries started from now on keep their state in RocksDB, which the operator needs."""
    provider = "spark.sql.streaming.stateStore.providerClass"
    if "RocksDB" not in str(spark.conf.get(provider)):
        spark.conf.set(provider, STREAMING[provider])
