"""What `holdfast verify --check` does: runs each stage twice here, before replicas do elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.console import Console

from holdfast.spark.sessions import local_session, stop_session
from holdfast.verify.errors import JobFailedError
from holdfast.verify.job_files import Program, load_job
from holdfast.verify.jobs import Job
from holdfast.verify.twice import StageCheck, check_job, check_program

__all__ = ["check_file", "show_checks"]


def check_file(file: Path, console: Console, arguments: Sequence[str] = ()) -> bool:
    """Whether all stages of the job gave the same rows twice, in a session of its own."""
    job = load_job(file, arguments=arguments)
    spark = local_session(f"{job.name}, checked")
    try:
        return show_checks(spark, job, console, arguments)
    except PySparkException as error:
        raise JobFailedError(f"{file}: {error}; mend the job") from error
    finally:
        stop_session(spark)


def show_checks(
    spark: SparkSession, job: Job | Program, console: Console, arguments: Sequence[str] = ()
) -> bool:
    """Tell of each stage as soon as it was run twice; whether none differs."""

    def show(check: StageCheck) -> None:
        for line in _lines(check):
            console.print(line, soft_wrap=True, highlight=False, markup=False)

    if isinstance(job, Job):
        checks = check_job(spark, job, done=show)
    else:
        checks = check_program(spark, job, arguments, done=show)
    return all(check.difference is None for check in checks)


def _lines(check: StageCheck) -> list[str]:
    """What is said of a stage."""
    if check.difference is None:
        lines = [f"stage {check.stage}: is steady"]
    else:
        lines = [f"stage {check.stage}: differs"]
        lines += [f"  only the first time: {row}" for row in check.difference.first]
        lines += [f"  only the second time: {row}" for row in check.difference.second]
    return lines + [f"  suspect: {each}" for each in check.suspects]
