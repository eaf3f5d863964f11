"""Tenants: the document's two experiments (§3.5) with its topology generator, and many streams.

Experiment 1 sends updates one after the other through six random topologies; experiment 2 through
pipelines that are long, or have many inputs, or many subscribers. Both on Spark. Then the number of
streams grows from 10 to 100,000 with ever fewer of them active. The document's own figures are of
another machine, a cluster, and are not compared with.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from benchmarks.report import Report
from benchmarks.tenants.site import Site, streams_of
from benchmarks.tenants.topologies import (
    SIZES,
    Topology,
    generate,
    in_degree,
    length,
    out_degree,
)
from holdfast.protocol.composition.documents import Channel, Input, Stream
from holdfast.spark.sessions import local_session, stop_session

USES_SPARK = True

SEED = 1
PER_SOURCE = 1
"""Updates of each source in experiment 1; the document has 10."""
PER_PIPELINE = 5
"""Updates of each pipeline in experiment 2; the document has 10."""
STREAMS = (2, 26, 51, 76, 101)
"""Of the pipelines of experiment 2; the document has all from 2 to 101."""
MANY = (10, 100, 1_000, 10_000, 100_000)
ACTIVE = 10
ROUNDS = 30
PER_OBJECT = 1000
AT_ONCE = 1000


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
        finally:
            stop_session(spark)
        _many(report, Path(folder))


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
    medians = {}
    rows = []
    for pipeline in pipelines:
        report.progress(f"experiment 2: {pipeline.name}")
        paths = _paths(pipeline)
        site.seconds(paths)
        seconds = [site.seconds(paths[:1]) for _ in range(PER_PIPELINE)]
        medians[pipeline.name] = statistics.median(seconds)
        hops = pipeline.depth()
        rows.append(
            [pipeline.name, 1e3 * medians[pipeline.name], 1e3 * medians[pipeline.name] / hops]
        )
    report.table(
        "Experiment 2: an update through a pipeline, on Spark",
        ["pipeline", "median ms", "ms per hop"],
        rows,
    )
    report.claim(
        "a pipeline of 100 hops against one of a single hop",
        medians[f"length {STREAMS[-1]}"] / medians[f"length {STREAMS[0]}"],
        bound=5,
        peer="the pipeline of one hop",
        at_least=False,
        unit=" times",
    )


def _many(report: Report, folder: Path) -> None:
    rows, medians = [], {}
    for count in MANY:
        report.progress(f"{count} streams")
        site = Site(folder / f"many-{count}")
        active = _fill(site, count)
        site.settle()
        seconds = [site.seconds(active) for _ in range(ROUNDS)]
        medians[count] = statistics.median(seconds)
        paths = active * (AT_ONCE // len(active))
        for path in range(0, len(paths), len(active)):
            site.publish(paths[path : path + len(active)])
        rate = len(paths) / _timed(site)
        idle = 1 - 2 * len(active) / count
        rows.append([count, f"{idle:.2%}", 1e3 * medians[count], rate, 2 * rate])
        site.close()
    report.table(
        f"Streams in pairs, {ACTIVE} of them published to at most; the stages without Spark",
        ["streams", "idle", "ms for a batch", "updates per second", "with results"],
        rows,
    )
    report.claim(
        f"a batch of {ACTIVE} updates among {MANY[-1]:,} streams against among {MANY[1]:,}",
        medians[MANY[-1]] / medians[MANY[1]],
        bound=2,
        peer=f"{MANY[1]:,} streams, in the same run",
        at_least=False,
        unit=" times",
    )


def _timed(site: Site) -> float:
    from time import perf_counter

    began = perf_counter()
    site.settle()
    return perf_counter() - began


def _fill(site: Site, count: int) -> list[str]:
    """Pairs of a simple and a composite stream; answers the simple ones that will be active."""
    pairs = count // 2
    for start in range(0, pairs, PER_OBJECT // 2):
        numbers = range(start, min(pairs, start + PER_OBJECT // 2))
        streams = {f"s{n}": Stream({"n": Channel("number")}) for n in numbers}
        for n in numbers:
            inputs = {"a": Input(f"s{n}")}
            streams[f"c{n}"] = Stream({"n": Channel("number", "a.n * 2.0")}, inputs=inputs)
        site.put(f"o{start}", streams)
    step = max(1, pairs // ACTIVE)
    chosen = range(0, pairs, step)[:ACTIVE]
    return [f"bench/o{n - n % (PER_OBJECT // 2)}/s{n}" for n in chosen]
