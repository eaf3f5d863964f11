"""Figures of windows for people and for Prometheus.

Where the output is no terminal (a file, a pipe) a line is printed now and then, if it has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from rich.console import Console
from rich.live import Live
from rich.text import Text

from holdfast.runtime.prometheus import MetricsServer, serve_collector
from holdfast.spark.metrics.listener import QueryFigures, WindowMetrics

__all__ = ["MetricsServer", "progress_line", "serve_metrics"]


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


LOG_INTERVAL: Final = 5.0
"""Seconds between the lines of an output that is no terminal."""


@contextmanager
def progress_line(metrics: WindowMetrics, console: Console | None = None) -> Iterator[None]:
    """Show what the queries do while the block runs, and at its end what they did."""
    console = console or Console()
    if console.is_jupyter or (console.is_terminal and not console.is_dumb_terminal):
        with Live(console=console, get_renderable=lambda: _lines(metrics.snapshot())):
            try:
                yield
            finally:
                metrics.settle()
    else:
        log = _Log(metrics, console)
        try:
            yield
        finally:
            log.close()


class _Log:
    """Prints the lines that have changed, every few seconds and at the end."""

    def __init__(self, metrics: WindowMetrics, console: Console) -> None:
        self._metrics = metrics
        self._console = console
        self._printed: dict[str, str] = {}
        self._ended = Event()
        self._thread = Thread(target=self._run, name="holdfast progress", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(LOG_INTERVAL):
            self._print()

    def _print(self) -> None:
        for query in self._metrics.snapshot():
            line = _line(query)
            if self._printed.get(query.id) != line.plain:
                self._printed[query.id] = line.plain
                self._console.print(line, soft_wrap=True)

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        self._metrics.settle()
        self._print()


def _lines(queries: list[QueryFigures]) -> Text:
    # A line too long for the terminal is cut, not folded: what matters most comes first.
    return Text("\n", no_wrap=True, overflow="ellipsis").join(_line(query) for query in queries)


def _line(query: QueryFigures) -> Text:
    parts = [Text(query.label, style="bold"), *_condition(query)]
    if query.batches:
        parts += _work(query)
    return Text("  ").join(parts)


def _condition(query: QueryFigures) -> list[Text]:
    if query.reason is not None:
        return [Text(f"failed: {query.reason}", style="bold red")]
    if not query.running:
        return [Text("ended", style="dim")]
    return [] if query.batches else [Text("waiting for its first batch", style="dim")]


def _work(query: QueryFigures) -> Iterator[Text]:
    total = query.total
    yield Text(f"{_count(query.batches)} batches")
    yield Text(f"{_count(total.rows)} rows")
    yield Text(f"{_count(round(query.processed_rows_per_second))} rows/s", style="cyan")
    yield Text(f"{_count(total.late)} late", style="yellow" if total.late else "")
    if total.answers is not None:
        yield Text(f"{_count(total.answers)} windows out")
    if query.windows:
        yield Text(f"{_count(total.open_panes)} open panes")
    if query.watermark is not None:
        yield Text(f"watermark {query.watermark:%Y-%m-%d %H:%M:%S}")
    yield Text(f"{query.batch_seconds:.2f} s/batch")


def _count(number: int) -> str:
    """Exact while it is short: 12,345 but 1.23M."""
    for unit, size in (("G", 10**9), ("M", 10**6)):
        if number >= size:
            return f"{number / size:.2f}{unit}"
    return f"{number:,}"
