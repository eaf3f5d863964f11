"""Verified execution: replicas of a job that check each other. Importing it loads no Spark.

Jobs are described with `Job`, or by `verified` and `verified_write` in code that exists. What makes
stages differ between replicas, and what helps, is in `holdfast.verify.process.determinism`.
"""

from holdfast.errors import JobFailedError
from holdfast.verify.process.boundaries import verified, verified_write
from holdfast.verify.process.job_files import Program, load_job
from holdfast.verify.process.jobs import Job

__all__ = ["Job", "JobFailedError", "Program", "load_job", "verified", "verified_write"]
