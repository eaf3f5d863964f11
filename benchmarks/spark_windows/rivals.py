"""Other engines from the package index on the same rows, as text: Flink SQL, bytewax, pathway.

All read the same CSV rows in the same order (`data.write_csv`), two lanes for two cores, and throw
their answers away. None starts with a full window: at an hour by a second the peers would need an
hour of their own to fill it. Flink's cost grows as it fills, so the figures flatter it; how far
event time came is in the table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.peers import run_peer
from benchmarks.report import Report
from benchmarks.spark_windows.bench import Bench
from benchmarks.spark_windows.data import Feed, Stretch, write_csv
from benchmarks.spark_windows.engines import HOLDFAST, ROCKSDB, Engine, Source, Window, run
from benchmarks.spark_windows.runs import rate_of_samples
from benchmarks.timing import Spread

__all__ = ["STREAM_PEERS", "Rival", "on_spark", "peers", "rivals_table"]

SCRIPTS: Final = Path(__file__).resolve().parent.parent / "scripts"
STREAM_PEERS: Final = "stream-peers"
MINUTE: Final = Window(60, 1)
HOUR: Final = Window(3600, 1)
SECONDS: Final = 40
"""How long a peer is watched, once it has started."""

BATCHES: Final = 10


@dataclass(frozen=True)
class Rival:
    """What one engine did with one window over one feed."""

    engine: str
    feed: Feed
    window: Window
    rate: Spread
    reached: float
    """Seconds of event time behind it at the end."""
    remark: str


def on_spark(bench: Bench) -> list[Rival]:
    """Holdfast, and Spark's own window where it is not hopeless, on the lanes cut into batches."""
    few, *more = bench.scale.feeds
    return [
        _spark(bench, HOLDFAST, few, MINUTE),
        _spark(bench, ROCKSDB, few, MINUTE),
        _spark(bench, HOLDFAST, few, HOUR),
        *(_spark(bench, HOLDFAST, many, HOUR) for many in more),
    ]


def _spark(bench: Bench, engine: Engine, feed: Feed, window: Window) -> Rival:
    stretch = _stretch(bench, feed)
    cut, _ = write_csv(bench.data, stretch)
    source = Source((cut,), stretch.rows_per_batch, bench.scale.warmups)
    bench.report.progress(f"{feed.keys:,} keys, {window}, CSV, {engine.name}")
    done = run(bench.spark, engine, source, (window,), bench.limit(engine))
    reached = done.rows / feed.rows_per_second
    return Rival(engine.name, feed, window, done.rate, reached, done.remark)


def peers(bench: Bench) -> list[Rival]:
    """The peers on the same lanes in one piece each. Spark should be gone: the cores are theirs."""
    few, *more = bench.scale.feeds
    return [
        *(_peer(bench, script, few, window) for window in (MINUTE, HOUR) for script in PEERS),
        *(_peer(bench, "flink_windows.py", many, HOUR) for many in more),
    ]


PEERS: Final = {
    "flink_windows.py": "Flink SQL, HOP",
    "bytewax_windows.py": "bytewax",
    "pathway_windows.py": "pathway",
}


def _peer(bench: Bench, script: str, feed: Feed, window: Window) -> Rival:
    name = PEERS[script]
    bench.report.progress(f"{feed.keys:,} keys, {window}, CSV, {name}")
    _, whole = write_csv(bench.data, _stretch(bench, feed))
    sizes = (str(1000 * window.size), str(1000 * window.slide))
    told = run_peer(SCRIPTS / script, str(whole), *sizes, str(SECONDS), environment=STREAM_PEERS)
    samples = [(second, rows) for second, rows in told["samples"]]
    rate = rate_of_samples(samples)
    reached = samples[-1][1] / feed.rows_per_second
    return Rival(name, feed, window, rate, reached, "" if told["finished"] else "cut off")


def rivals_table(report: Report, rivals: list[Rival]) -> None:
    """All engines, by case; the stretch goal is to be ahead of Flink at an hour by a second."""
    ours = {(each.feed, each.window): each for each in rivals if each.engine == HOLDFAST.name}
    rivals = sorted(rivals, key=lambda each: list(ours).index((each.feed, each.window)))
    rows = []
    for each in rivals:
        best = ours[each.feed, each.window].rate.median
        times = best / each.rate.median if each.rate.median else math.inf
        rate = (each.rate.median, each.rate.low, each.rate.high)
        names = (each.feed.keys, str(each.window), each.engine)
        rows.append([*names, *rate, round(each.reached), times, each.remark])
    heads = ["keys", "size / slide", "engine", "rows/s", "lowest", "highest", "event s"]
    report.table(
        "engines on the same CSV rows, windows filling from empty",
        [*heads, "times slower", "remark"],
        rows,
    )


def _stretch(bench: Bench, feed: Feed) -> Stretch:
    step = round(bench.scale.rows_per_batch / feed.rows_per_second)
    return Stretch(feed, 0, BATCHES * step, step)
