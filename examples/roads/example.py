"""Is the road slower than it usually is? Two road sensors, long windows that slide every 5 minutes.

`make example NAME=roads` streams the readings, a file for every two days, through windows of an
hour and of a week in one pass, and draws where the last hour was far from the last week.
"""

from __future__ import annotations

import argparse
import csv
import shutil
from datetime import datetime, timedelta
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from pyspark.sql import DataFrame, SparkSession

import holdfast
from holdfast import aggregates as agg
from holdfast.pictures import new_picture, save_picture

HERE = Path(__file__).parent
UNITS = {"speed_7578": "miles per hour", "occupancy_6005": "% occupied"}
WINDOWS = [holdfast.sliding("1h", "5m", name="hour"), holdfast.sliding("7d", "5m", name="week")]
FAR = 2
"""So many standard deviations of the last week from its mean."""


def main() -> None:
    parser = argparse.ArgumentParser(description="long sliding windows over two road sensors")
    parser.add_argument("--folder", type=Path, default=HERE / "output", help="made anew")
    folder = parser.parse_args().folder
    from holdfast import local_session

    shutil.rmtree(folder, ignore_errors=True)
    files = write_days(folder / "readings", days=2)
    spark = local_session("roads")
    print(f"streaming {files} files through windows of an hour and of a week, every 5 minutes")
    answers = compare(run(spark, folder))
    spark.stop()
    for sensor, rows in answers.groupby("sensor"):
        unusual = int(rows["unusual"].sum())
        print(f"{sensor}: {len(rows):,} hours looked at, {unusual} far from the week before them")
    picture = save_picture(draw(read_series(), answers), folder / "roads.png")
    print(f"picture: {picture}")


def read_series() -> pd.DataFrame:
    """Every reading there is: sensor, at, value."""
    rows = []
    for sensor in UNITS:
        with (HERE / "data" / f"{sensor}.csv").open() as file:
            for row in csv.DictReader(file):
                at = datetime.fromisoformat(row["timestamp"])
                rows.append((sensor, at, float(row["value"])))
    return pd.DataFrame(rows, columns=["sensor", "at", "value"])


def write_days(folder: Path, days: int) -> int:
    """The readings as they would come in: a file for so many days. How many files."""
    folder.mkdir(parents=True)
    series = read_series().sort_values("at")
    groups = series.groupby(pd.Grouper(key="at", freq=f"{days}D"))
    written = 0
    for start, rows in groups:
        if len(rows):
            rows.to_csv(folder / f"{start:%Y-%m-%d}.csv", index=False)
            written += 1
    return written


def windows(readings: DataFrame) -> DataFrame:
    """The one call; the same on a stream and on a table."""
    return holdfast.window(
        readings,
        key="sensor",
        time="at",
        windows=WINDOWS,
        aggs=[
            agg.count().alias("readings"),
            agg.mean("value").alias("mean"),
            agg.stddev("value").alias("deviation"),
        ],
    )


def run(spark: SparkSession, folder: Path) -> pd.DataFrame:
    """Stream the files of `readings`, one in a batch; every answer in the end."""
    readings = (
        spark.readStream.schema("sensor STRING, at TIMESTAMP, value DOUBLE")
        .option("header", "true")
        .option("maxFilesPerTrigger", "1")
        .csv(str(folder / "readings"))
        .withWatermark("at", "1 hour")
    )
    query = (
        windows(readings)
        .writeStream.format("parquet")
        .option("path", str(folder / "answers"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    answers = spark.read.parquet(str(folder / "answers"))
    return answers.selectExpr(
        "window_name AS name", "sensor", "window.end AS end", "readings", "mean", "deviation"
    ).toPandas()


def compare(answers: pd.DataFrame) -> pd.DataFrame:
    """The last hour beside the last week, at each end; `unusual` where they are far apart."""
    hours = answers[answers["name"] == "hour"].drop(columns=["name", "deviation"])
    weeks = answers[answers["name"] == "week"].drop(columns="name")
    both = hours.merge(weeks, on=["sensor", "end"], suffixes=("_hour", "_week"))
    # A week that has just begun says little about what is usual.
    both = both[both["readings_week"] >= 100].sort_values(["sensor", "end"], ignore_index=True)
    away = (both["mean_hour"] - both["mean_week"]).abs()
    return both.assign(unusual=away > FAR * both["deviation"])


def draw(series: pd.DataFrame, answers: pd.DataFrame) -> Figure:
    figure = new_picture(11, 6.5)
    axes = figure.subplots(len(UNITS), 1, sharex=True)
    for axis, (sensor, unit) in zip(axes, UNITS.items(), strict=True):
        readings = series[series["sensor"] == sensor]
        rows = answers[answers["sensor"] == sensor].set_index("end")
        # Lines end where readings are missing for long.
        rows = rows.asfreq("5min")
        low, high = (rows["mean_week"] + side * FAR * rows["deviation"] for side in (-1, 1))
        axis.plot(readings["at"], readings["value"], ".", ms=2, color="#9aa5b1", label="reading")
        axis.fill_between(
            rows.index,
            low,
            high,
            color="#1565c0",
            alpha=0.12,
            lw=0,
            label="usual, by the last week",
        )
        axis.plot(
            rows.index, rows["mean_week"], color="#1565c0", lw=1, label="mean of the last week"
        )
        axis.plot(
            rows.index, rows["mean_hour"], color="#2e7d32", lw=1.2, label="mean of the last hour"
        )
        unusual = rows[rows["unusual"].eq(True)]
        axis.plot(
            unusual.index, unusual["mean_hour"], ".", ms=6, color="#c62828", label="unusual hour"
        )
        axis.set_ylabel(f"{sensor}\n{unit}")
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    first = answers["end"].min() - timedelta(days=1)
    axes[0].set_xlim(first, series["at"].max() + timedelta(hours=6))
    axes[0].legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=5, fontsize=8, markerscale=2)
    figure.suptitle("An hour and a week, both sliding every 5 minutes", x=0.01, ha="left")
    return figure


if __name__ == "__main__":
    main()
