"""The example of the road sensors: streamed, against a recalculation in pandas."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from harness.examples import load_example
from holdfast.pictures import save_picture

roads = load_example("roads")
SIZES = {"hour": "1h", "week": "7D"}


def recalculate(series: pd.DataFrame, until: pd.Timestamp) -> pd.DataFrame:
    """Every window up to a moment that has a reading, one by one."""
    rows = []
    for sensor, readings in series.groupby("sensor"):
        at, value = readings["at"].to_numpy(), readings["value"].to_numpy()
        for name, text in SIZES.items():
            size = pd.Timedelta(text)
            last = min(until, at[-1] + size)
            for end in pd.date_range(pd.Timestamp(at[0]).floor("5min"), last, freq="5min"):
                low, high = at.searchsorted([(end - size).to_datetime64(), end.to_datetime64()])
                if high > low:
                    of = pd.Series(value[low:high])
                    rows.append((name, sensor, end, high - low, of.mean(), of.std()))
    return pd.DataFrame(rows, columns=["name", "sensor", "end", "readings", "mean", "deviation"])


def test_the_stream_answers_what_pandas_does(spark: SparkSession, tmp_path: Path) -> None:
    assert roads.write_days(tmp_path / "readings", days=20) == 1
    answers = roads.run(spark, tmp_path)
    until = answers["end"].max()
    order = ["name", "sensor", "end"]
    pd.testing.assert_frame_equal(
        answers.sort_values(order, ignore_index=True).astype({"readings": "int64"}),
        recalculate(roads.read_series(), until).sort_values(order, ignore_index=True),
        check_dtype=False,
        rtol=1e-9,
    )
    compared = roads.compare(answers)
    assert compared.groupby("sensor")["unusual"].sum().gt(0).all()
    save_picture(roads.draw(roads.read_series(), compared), tmp_path / "roads.png")
    assert (tmp_path / "roads.png").stat().st_size > 20_000


@pytest.mark.parametrize("sensor", roads.UNITS)
def test_the_series_are_there_with_their_licence(sensor: str) -> None:
    series = roads.read_series()
    assert series[series["sensor"] == sensor]["at"].is_monotonic_increasing
    assert "Numenta" in (roads.HERE / "data" / "LICENSE").read_text()
