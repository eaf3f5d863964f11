"""Votes: what it costs a reader to compare replicas, and how long a bucket waits for them.

First the gates themselves, without Spark, on what four replicas publish. Then each mode with four
real replicas on Spark, which share this machine's cores: throughput and latency.
"""

from __future__ import annotations

import os
from functools import partial

from benchmarks.report import Report
from benchmarks.timing import Alternative, measure
from benchmarks.votes.live import ALONE, live
from benchmarks.votes.reading import read, record
from benchmarks.votes.waiting import CASES, wait

USES_SPARK = True
LEAST = 0.15
"""Four copies are decoded and hashed in the place of one."""
POLICIES = ("vote", "vote-latest", "sample", "first", "latest")
EXACTLY_ONCE = ("vote", "sample", "first")


def run(report: Report) -> None:
    small = os.environ.get("HOLDFAST_BENCH") == "smoke"
    _report_reading(report, buckets=20 if small else 100, repeats=1 if small else 3)
    _report_waiting(report, buckets=200 if small else 10_000)
    if not small:
        _report_live(report, seconds=20.0, rows=200_000)


def _report_reading(report: Report, *, buckets: int, repeats: int) -> None:
    rows = 10_000
    report.progress(f"reading {buckets} buckets of {rows:,} rows from four replicas")
    stream = record(buckets, rows)
    timings = measure(
        [
            Alternative(policy, partial(read, stream, policy), operations=buckets * rows)
            for policy in ("switch", *POLICIES)
        ],
        repeats=repeats,
    )
    report.table(
        f"{buckets} buckets of {rows:,} rows: a reader alone, on one core",
        ["policy", "million rows/s", "ms/bucket", "of switch"],
        [
            [
                policy,
                timings.rate(policy).median / 1e6,
                timings.seconds(policy).median / buckets * 1e3,
                timings.ratio(policy, "switch").median,
            ]
            for policy in ("switch", *POLICIES)
        ],
    )
    for policy in POLICIES:
        ratio = timings.ratio(policy, "switch")
        report.claim(
            f"rows/s read from four replicas with {policy}",
            ratio.median,
            LEAST,
            "switch, which reads one of them",
            spread=ratio.range,
            unit="x",
        )


def _report_waiting(report: Report, *, buckets: int) -> None:
    rows: list[list[object]] = []
    found = {}
    for fault, case in CASES.items():
        for policy in POLICIES:
            waited = found[fault, policy] = wait(policy, case, buckets)
            rows.append(
                [
                    fault,
                    policy,
                    waited.quantile(0.5),
                    waited.quantile(0.99),
                    waited.skipped,
                    waited.wrong,
                ]
            )
    report.table(
        f"{buckets:,} buckets of 1 s, copies after 0.1 s and more: what one waits, virtual time",
        ["fault", "policy", "p50 s", "p99 s", "skipped", "wrong"],
        rows,
    )
    slow, usual = found["one ten times slower", "vote"], found["none", "vote"]
    report.claim(
        "a vote when one replica is ten times slower",
        slow.quantile(0.5),
        2 * usual.quantile(0.5),
        "a vote when all are well",
        at_least=False,
        unit=" s",
    )
    report.claim(
        "wrong buckets that a vote lets through",
        found["one lies", "vote"].wrong,
        0,
        "none",
        at_least=False,
    )


def _report_live(report: Report, *, seconds: float, rows: int) -> None:
    found = {}
    for policy in (ALONE, *POLICIES):
        report.progress(f"on Spark: {policy}")
        found[policy] = live(policy, seconds, rows)
    report.table(
        f"on Spark, buckets of 2 s: delays at 70 rows/s, and a backlog of {rows:,} rows",
        ["mode", "p50 s", "longest s", "buckets", "thousand rows/s", "rows in the result"],
        [
            [policy, each.p50, each.longest, each.buckets, each.rate / 1e3, f"{each.share:.1%}"]
            for policy, each in found.items()
        ],
    )
    for policy in EXACTLY_ONCE:
        report.claim(
            f"rows of a backlog that come through {policy} on Spark, exactly once",
            1 - abs(1 - found[policy].share),
            1.0,
            "all of them",
        )
