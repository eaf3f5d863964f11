"""One measuring session: runs engines over feeds and remembers what each configuration gave."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.report import Report
from benchmarks.spark_windows.data import Feed, Stretch, write_parquet
from benchmarks.spark_windows.engines import HOLDFAST, NATIVE, Engine, Source, Window, run
from benchmarks.spark_windows.runs import Run, pooled
from benchmarks.spark_windows.scale import Scale
from harness.parts import REPOSITORY

__all__ = ["DATA", "Bench"]

DATA = REPOSITORY / ".build" / "spark-windows"
HOUR = 3600
LAST_MINUTES = 600
"""Filling the window is in two parts, of which windows up to this long need only the second."""

FAR = 3600
"""The ratio at which Spark's own window gets small batches."""

NO_LIMIT = 900
"""Seconds after which a run that should not be cut off is broken."""

MANY_ROWS = 5_000_000
"""With more rows than this to fill the window, there is no second round."""


class Bench:
    """Runs of this session, by engine, feed and windows."""

    def __init__(
        self, spark: SparkSession, report: Report, scale: Scale, data: Path = DATA
    ) -> None:
        self.spark = spark
        self.report = report
        self.scale = scale
        self.data = data
        self._runs: dict[tuple[str, Feed, tuple[Window, ...]], list[Run]] = {}

    def warm_up(self) -> None:
        """Run every engine once for nothing: the JVM compiles what it sees often."""
        for engine in (HOLDFAST, *NATIVE):
            self.report.progress(f"warming up: {engine.name}")
            self._run(engine, self.scale.feeds[0], (Window(6, 1),))

    def compare(
        self, engines: Sequence[Engine], feed: Feed, windows: Sequence[Window], rounds: int = 1
    ) -> None:
        """Run the engines on each window, in turn, unless they have been run."""
        wanted = [(engine, window) for window in windows for engine in engines]
        missing = [each for each in wanted if (each[0].name, feed, (each[1],)) not in self._runs]
        for number in range(rounds):
            for engine, window in missing:
                if number == 0 or _fill_rows(feed, (window,)) <= MANY_ROWS:
                    self.measure(engine, feed, (window,))

    def measure(self, engine: Engine, feed: Feed, windows: tuple[Window, ...]) -> Run:
        """Run an engine once more."""
        measured = self._run(engine, feed, windows)
        self._runs.setdefault((engine.name, feed, windows), []).append(measured)
        what = ", ".join(map(str, windows[:2])) + (" and more" if len(windows) > 2 else "")
        rate = f"{measured.rate.median:,.0f} rows/s {measured.remark}".rstrip()
        self.report.progress(f"{feed.keys:,} keys, {what}, {engine.name}: {rate}")
        return measured

    def result(self, engine: Engine, feed: Feed, window: Window) -> Run:
        return pooled(self._runs[engine.name, feed, (window,)])

    def fastest_native(self, feed: Feed, window: Window) -> Run:
        """Spark's own window on the store that does better."""
        return max(
            (self.result(engine, feed, window) for engine in NATIVE),
            key=lambda run: run.rate.median,
        )

    def limit(self, engine: Engine) -> int:
        """Seconds that a run may take."""
        return NO_LIMIT if engine is HOLDFAST else self.scale.limit

    def _run(self, engine: Engine, feed: Feed, windows: tuple[Window, ...]) -> Run:
        if engine is not HOLDFAST and windows[0].ratio >= FAR:
            source, limit = self._far_source(feed), self.scale.far_limit
        else:
            source, limit = self._source(feed, windows), self.limit(engine)
        return run(self.spark, engine, source, windows, limit)

    def _source(self, feed: Feed, windows: tuple[Window, ...]) -> Source:
        step = round(self.scale.rows_per_batch / feed.rows_per_second)
        main = Stretch(feed, 0, (self.scale.warmups + self.scale.measured) * step, step)
        fill = fill_stretches(feed, windows, self.scale)
        return Source(
            tuple(write_parquet(self.data, each) for each in (*fill, main)),
            main.rows_per_batch,
            skip=sum(each.batches for each in fill) + self.scale.warmups,
        )

    def _far_source(self, feed: Feed) -> Source:
        """Spark's own window is full of windows after its first batch: nothing to fill."""
        step = round(self.scale.small_batch / feed.rows_per_second)
        main = Stretch(feed, 0, 3 * step, step)
        return Source((write_parquet(self.data, main),), main.rows_per_batch, skip=0)


def fill_stretches(feed: Feed, windows: Sequence[Window], scale: Scale) -> list[Stretch]:
    """What comes before the first measured row: one row of each key in each pane of the window.

    So the state is as full as it ever gets, without an hour of data at full rate. A minute is
    filled by warming up, and a tumbling window has no panes.
    """
    size = max(each.size for each in windows)
    if size <= 60 or all(each.ratio == 1 for each in windows):
        return []
    if all(each.slide % 60 == 0 for each in windows):
        return [Stretch(Feed(feed.keys, 60.0), -HOUR, 0, HOUR)]
    sparse = Feed(feed.keys, 1.0)
    step = max(1, round(2 * scale.rows_per_batch / sparse.rows_per_second))
    late = Stretch(sparse, -LAST_MINUTES, 0, min(step, LAST_MINUTES))
    if size <= LAST_MINUTES:
        return [late]
    return [Stretch(sparse, -HOUR, -LAST_MINUTES, min(step, HOUR - LAST_MINUTES)), late]


def _fill_rows(feed: Feed, windows: Sequence[Window]) -> float:
    return sum(
        stretch.feed.rows_per_second * (stretch.stop - stretch.start)
        for stretch in fill_stretches(feed, windows, Scale())
    )
