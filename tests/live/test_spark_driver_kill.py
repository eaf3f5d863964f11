"""A windowed query resumes after kill -9 as if nothing had happened; `make soak` has many more."""

from __future__ import annotations

from pathlib import Path

from soak.campaigns.spark_windows import Kill, compare, run_killed
from soak.jobs.case import Case
from soak.jobs.job import Job


def test_answers_and_late_rows_survive_kills_within_batches(tmp_path: Path) -> None:
    case = Case(3, files=5)
    killed, whole = Job(case, tmp_path, "killed"), Job(case, tmp_path, "whole")
    case.write(killed.rows)
    kills = [Kill("stored", batches=2), Kill("late", victim="workers")]
    struck = run_killed(killed, kills, then=[whole])
    assert len(struck) == len(kills)
    assert len(whole.late_rows()) > 0
    assert compare(whole, killed)
