"""Verified execution: replicas of a job that check each other. Importing it loads no Spark.

Jobs are described with `Job`, or by `verified` and `verified_write` in code that exists. The
functions of `holdfast.verify.process.determinism` make columns that do not depend on chance.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.errors import JobFailedError
from holdfast.verify.process.boundaries import verified, verified_write
from holdfast.verify.process.job_files import Program, load_job
from holdfast.verify.process.jobs import Job

if TYPE_CHECKING:
    from holdfast.verify.process.determinism import stable_sum
    from holdfast.verify.process.determinism_check import check_job
    from holdfast.verify.process.plan_lint import suspects

__all__ = [
    "Job",
    "JobFailedError",
    "Program",
    "check_job",
    "load_job",
    "stable_sum",
    "suspects",
    "verified",
    "verified_write",
]

_HOMES = {
    "check_job": "holdfast.verify.process.determinism_check",
    "stable_sum": "holdfast.verify.process.determinism",
    "suspects": "holdfast.verify.process.plan_lint",
}
"""Names that load Spark, when they are first used."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
