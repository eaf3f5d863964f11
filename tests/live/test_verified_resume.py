"""`holdfast verify` with Spark, killed with -9 when its first stage of three is agreed upon."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from harness.processes import Family, spark_environment
from harness.waiting import wait_for
from holdfast.verify.machine import Kind
from holdfast.verify.process.processes import end_leftovers
from holdfast.verify.process.report import Account

JOB = """
import time
from pathlib import Path

from pyspark.sql import functions as F
from holdfast.verify import Job

job = Job("sums", slices=2)
job.source("rows", "rows.parquet")

def seen(stage):
    # One line for each task that computes rows of a stage.
    def note(batches):
        with (Path(FOLDER) / stage).open("a") as file:
            file.write("task\\n")
        yield from batches
    return note

@job.stage
def sums(rows):
    summed = rows.groupBy("k").agg(F.sum("n").alias("n"))
    return summed.mapInArrow(seen("sums"), "k bigint, n bigint")

@job.stage
def odd(sums):
    while (Path(FOLDER) / "held").exists():
        time.sleep(0.1)
    return sums.filter("k % 2 = 1")

@job.stage
def most(odd):
    return odd.agg(F.max("n").alias("n"))
"""
MOST = max(sum(n for n in range(1000) if n % 7 == k) for k in (1, 3, 5))


def steps(folder: Path) -> Counter[str]:
    found: Counter[str] = Counter()
    for trace in folder.glob("replica-*/trace.jsonl"):
        lines = map(json.loads, trace.read_text().splitlines())
        found.update(line["stage"] for line in lines if line["event"] == "starts")
    return found


def agreed_in(work: Path) -> bool:
    """Whether the coordinator has written down that something is agreed upon."""
    return any(b"agreed" in each.read_bytes() for each in work.glob("*/coordinator/journal"))


def test_a_killed_command_goes_on_and_computes_nothing_again(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB.replace("FOLDER", repr(str(tmp_path))))
    rows = pa.table({"k": [n % 7 for n in range(1000)], "n": range(1000)})
    pq.write_table(rows, tmp_path / "rows.parquet")
    held = tmp_path / "held"
    held.touch()
    command = [sys.executable, "-m", "holdfast", "verify", "job.py", "--allow-shared-hosts"]
    command += ["--config", "verify.toml", "--output", "out"]
    (tmp_path / "verify.toml").write_text(
        'model = "crash"\nstorage = "storage"\nwork = "work"\nlinger = 120.0\nwritable = ["."]\n'
    )
    environment = spark_environment(tmp_path)
    try:
        with Family(command, tmp_path, environment, log="first.log") as first:
            wait_for(first.tail, lambda: agreed_in(tmp_path / "work"), 300)
            first.leader.kill()
            wait_for("its end", lambda: first.status is not None, 60)
        (mark,) = (tmp_path / "work").glob("*/unfinished")
        done, tasks = steps(mark.parent), (tmp_path / "sums").read_bytes()
        assert done["sums"] == 2
        held.unlink()
        with Family(command, tmp_path, environment, log="second.log") as second:
            second.wait_gone(300)
            assert second.status == 0, second.tail()
            said = second.log.read_text()
    finally:
        for folder in (tmp_path / "work").glob("sums-*"):
            end_leftovers(folder.name, 0.0)
    assert "was interrupted and goes on; stages agreed upon by then: sums" in said
    assert steps(mark.parent)["sums"] == done["sums"]
    assert (tmp_path / "sums").read_bytes() == tasks, "a task of the first stage ran again"
    assert pq.read_table(tmp_path / "out" / "most").to_pylist() == [{"n": MOST}]
    account = Account.read(mark.parent)
    assert account.lives == 2
    assert {each.kind for each in account.findings} <= {Kind.SHARED_HOST}
