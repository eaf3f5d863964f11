"""What a chain of stages adds to the age of new rows, and what its replicas use meanwhile."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from benchmarks.nodes.scale import Scale
from benchmarks.nodes.steady import BUCKET, ROWS_PER_SECOND, SteadyDeployment, running
from benchmarks.processes import usage_of
from benchmarks.report import Report
from holdfast.pipeline.machine.tuples import Kind

__all__ = ["Hops", "per_hop", "report_hops", "watch"]


@dataclass(frozen=True)
class Hops:
    """A chain while nothing is broken. Delays are in seconds, from the end of a bucket."""

    chain: int
    replicas: int
    median: float
    p99: float
    worst: float
    buckets: int
    cores: float
    """Used by all replicas."""
    tentative: int
    """Pieces that came as tentative, for on a busy machine a replica may be missed."""


def watch(deployment: SteadyDeployment, chain: int, replicas: int, seconds: float) -> Hops:
    since, begun = len(deployment.told), time.monotonic()
    before = usage_of(*deployment.pids).cpu
    time.sleep(seconds)
    used = usage_of(*deployment.pids).cpu - before
    elapsed = time.monotonic() - begun
    delays = list(deployment.delays(since))
    assert delays, f"nothing new has come to the client in {seconds:.0f} s"
    median, p99 = np.percentile(delays, [50, 99]).tolist()
    return Hops(
        chain,
        replicas,
        median,
        p99,
        max(delays),
        len(delays),
        used / elapsed,
        deployment.kinds(since).count(Kind.TENTATIVE),
    )


def per_hop(chains: Sequence[Hops]) -> list[tuple[float, float]]:
    """What each further stage adds to the median and to the 99th percentile."""
    return [(more.median - less.median, more.p99 - less.p99) for less, more in pairwise(chains)]


def report_hops(report: Report, scale: Scale, one: Hops) -> None:
    """`one`: one stage of one replica, which longer chains and more replicas are compared with."""
    chains = [one]
    for chain in scale.longer:
        report.progress(f"a chain of {chain}, one replica each")
        with running(chain=chain, replicas=1, warm=scale.warm) as deployment:
            chains.append(watch(deployment, chain, 1, scale.watched))
    report.progress("one stage of two replicas")
    with running(chain=1, replicas=2, warm=scale.warm) as deployment:
        replicated = watch(deployment, 1, 2, scale.watched)
    added = [(None, None), *per_hop(chains), (None, None)]
    report.table(
        f"age of new rows at the client after the end of their bucket of {BUCKET}, "
        f"{ROWS_PER_SECOND:,} rows/s from three sources, seconds",
        [
            "stages",
            "replicas of each",
            "p50",
            "p99",
            "worst",
            "p50 added by the hop",
            "p99 added by the hop",
            "buckets",
            "tentative",
            "cores used by replicas",
        ],
        [
            [
                each.chain,
                each.replicas,
                each.median,
                each.p99,
                each.worst,
                "" if more is None else more,
                "" if more_p99 is None else more_p99,
                each.buckets,
                each.tentative,
                each.cores,
            ]
            for each, (more, more_p99) in zip([*chains, replicated], added, strict=True)
        ],
    )
    report.table(
        f"two replicas against one, one stage, {ROWS_PER_SECOND:,} rows/s",
        ["replicas", "cores used", "CPU seconds per million rows", "times one replica", "p50"],
        [
            [
                each.replicas,
                each.cores,
                each.cores / ROWS_PER_SECOND * 1e6,
                each.cores / chains[0].cores,
                each.median,
            ]
            for each in (chains[0], replicated)
        ],
    )
