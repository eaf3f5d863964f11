"""A replica without Spark that is a process: `python -m harness.verified.plain_replica`.

It is `holdfast.verify.process.replica_process` with another way to compute.
"""

from __future__ import annotations

from pathlib import Path
from threading import Event

from harness.verified.plain import PlainComputer
from holdfast.storage.signing import Signer
from holdfast.verify.machine import Plan
from holdfast.verify.process.client import Verifiers, Witness
from holdfast.verify.process.job_files import load_job
from holdfast.verify.process.placement import this_host
from holdfast.verify.process.replica import Replica, Trace
from holdfast.verify.process.replica_process import main
from holdfast.verify.process.submission import Orders

__all__ = ["run_plain_replica"]


def run_plain_replica(orders: Orders, trace: Trace) -> None:
    host, signer = this_host(), Signer(orders.secret)
    witness = Witness(orders.job, orders.replica, signer, orders.verifiers, orders.security)
    job = load_job(orders.file, orders.code, orders.arguments)
    plan = Plan(job.plan.stages, orders.slices, orders.pins)
    with Verifiers(plan, orders.retries, orders.asks, orders.security) as verifiers:
        witness.start(host)
        computer = PlainComputer(orders, Path(), witness, [], [], host, Event())
        Replica(orders.replica, plan, orders.mode, verifiers, computer, trace).finish()


if __name__ == "__main__":
    main([], run_plain_replica)
