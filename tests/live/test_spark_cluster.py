"""Windows on a cluster of two workers: one executor is lost, then the other, with their state."""

from __future__ import annotations

from pathlib import Path

from harness.processes import Family
from harness.standalone import DEADLINE, Cluster, executors
from harness.waiting import wait_for
from soak.jobs.case import Case
from soak.jobs.checks import check_answers, check_same
from soak.jobs.job import Job, start
from soak.jobs.moments import finish, wait_for_moment

SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    # Both are there before the first batch.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{DEADLINE:.0f}s",
}


def test_lost_executors_change_no_answer(tmp_path: Path) -> None:
    case = Case(5, files=5)
    on_cluster, embedded = Job(case, tmp_path, "cluster"), Job(case, tmp_path, "embedded")
    case.write(on_cluster.rows)
    with start([embedded]) as reference, Cluster(tmp_path, workers=2) as cluster:
        with start([on_cluster], cluster.url, SETTINGS) as driver:
            for worker in cluster.workers:
                batch = wait_for_moment(on_cluster, driver, "stored", batches=2)
                assert batch is not None, driver.tail()
                lose_executor(worker)
            finish(driver)
        finish(reference)
    assert len(embedded.late_rows()) > 0
    check_answers(embedded)
    check_same(embedded, on_cluster)


def lose_executor(worker: Family) -> None:
    """Kill the executor of a worker and wait until it has another."""
    (lost,) = executors(worker)
    lost.kill()
    wait_for(
        lambda: f"another executor; the worker said\n{worker.tail()}",
        lambda: executors(worker) not in ([], [lost]),
        DEADLINE,
    )
