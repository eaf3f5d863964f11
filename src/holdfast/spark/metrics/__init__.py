"""What the windows of running queries do, in figures: for programs, for Prometheus, for people.

    with watch(spark) as metrics, serve_metrics(metrics, port=9464), progress_line(metrics):
        query = holdfast.window(...).writeStream.start()
        query.awaitTermination()

The figures come from Spark's own progress reports, so they cost a query nothing and are the same
over Spark Connect.
"""

from holdfast.spark.counts import COUNTERS, LEVELS
from holdfast.spark.metrics.display import progress_line
from holdfast.spark.metrics.endpoint import MetricsServer, serve_metrics
from holdfast.spark.metrics.figures import QueryFigures, WindowFigures
from holdfast.spark.metrics.listener import WindowMetrics, watch

__all__ = [
    "COUNTERS",
    "LEVELS",
    "MetricsServer",
    "QueryFigures",
    "WindowFigures",
    "WindowMetrics",
    "progress_line",
    "serve_metrics",
    "watch",
]
