"""Figures of the windows of running queries: for programs, for Prometheus, for people.

    with watch(spark) as metrics, serve_metrics(metrics, port=9464), progress_line(metrics):
        query = holdfast.window(...).writeStream.start()
        query.awaitTermination()

The figures come from Spark's own progress reports, so they cost a query nothing and are the same
over Spark Connect.
"""

from holdfast.spark.metrics.display import MetricsServer, progress_line, serve_metrics
from holdfast.spark.metrics.listener import QueryFigures, WindowFigures, WindowMetrics, watch
from holdfast.spark.results import COUNTERS, LEVELS

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
