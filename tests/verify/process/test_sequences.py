"""Verified jobs one after the other: the second reads what was delivered of the first."""

from __future__ import annotations

import math
from pathlib import Path

from harness.verified.cases import Case, judge, read_output, run_plain, run_plain_job
from harness.verified.lies import Lie, Wrong
from holdfast.verify.machine import Mode

SECOND = """
import math
import pyarrow as pa
from holdfast.verify import Job

job = Job("yearly", slices=1)
job.source("bills", "first/output/bills/*.parquet")

@job.stage
def income(bills):
    return pa.table({"cents": [math.fsum(bills["cents"].to_pylist())]})
"""


def test_a_liar_in_each_of_two_jobs_changes_nothing(tmp_path: Path) -> None:
    first = Case(1, Mode.HYBRID, (Lie(1, "charges", Wrong.VALUE),))
    _, bills = run_plain(first, tmp_path / "first", seed=5)
    income = math.fsum(cents for cents, _ in bills.values())
    file = tmp_path / "yearly.py"
    file.write_text(SECOND)
    second = Case(1, Mode.HYBRID, (Lie(2, "income", Wrong.VALUE),))
    account = run_plain_job(file, second, tmp_path / "second")
    judge(
        second,
        account,
        lambda output: read_output(output, "income").to_pylist() == [{"cents": income}],
    )
