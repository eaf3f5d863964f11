"""Tenants: the document's two experiments (§3.5) with its topology generator, and many streams.

Experiment 1 sends updates one after the other through six random topologies; experiment 2 through
pipelines that are long, or have many inputs, or many subscribers. Both on Spark. Then the number of
streams grows from 10 to 100,000 with ever fewer of them active, and the share of idle ones among
many is varied. At last bursts go through chains, by this revision and by an earlier one in turn.
The document's own figures are of another machine, a cluster, and are not compared with.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.report import Report
from benchmarks.tenants.baseline import compare
from benchmarks.tenants.many import AT_ONCE, active_among, fill
from benchmarks.tenants.site import Site, streams_of
from benchmarks.tenants.topologies import (
    SIZES,
    Topology,
    generate,
    in_degree,
    length,
    out_degree,
)
from benchmarks.timing import Spread
from holdfast.spark.sessions import local_session, stop_session
from holdfast.tenants.machine.documents import Aggregate, Channel, Field, Input, Stream

USES_SPARK = True

SEED = 1
PER_SOURCE = 3
"""Updates of each source in experiment 1; the document has 10."""
PER_PIPELINE = 10
"""Updates of each pipeline in experiment 2, as the document has."""
STREAMS = (2, 26, 51, 76, 101)
"""Of the pipelines of experiment 2; the document has all from 2 to 101."""
MANY = (10, 100, 1_000, 10_000, 100_000)
FEW, MOST = 100, 100_000
"""Compared with each other."""
WINDOWS = (100, 10_000, 100_000)
"""Updates in a window."""
ACTIVE = 10
ROUNDS = 30
ROUNDS_ON_SPARK = 15
SHARES = (10, 100, 1_000, 10_000, 50_000)
"""Streams that are published to, of all the 50,000 simple ones among 100,000."""


def run(report: Report) -> None:
    with tempfile.TemporaryDirectory() as folder:
        spark = local_session("tenants", master="local[2]", partitions=1)
        try:
            site = Site(Path(folder) / "spark")
            topologies = [generate(name, *shape, seed=SEED) for name, shape in SIZES.items()]
            pipelines = [make(n) for make in (length, in_degree, out_degree) for n in STREAMS]
            for topology in [*topologies, *pipelines]:
                site.put(_object(topology), streams_of(topology))
            with site.on_spark(spark):
                site.settle()
                _warm(site, topologies[0])
                _first(report, site, topologies)
                _second(report, site, pipelines)
            site.close()
            _windows(report, Path(folder))
            many = _fill(report, Path(folder))
            _many(report, many)
            _shares(report, many[MOST])
            _many_on_spark(report, spark, many)
            for each in many.values():
                each.close()
            _memory(report, many)
        finally:
            stop_session(spark)
        compare(report, Path(folder))


def _object(topology: Topology) -> str:
    return "t" + topology.name.replace(" ", "-")


def _paths(topology: Topology) -> list[str]:
    return [f"bench/{_object(topology)}/{name}" for name in topology.sources]


def _warm(site: Site, topology: Topology) -> None:
    site.seconds(_paths(topology))
    for path in _paths(topology) * 2:
        site.seconds([path])


def _first(report: Report, site: Site, topologies: list[Topology]) -> None:
    rows = []
    for topology in topologies:
        report.progress(f"experiment 1: {topology.name}")
        # Where an input has brought nothing yet, an update ends.
        site.seconds(_paths(topology))
        seconds = [site.seconds([path]) for path in _paths(topology) * PER_SOURCE]
        shape = topology.degrees()
        rows.append(
            [
                topology.name,
                *(round(shape[k], 2) for k in ("nodes", "edges", "sources", "max in", "max out")),
                topology.depth(),
                1e3 * statistics.median(seconds),
                1e3 * max(seconds),
            ]
        )
    columns = ["topology", "nodes", "edges", "sources", "max in", "max out", "depth"]
    report.table(
        "Experiment 1: an update through all of a topology, on Spark",
        [*columns, "median ms", "worst ms"],
        rows,
    )


def _second(report: Report, site: Site, pipelines: list[Topology]) -> None:
    taken: dict[str, list[float]] = {}
    rows = []
    for pipeline in pipelines:
        report.progress(f"experiment 2: {pipeline.name}")
        paths = _paths(pipeline)
        site.seconds(paths)
        seconds = [site.seconds(paths[:1]) for _ in range(PER_PIPELINE)]
        taken[pipeline.name] = seconds
        median = 1e3 * statistics.median(seconds)
        rows.append([pipeline.name, median, median / pipeline.depth()])
    report.table(
        "Experiment 2: an update through a pipeline, on Spark",
        ["pipeline", "median ms", "ms per hop"],
        rows,
    )
    short, long = (taken[f"length {streams}"] for streams in (STREAMS[0], STREAMS[-1]))
    ratio = Spread.of([one / other for one, other in zip(long, short, strict=True)])
    report.claim(
        f"a pipeline of {STREAMS[-1] - 1} hops against one of a single hop",
        ratio.median,
        bound=5,
        peer="the pipeline of one hop",
        at_least=False,
        spread=ratio.range,
        unit=" times",
    )


def _fill(report: Report, folder: Path) -> dict[int, Site]:
    sites = {}
    for count in MANY:
        report.progress(f"{count} streams are made")
        sites[count] = site = Site(folder / f"many-{count}")
        fill(site, count)
        site.settle()
        # Looked up and compiled, as they are after their first update.
        site.seconds(active_among(count, ACTIVE))
    return sites


def _many(report: Report, sites: Mapping[int, Site]) -> None:
    """Rounds go round all of them, so that what else the machine does meets all."""
    report.progress("ever more streams, a few of them active")
    active = {count: active_among(count, ACTIVE) for count in sites}
    seconds: dict[int, list[float]] = {count: [] for count in sites}
    rates: dict[int, list[float]] = {count: [] for count in sites}
    for _ in range(ROUNDS):
        for count, site in sites.items():
            seconds[count].append(site.seconds(active[count]))
    for _ in range(5):
        for count, site in sites.items():
            rates[count].append(site.rate(active[count], AT_ONCE))
    rows = []
    for count in sites:
        batch = Spread.of(seconds[count])
        idle = 1 - 2 * len(active[count]) / count
        rate = statistics.median(rates[count])
        each = 1e3 * batch.median / len(active[count])
        rows.append([count, f"{idle:.2%}", 1e3 * batch.median, 1e3 * batch.high, each, rate])
    report.table(
        f"Streams in pairs, {ACTIVE} pairs of them active at most; the four stages without Spark",
        ["streams", "idle", "ms for a batch", "worst", "ms per update", "updates per second"],
        rows,
    )
    _claim(report, "a batch of 10 updates", seconds[MOST], seconds[FEW])


def _shares(report: Report, site: Site) -> None:
    rows = []
    for active in SHARES:
        report.progress(f"{active} of the {MOST} streams are active")
        paths = active_among(MOST, active)
        # Twice: what has never been active has to be looked up.
        first, again = site.rate(paths, 1), site.rate(paths, max(1, AT_ONCE // active))
        rows.append([active, f"{1 - 2 * active / MOST:.2%}", first, again, 1e3 / again])
    report.table(
        f"Of {MOST:,} streams, ever more active; the four stages without Spark",
        ["active pairs", "idle", "updates per second, at first", "then", "ms per update"],
        rows,
    )


def _many_on_spark(report: Report, spark: SparkSession, sites: Mapping[int, Site]) -> None:
    report.progress(f"{FEW} and {MOST} streams on Spark")
    few, most = sites[FEW], sites[MOST]
    seconds: dict[int, list[float]] = {FEW: [], MOST: []}
    with few.on_spark(spark), most.on_spark(spark):
        for number in range(-3, ROUNDS_ON_SPARK):
            for count, site in ((FEW, few), (MOST, most)):
                took = site.seconds(active_among(count, ACTIVE))
                if number >= 0:
                    seconds[count].append(took)
        rates = {n: sites[n].rate(active_among(n, ACTIVE), AT_ONCE) for n in (FEW, MOST)}
    report.table(
        f"Streams in pairs, {ACTIVE} pairs of them active, on Spark",
        ["streams", "ms for a batch", "worst", "updates per second"],
        [
            [n, 1e3 * statistics.median(seconds[n]), 1e3 * max(seconds[n]), rates[n]]
            for n in (FEW, MOST)
        ],
    )
    _claim(report, "a batch of 10 updates on Spark", seconds[MOST], seconds[FEW])


def _claim(report: Report, what: str, most: list[float], few: list[float]) -> None:
    ratio = Spread.of([mine / theirs for mine, theirs in zip(most, few, strict=True)])
    report.claim(
        f"{what}, among {MOST:,} streams against among {FEW:,}",
        ratio.median,
        bound=1.5,
        peer=f"{FEW:,} streams, in the same rounds",
        at_least=False,
        spread=ratio.range,
        unit=" times",
    )


def _windows(report: Report, folder: Path) -> None:
    """Ten updates into full windows of few and of many updates."""
    sites = {}
    for size in WINDOWS:
        report.progress(f"a window of {size} updates is filled")
        sites[size] = site = Site(folder / f"window-{size}")
        aggregate = Aggregate("a", {"mean": Field("mean", "a.n")}, count=size)
        mean = {"n": Channel("number", "window.mean")}
        recent = Stream(mean, inputs={"a": Input("s")}, aggregate=aggregate)
        site.put("o", {"s": Stream({"n": Channel("number")}), "recent": recent})
        site.rate(["bench/o/s"], size)
    seconds: dict[int, list[float]] = {size: [] for size in sites}
    for number in range(-3, ROUNDS):
        for size, site in sites.items():
            took = 10 / site.rate(["bench/o/s"], 10)
            if number >= 0:
                seconds[size].append(took)
    report.table(
        "Ten updates into a full window, each with a result; the four stages without Spark",
        ["updates in it", "ms for ten", "worst"],
        [[n, 1e3 * statistics.median(took), 1e3 * max(took)] for n, took in seconds.items()],
    )
    few, most = WINDOWS[0], WINDOWS[-1]
    ratio = Spread.of(
        [mine / theirs for mine, theirs in zip(seconds[most], seconds[few], strict=True)]
    )
    report.claim(
        f"ten updates into a window of {most:,} against one of {few:,}",
        ratio.median,
        bound=2,
        peer=f"a window of {few:,}, in the same rounds",
        at_least=False,
        spread=ratio.range,
        unit=" times",
    )
    for site in sites.values():
        site.close()


def _memory(report: Report, sites: Mapping[int, Site]) -> None:
    """A process that has just begun, after a batch."""
    megabytes = {count: _resident(sites[count].folder, count) for count in (FEW, MOST)}
    report.table(
        "Memory of a process that has settled a batch of 10 updates",
        ["streams", "MB"],
        [[count, used] for count, used in megabytes.items()],
    )
    report.claim(
        f"memory among {MOST:,} streams against among {FEW:,}",
        megabytes[MOST] / megabytes[FEW],
        bound=1.1,
        peer=f"{FEW:,} streams",
        at_least=False,
        unit=" times",
    )


def _resident(folder: Path, count: int) -> float:
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.tenants.many", str(folder), str(count), str(ACTIVE)],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(ended.stdout)
