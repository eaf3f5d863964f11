"""Moments in the life of a job, seen from its files, and the wait for them."""

from __future__ import annotations

from harness.processes import Family
from harness.waiting import wait_for
from soak.jobs.job import Job

__all__ = ["MOMENTS", "finish", "newest_batch", "wait_for_moment"]

DEADLINE = 200.0
"""Seconds for one process, from start to end."""

MOMENTS = ("planned", "late", "stored", "sunk", "committed")
"""Of a batch, in their order."""


def wait_for_moment(job: Job, child: Family, moment: str, batches: int) -> int | None:
    """Wait for a moment so many batches after the newest one that is done.

    Answers the number of that batch; None if the child ended before.
    """
    batch = newest_batch(job) + batches
    late = _count_late(job)
    wait_for(
        lambda: f"batch {batch} to be {moment}; the process said\n{child.tail()}",
        lambda: child.status is not None or _has_come(job, moment, batch, late),
        DEADLINE,
        every=0.002,
    )
    return batch if child.status is None else None


def _has_come(job: Job, moment: str, batch: int, late: int) -> bool:
    match moment:
        case "planned":
            return (job.checkpoint / "offsets" / str(batch)).exists()
        case "late":
            # Late rows of any batch are written; the state they came with is not yet stored.
            return _count_late(job) > late
        case "stored":
            # The first shard of the batch: others may still be calculating.
            return any(job.checkpoint.glob(f"state/0/*/{batch + 1}.*"))
        case "sunk":
            return job.has_sunk(batch)
        case "committed":
            return (job.checkpoint / "commits" / str(batch)).exists()
    raise ValueError(moment)


def newest_batch(job: Job) -> int:
    """The newest batch that is done; -1 before the first."""
    return max((int(path.name) for path in (job.checkpoint / "commits").glob("[0-9]*")), default=-1)


def finish(child: Family) -> None:
    """Let a process run to its end, which must be a good one."""
    wait_for(
        lambda: f"the process to end; it said\n{child.tail()}",
        lambda: child.status is not None,
        DEADLINE,
    )
    if child.status != 0:
        raise AssertionError(f"the process ended with status {child.status}:\n{child.tail()}")


def _count_late(job: Job) -> int:
    return sum(1 for _ in job.late.glob("*.parquet"))
