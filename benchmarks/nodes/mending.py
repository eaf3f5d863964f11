"""How long it takes after a failure until all is corrected, and what a replica with nothing to do
uses."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.nodes.steady import BUCKET, MAX_DELAY, ROWS_PER_SECOND, SteadyDeployment
from benchmarks.processes import usage_of
from benchmarks.report import Report
from harness.faults import broken
from harness.waiting import wait_for
from holdfast.pipeline.machine.tuples import Kind

__all__ = ["Mended", "report_idle", "report_mending"]

PATIENCE = 120.0


@dataclass(frozen=True)
class Mended:
    """A failure of one source of three. In seconds."""

    failure: float
    corrected_after: float
    """From the end of the failure to the REC_DONE at the client."""
    worst: float
    """How late something new came, during the failure and after it."""
    tentative: int
    """Rows."""


def report_mending(report: Report, deployment: SteadyDeployment, outages: Sequence[float]) -> None:
    """`outages`: in times of `max_delay`."""
    rows = []
    for times in outages:
        mended = mend(deployment, times * deployment.max_delay)
        report.progress(
            f"cut for {mended.failure:.0f} s: corrected after {mended.corrected_after:.2f} s"
        )
        rows.append([times, mended.failure, mended.corrected_after, mended.worst, mended.tentative])
    report.table(
        f"one source of three cut off, one stage, one replica, max_delay {MAX_DELAY}, buckets "
        f"of {BUCKET}, {ROWS_PER_SECOND:,} rows/s",
        [
            "times max_delay",
            "failure, s",
            "corrected after, s",
            "worst delay of something new, s",
            "tentative rows",
        ],
        rows,
    )


def mend(deployment: SteadyDeployment, failure: float) -> Mended:
    since = len(deployment.told)
    with broken(deployment.links("clean", deployment.sources_names[0])):
        time.sleep(failure)
    healed = time.time()
    wait_for("REC_DONE", lambda: corrected_at(deployment, since) > healed, PATIENCE, 0.02)
    corrected = corrected_at(deployment, since)
    wait_for("final rows of now", lambda: deployment.boundary > corrected * 1e6, PATIENCE)
    tentative = sum(
        len(told.rows)
        for _, told in deployment.told[since:]
        if told.kind is Kind.TENTATIVE and told.rows is not None
    )
    return Mended(failure, corrected - healed, max(deployment.delays(since)), tentative)


def corrected_at(deployment: SteadyDeployment, since: int) -> float:
    """When the client was last told that all is corrected, 0 if it was not."""
    told = deployment.told[since:]
    return max((moment for moment, each in told if each.kind is Kind.REC_DONE), default=0)


def report_idle(report: Report, deployment: SteadyDeployment, seconds: float) -> None:
    """No rows come any more, boundaries do."""
    deployment.silent.update(deployment.sources_names)
    name = deployment.replicas[0]
    wait_for("the last rows", lambda: _is_idle(deployment), PATIENCE)
    deployment.check()
    pid = deployment.processes[name].leader.pid
    before, begun = usage_of(pid), time.monotonic()
    time.sleep(seconds)
    after = usage_of(pid)
    share = (after.cpu - before.cpu) / (time.monotonic() - begun)
    report.table(
        f"one replica to which no rows come, over {seconds:.0f} s, buckets of {BUCKET}",
        ["share of a core", "resident MiB", "processes"],
        [[share, after.resident / 2**20, after.processes]],
    )


def _is_idle(deployment: SteadyDeployment) -> bool:
    """Whether the newest that the client was told had no rows."""
    told = deployment.told[-1][1]
    return told.kind is Kind.INSERT and told.rows is None
