"""Verified jobs under faults, in virtual time, from one seed: see `try_job`."""

from holdfast.sim.verified.drawing import draw_job
from holdfast.sim.verified.job import Fault, FaultKind, Job
from holdfast.sim.verified.oracle import JobTrial, try_job
from holdfast.sim.verified.world import JobWorld

__all__ = ["Fault", "FaultKind", "Job", "JobTrial", "JobWorld", "draw_job", "try_job"]
