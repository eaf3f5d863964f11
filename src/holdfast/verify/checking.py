"""What `holdfast verify --check` does: runs each stage twice here, before replicas do elsewhere."""

from __future__ import annotations

from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.console import Console

from holdfast.errors import InvalidArgumentError
from holdfast.spark.sessions import local_session, stop_session
from holdfast.verify.errors import JobFailedError
from holdfast.verify.job_files import load_job
from holdfast.verify.jobs import Job
from holdfast.verify.twice import StageCheck, check_job

__all__ = ["check_file", "show_checks"]


def check_file(file: Path, console: Console) -> bool:
    """Whether all stages of the job gave the same rows twice, in a session of its own."""
    job = load_job(file)
    if not isinstance(job, Job):
        raise InvalidArgumentError(
            f"{file}: is a program, and stages of programs cannot be run one by one; describe it "
            "as a Job or in SQL to have it checked, or look at its DataFrames with suspects(df)"
        )
    spark = local_session(f"{job.name}, checked")
    try:
        return show_checks(spark, job, console)
    except PySparkException as error:
        raise JobFailedError(f"{file}: {error}; mend the job") from error
    finally:
        stop_session(spark)


def show_checks(spark: SparkSession, job: Job, console: Console) -> bool:
    """Tell of each stage as soon as it was run twice; whether none differs."""

    def show(check: StageCheck) -> None:
        for line in _lines(check):
            console.print(line, soft_wrap=True, highlight=False, markup=False)

    return all(check.difference is None for check in check_job(spark, job, done=show))


def _lines(check: StageCheck) -> list[str]:
    """What is said of a stage."""
    if check.difference is None:
        lines = [f"stage {check.stage}: is steady"]
    else:
        lines = [f"stage {check.stage}: differs"]
        lines += [f"  only the first time: {row}" for row in check.difference.first]
        lines += [f"  only the second time: {row}" for row in check.difference.second]
    return lines + [f"  suspect: {each}" for each in check.suspects]
