"""Windows asked for over Spark Connect answer what they answer in the driver itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from harness.processes import Family, spark_environment
from harness.standalone import wait_for_line
from soak.jobs.case import Case
from soak.jobs.checks import check_answers, check_same
from soak.jobs.job import EMBEDDED, STATIC, Job, start
from soak.jobs.moments import finish

SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
SETTINGS = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a Connect server that listens on loopback."""
    settings = [word for item in SETTINGS.items() for word in ("--conf", "=".join(item))]
    name = "org.apache.spark.sql.connect.service.SparkConnectServer"
    command = [
        os.fspath(SUBMIT),
        "--master",
        EMBEDDED,
        *settings,
        "--class",
        name,
        "spark-internal",
    ]
    with Family(command, tmp_path, spark_environment(tmp_path), log="server.log") as process:
        (port,) = wait_for_line(process, r"Spark Connect server started at:\s*\S+:(\d+)")
        yield f"sc://127.0.0.1:{port}"


def test_windows_over_connect_answer_the_same(tmp_path: Path, server: str) -> None:
    case = Case(7, files=4)
    classic = [Job(case, tmp_path, "classic"), Job(case, tmp_path, "classic-static", STATIC)]
    remote = [Job(case, tmp_path, "remote"), Job(case, tmp_path, "remote-static", STATIC)]
    case.write(classic[0].rows)
    with start(classic) as reference, start(remote, server) as client:
        finish(client)
        finish(reference)
    for expected, found in zip(classic, remote, strict=True):
        check_answers(expected)
        check_same(expected, found)
