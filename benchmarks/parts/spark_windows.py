"""Windows on Spark: Holdfast against Spark's own windows and against other engines, in one run.

The rows are in files (`benchmarks.spark_windows.data`), and all engines of a table read the same. A
rate is of batches of a million rows after the window is full and the JVM warm; its spread is over
batches. Spark's own windows stop at a time limit, and what they had done by then counts.
"""

from __future__ import annotations

from benchmarks.peers import peer_python
from benchmarks.report import Report
from benchmarks.spark_windows.bench import Bench
from benchmarks.spark_windows.engines import embedded_spark
from benchmarks.spark_windows.growth import more_keys, more_windows
from benchmarks.spark_windows.native import against_native
from benchmarks.spark_windows.rivals import STREAM_PEERS, on_spark, peers, rivals_table
from benchmarks.spark_windows.scale import chosen_scale
from benchmarks.spark_windows.sweeps import growing_sizes, shrinking_slides

USES_SPARK = True


def run(report: Report) -> None:
    scale = chosen_scale()
    if scale.rivals:
        peer_python(STREAM_PEERS)
    with embedded_spark() as spark:
        bench = Bench(spark, report, scale)
        if scale.warmups:
            bench.warm_up()
        growing_sizes(bench)
        more_windows(bench)
        more_keys(bench)
        against_native(bench)
        shrinking_slides(bench)
        rivals = on_spark(bench) if scale.rivals else []
    if rivals:
        rivals_table(report, [*rivals, *peers(bench)])
