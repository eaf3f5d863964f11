"""Figures of real queries on Spark, from the query to the page and the line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming import StreamingQuery
from rich.console import Console

from holdfast.spark.metrics import (
    COUNTERS,
    LEVELS,
    WindowMetrics,
    progress_line,
    serve_metrics,
    watch,
)
from tests.spark.metrics.readers import Output, named, scrape

SENSORS = "sensor string, value long"
FILES = [
    [("a", 1), ("a", 2), ("b", 30)],
    [("b", 4)],
    [("c", 50), ("c", 60)],
]


@pytest.fixture
def sensors(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """A stream of one file for each batch."""
    folder = tmp_path / "sensors"
    folder.mkdir()
    for number, rows in enumerate(FILES):
        lines = [json.dumps({"sensor": sensor, "value": value}) for sensor, value in rows]
        (folder / f"{number}.json").write_text("\n".join(lines))
    return spark.readStream.schema(SENSORS).option("maxFilesPerTrigger", 1).json(str(folder))


def start(frame: DataFrame, name: str, tmp_path: Path) -> StreamingQuery:
    return (
        frame.writeStream.queryName(name)
        .format("noop")
        .option("checkpointLocation", str(tmp_path / name))
        .trigger(availableNow=True)
        .start()
    )


@pytest.fixture
def watched(spark: SparkSession) -> Iterator[WindowMetrics]:
    with watch(spark) as metrics:
        yield metrics


def test_a_real_query_is_observed_served_and_shown(
    spark: SparkSession, sensors: DataFrame, tmp_path: Path
) -> None:
    counts = {name: functions.sum(functions.lit(1)) for name in (*COUNTERS, *LEVELS)}
    counts["late"] = functions.sum((functions.col("value") >= 30).cast("long"))
    counts["open_panes"] = functions.sum("value")
    observed = sensors.observe("hot", *(count.alias(name) for name, count in counts.items()))
    output = Output()
    with watch(spark) as metrics, serve_metrics(metrics) as server:
        with progress_line(metrics, Console(file=output)):
            start(observed, "observed", tmp_path).awaitTermination(120)
        samples = scrape(server.url)
    rows = [value for file in FILES for _, value in file]
    assert samples["holdfast_window_rows_total", "observed", "hot"] == len(rows)
    assert samples["holdfast_window_late_rows_total", "observed", "hot"] == sum(
        value >= 30 for value in rows
    )
    assert samples["holdfast_window_open_panes", "observed", "hot"] in {
        sum(value for _, value in file) for file in FILES
    }
    assert samples["holdfast_window_batches_total", "observed", ""] == len(FILES)
    assert samples["holdfast_window_running", "observed", ""] == 0
    assert output.getvalue().splitlines()[-1].startswith("observed  ended  3 batches  6 rows")

    before = metrics.snapshot()
    start(sensors, "unwatched", tmp_path).awaitTermination(120)
    assert metrics.snapshot() == before


def test_figures_of_a_query_that_goes_on_catch_up(
    watched: WindowMetrics, sensors: DataFrame, tmp_path: Path
) -> None:
    query = (
        sensors.groupBy("sensor")
        .count()
        .writeStream.queryName("counted")
        .format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(tmp_path / "counted"))
        .start()
    )
    try:
        query.processAllAvailable()
        assert watched.settle(timeout=30)
        figures = named(watched, "counted")
        assert (figures.id, figures.name, figures.running) == (query.id, "counted", True)
        assert (figures.batches, figures.total.rows) == (len(FILES), sum(map(len, FILES)))
        assert figures.state_rows == len({sensor for file in FILES for sensor, _ in file})
        assert figures.state_memory_bytes > 0
        assert figures.state_disk_bytes is not None
    finally:
        query.stop()
    assert watched.settle(timeout=30)
    figures = named(watched, "counted")
    assert (figures.running, figures.error) == (False, None)


def test_a_query_that_fails_shows_its_error(
    watched: WindowMetrics, sensors: DataFrame, tmp_path: Path
) -> None:
    failing = sensors.select(functions.raise_error(functions.lit("sensor on fire")).alias("value"))
    output = Output()
    with serve_metrics(watched) as server, progress_line(watched, Console(file=output)):
        with pytest.raises(StreamingQueryException):
            start(failing, "failing", tmp_path).awaitTermination(120)
        assert watched.settle(timeout=30)
        samples = scrape(server.url)
    assert samples["holdfast_window_failed", "failing", ""] == 1
    reason = named(watched, "failing").reason
    assert reason == "[USER_RAISED_EXCEPTION] sensor on fire"
    assert output.getvalue().splitlines()[-1] == f"failing  failed: {reason}"
