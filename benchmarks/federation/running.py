"""Runs of the simulator, on all cores: each follows from its arguments alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from simulator.federation.variants import Convergence, Variant, converge

__all__ = ["Case", "Job", "run_cases"]


@dataclass(frozen=True)
class Job:
    """One configuration, but for the seed."""

    variant: Variant
    contracts: int
    percent: int
    above: int = 0
    """Counter-offers are so many tasks above the valuation."""


@dataclass(frozen=True)
class Case:
    """Runs of one configuration with several seeds, and what is left of it."""

    job: Job
    runs: tuple[Convergence, ...]

    @property
    def left(self) -> list[float]:
        """Per cent of tasks without a place, or of capacity that is not used."""
        name = "overload" if self.job.percent < 100 else "unused"
        return [100 * getattr(each, name) for each in self.runs]

    @property
    def mean(self) -> float:
        return sum(self.left) / len(self.runs)

    @property
    def seconds(self) -> list[float]:
        return [each.seconds for each in self.runs]

    @property
    def soon(self) -> list[float]:
        """Seconds until 95 % of the benefit."""
        return [each.soon for each in self.runs]


def run_cases(size: int, seeds: Mapping[Job, int]) -> dict[Job, Case]:
    """So many seeds of each job, from 1 on."""
    jobs = [(size, job, seed) for job, count in seeds.items() for seed in range(1, count + 1)]
    found: defaultdict[Job, list[Convergence]] = defaultdict(list)
    with ProcessPoolExecutor() as pool:
        for (_, job, _), run in zip(jobs, pool.map(_run, jobs, chunksize=4), strict=True):
            found[job].append(run)
    return {job: Case(job, tuple(runs)) for job, runs in found.items()}


def _run(given: tuple[int, Job, int]) -> Convergence:
    size, job, seed = given
    return converge(size, job.contracts, job.percent, job.variant, seed, above=job.above)
