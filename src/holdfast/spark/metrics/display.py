"""The figures for people: one line for each query, kept up to date on a terminal.

Where the output is no terminal (a file, a pipe) a line is printed now and then, if it has changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from holdfast.spark.metrics.figures import QueryFigures
from holdfast.spark.metrics.listener import WindowMetrics

__all__ = ["progress_line"]

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
