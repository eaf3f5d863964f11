"""The figures of windows for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from holdfast.prometheus import MetricsServer, serve_collector
from holdfast.spark.metrics.listener import WindowMetrics

__all__ = ["MetricsServer", "serve_metrics"]


class _Figure(NamedTuple):
    """A figure as Prometheus sees it: holdfast_window_NAME, with _total added if it counts."""

    name: str
    attribute: str
    help: str
    counts: bool = False


_OF_A_WINDOW: Final = (
    _Figure("rows", "rows", "Rows taken into windows.", counts=True),
    _Figure("late_rows", "late", "Rows that came after their pane was closed.", counts=True),
    _Figure("answers", "answers", "Result rows.", counts=True),
    _Figure("uncertain_answers", "uncertain", "Result rows not within_bound.", counts=True),
    _Figure("pairs_read", "pairs_read", "State pairs read.", counts=True),
    _Figure("pairs_written", "pairs_written", "State pairs written.", counts=True),
    _Figure("pairs_deleted", "pairs_deleted", "State pairs deleted.", counts=True),
    _Figure("combines", "combines", "Combinations of two states.", counts=True),
    _Figure("read_bytes", "bytes_read", "Bytes of state read.", counts=True),
    _Figure("written_bytes", "bytes_written", "Bytes of state written.", counts=True),
    _Figure("panes", "panes", "Panes in the windows; buckets of approximate ones."),
    _Figure("open_panes", "open_panes", "Panes that still take rows."),
    _Figure("keys", "keys", "Keys with state."),
)

# The last batch's seconds are not called batch_seconds: OpenMetrics gives a counter's name without
# its _total to nothing else.
_OF_A_QUERY: Final = (
    _Figure("batches", "batches", "Micro-batches finished.", counts=True),
    _Figure("batch_seconds", "batch_seconds_total", "Seconds spent in batches.", counts=True),
    _Figure("last_batch_seconds", "batch_seconds", "Seconds the last batch took."),
    _Figure("input_rows_per_second", "input_rows_per_second", "Rows arriving per second."),
    _Figure("dropped_rows", "dropped_rows", "Groups of late rows Spark dropped.", counts=True),
    _Figure("watermark_seconds", "watermark_seconds", "The watermark, in seconds since 1970."),
    _Figure("state_rows", "state_rows", "Rows in Spark's state store."),
    _Figure("state_bytes", "state_memory_bytes", "Memory of Spark's state store."),
    _Figure("state_disk_bytes", "state_disk_bytes", "Files of Spark's state store, if RocksDB."),
    _Figure("running", "running", "1 while the query runs, 0 after it has ended."),
    _Figure("failed", "failed", "1 if the query has ended with an error."),
)


class _WindowCollector(Collector):
    """Reads the figures anew for each request."""

    def __init__(self, metrics: WindowMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        # A name is unique among running queries only; the newest with a name speaks for it.
        queries = list({query.label: query for query in self._metrics.snapshot()}.values())
        windows = [
            ([query.label, window.window], window)
            for query in queries
            if query.batches
            for window in query.windows or (query.total,)
        ]
        yield from _families(_OF_A_WINDOW, ["query", "window"], windows)
        yield from _families(_OF_A_QUERY, ["query"], [([query.label], query) for query in queries])


def _families(
    figures: Iterable[_Figure], labels: list[str], sources: list[tuple[list[str], Any]]
) -> Iterator[Metric]:
    for figure in figures:
        kind = CounterMetricFamily if figure.counts else GaugeMetricFamily
        family = kind(f"holdfast_window_{figure.name}", figure.help, labels=labels)
        for values, source in sources:
            value = getattr(source, figure.attribute)
            if value is not None:
                family.add_metric(values, value)
        yield family


def serve_metrics(metrics: WindowMetrics, port: int = 0) -> MetricsServer:
    """Serve the figures to Prometheus on 127.0.0.1; port 0 takes any free one, see `.port`."""
    return serve_collector(_WindowCollector(metrics), port)
