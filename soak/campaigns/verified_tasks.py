"""Verified jobs on a cluster of two workers whose tasks Spark runs twice at the same time.

Spark never runs both attempts of a speculated task on one host; so the workers of this machine are
called by two addresses of it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Final

from harness.processes import Family, spark_environment
from harness.standalone import Cluster
from harness.verified.speculated import SLICES, SLOW

USES_SPARK = True
DESCRIPTION = "verified jobs: digests of tasks that Spark speculates on, on two workers"
DEADLINE: Final = 240.0
HOSTS: Final = ("127.0.0.1", "127.0.0.2")


def run(seed: int) -> str:
    with tempfile.TemporaryDirectory(prefix="holdfast-tasks-") as name:
        folder = Path(name)
        with Cluster(folder, workers=len(HOSTS), hosts=HOSTS) as cluster:
            words = ("-m", "harness.verified.speculated", cluster.url, str(folder), str(seed))
            command = [sys.executable, *words]
            with Family(command, folder, spark_environment(folder), log="driver.log") as driver:
                driver.wait_gone(DEADLINE)
                assert driver.status == 0, driver.tail()
        found = json.loads((folder / "found.json").read_text())
    once, twice = found["once"], found["twice"]
    assert once["digests"] == twice["digests"], "a second attempt has come to another digest"
    attempts = [each for each in twice["told"] if each["slice"] == SLOW]
    assert 1 in [each["attempt"] for each in attempts], "Spark has not speculated"
    for each in twice["told"]:
        assert each["digest"] == once["digests"][each["slice"]], f"{each} is another digest"
    assert {each["slice"] for each in twice["told"]} == set(range(SLICES))
    return f"{len(once['digests'])} slices, slice {SLOW} made twice at once: the same digests"
