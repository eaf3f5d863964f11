"""Verified execution: replicas of a job that check each other. Imported, it loads no Spark.

Jobs are described with `Job`, or by `verified` and `verified_write` in code that exists. What makes
stages differ between replicas, and what helps, is in `holdfast.verify.determinism`.
"""

from holdfast.verify.boundaries import verified, verified_write
from holdfast.verify.errors import JobFailedError
from holdfast.verify.job_files import Program, load_job
from holdfast.verify.jobs import Job

__all__ = ["Job", "JobFailedError", "Program", "load_job", "verified", "verified_write"]
