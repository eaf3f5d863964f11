"""Verified jobs under faults, in virtual time, from one seed: see `try_job`."""

from simulator.verified.drawing import draw_job
from simulator.verified.job import Fault, FaultKind, Job
from simulator.verified.oracle import JobTrial, try_job
from simulator.verified.world import JobWorld

__all__ = ["Fault", "FaultKind", "Job", "JobTrial", "JobWorld", "draw_job", "try_job"]
