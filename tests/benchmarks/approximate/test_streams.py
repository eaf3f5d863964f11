from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.approximate.streams import CAPACITY, sensor_series, series, server_memory


def test_a_server_has_the_same_memory_in_use_every_time_and_never_more_than_it_has() -> None:
    values = server_memory(20_000)
    assert values.dtype == np.int64
    assert 0 < values.min() < values.max() <= CAPACITY
    again = server_memory.__wrapped__(20_000)
    np.testing.assert_array_equal(values, again)


def test_jobs_make_it_step() -> None:
    steps = np.abs(np.diff(server_memory(200_000)))
    assert steps.max() > 5e5
    assert np.median(steps) < 5e4


def test_series_are_read_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path))
    assert sensor_series() == {}
    (tmp_path / "occupancy_6005.csv").write_text("timestamp,value\nmonday,3.5\ntuesday,4\n")
    series.cache_clear()
    assert sensor_series() == {"road occupancy": 2}
    assert series("road occupancy").tolist() == [3.5, 4.0]
    series.cache_clear()
