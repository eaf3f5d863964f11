"""Windows on Spark whose driver or workers are killed again and again, against a run that was not.

A child process, with Spark embedded in it, slides windows over files of rows: out of order, some of
them too late. It is killed with SIGKILL at moments seen from its checkpoint, within a batch or
between two, started again, and goes on from the checkpoint. In the end the rows in its sink and in
its folder for late rows must be those of a run that nobody killed, to the bit, and these must be
what the windows come to when they are calculated from scratch.
"""

from __future__ import annotations

import random
import shutil
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.processes import Family
from soak.jobs.case import Case
from soak.jobs.checks import check_answers, check_same
from soak.jobs.job import SINKS, Job, start
from soak.jobs.moments import MOMENTS, finish, newest_batch, wait_for_moment

__all__ = ["DESCRIPTION", "USES_SPARK", "Kill", "compare", "run", "run_killed"]

DESCRIPTION = "kill -9 of the driver or the workers of windows on Spark; the answers are the same"
USES_SPARK = True

OTHER = 17196
"""Sets kills apart from rows. With this number seeds 1 and 2, those of `make test`, kill little but
in the midst of batches."""


@dataclass(frozen=True)
class Kill:
    """Whom to kill, and when."""

    moment: str
    """One of `MOMENTS`."""
    batches: int = 1
    """How many batches further than the last one that is done."""
    wait: float = 0.0
    """Seconds after the moment."""
    victim: str = "all"
    """`all` processes at once, the `driver`, whose JVM then ends by itself, or the `workers` in
    Python, whose tasks Spark repeats."""

    @classmethod
    def draw(cls, rng: random.Random) -> Kill:
        return cls(
            rng.choice(MOMENTS),
            rng.randrange(1, 5),
            rng.choice([0.0, 0.0, 0.4 * rng.random()]),
            rng.choice(["all", "all", "all", "driver", "workers"]),
        )


def run(seed: int) -> str:
    rng = random.Random(seed + OTHER)
    case = Case(seed)
    kills = [Kill.draw(rng) for _ in range(rng.randrange(1, 4))]
    trigger = rng.choice(["available", "available", "50 milliseconds"])
    kind = rng.choice(SINKS)
    with TemporaryDirectory() as folder:
        killed = Job(case, Path(folder), "killed", trigger, kind)
        whole = Job(case, Path(folder), "whole")
        case.write(killed.rows)
        struck = run_killed(killed, kills, then=[whole])
        same = compare(whole, killed)
        answers, late = len(whole.answers()), len(whole.late_rows())
    return f"{answers} answers, {late} late rows, {same}; killed: {', '.join(struck) or 'too late'}"


def compare(whole: Job, killed: Job) -> str:
    """Both must be right; they must be the same if Spark gave them the same rows in each batch.

    Killed at two moments, Spark itself goes on with other batches, and other rows are late. Between
    the note of its source and its own plan of a batch: the next file joins the batch. Between the
    note of its file sink and its own that the batch is done: it does not run the batch again, sees
    none of its times, and the watermark falls back by a batch.
    """
    check_answers(whole)
    check_answers(killed)
    if killed.batches() != whole.batches():
        return "right in other batches"
    check_same(whole, killed)
    return "the same"


def run_killed(job: Job, kills: Sequence[Kill], then: Sequence[Job] = ()) -> list[str]:
    """Run a job with these kills until it is through, then others without; says which kills hit."""
    pending = deque(kills)
    struck: list[str] = []
    while True:
        with start([job, *then]) as child:
            restart = False
            while pending and not restart:
                kill = pending.popleft()
                hit = strike(job, child, kill)
                if hit is None:
                    break
                struck.append(hit)
                restart = kill.victim != "workers"
            if not restart:
                finish(child)
                return struck
        for other in then:
            shutil.rmtree(other.folder, ignore_errors=True)


def strike(job: Job, child: Family, kill: Kill) -> str | None:
    """Kill at the moment; None if the child ended before."""
    batch = wait_for_moment(job, child, kill.moment, kill.batches)
    if batch is None:
        return None
    time.sleep(kill.wait)
    match kill.victim:
        case "all":
            child.kill()
        case "driver":
            child.leader.kill()
            child.wait_gone(60)
        case "workers":
            for member in child.members("pyspark.daemon"):
                member.kill()
    return f"{kill.victim} at {kill.moment} {batch} with {newest_batch(job)} done"
