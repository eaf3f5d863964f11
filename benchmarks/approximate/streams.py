"""The streams: memory in use on a server, made up from a seed, and sensor series from files."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from harness.parts import REPOSITORY
from holdfast.shadow.trial import read_column

__all__ = ["SERVER", "sensor_series", "series", "server_memory"]

SERVER: Final = "server"
"""The name of the made-up stream."""
SERIES: Final = {
    "machine temperature": "machine_temperature_system_failure.csv",
    "office temperature": "ambient_temperature_system_failure.csv",
    "road occupancy": "occupancy_6005.csv",
    "road speed": "speed_7578.csv",
}
"""Of the Numenta Anomaly Benchmark; they are not part of this repository."""
CAPACITY: Final = 64 * 2**20
"""64 GB in KB."""
DAY: Final = 86_400
SEED: Final = 20261116


@cache
def server_memory(length: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """KB in use, one update each second: a random walk, a daily cycle, and jobs that come and go.

    Integers, so that sums are exact whatever adds them up.
    """
    random = np.random.default_rng(SEED)
    walk = np.cumsum(random.normal(0.0, 300.0, length))
    cycle = 2.5e6 * np.sin(2 * np.pi * np.arange(length) / DAY)
    jobs = np.zeros(length + 1)
    count = length // 600
    starts = random.integers(0, length, count)
    sizes = random.lognormal(np.log(5e5), 0.7, count)
    ends = np.minimum(starts + random.exponential(1_800.0, count).astype(int) + 1, length)
    np.add.at(jobs, starts, sizes)
    np.add.at(jobs, ends, -sizes)
    used = 36e6 + walk + cycle + np.cumsum(jobs)[:length] + random.normal(0.0, 2e4, length)
    return np.clip(used, 1e6, CAPACITY).astype(np.int64)


def sensor_series() -> dict[str, int]:
    """How many rows each series has; empty where there are none."""
    return {name: len(series(name)) for name in SERIES if (_folder() / SERIES[name]).is_file()}


@cache
def series(name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array(read_column(_folder() / SERIES[name], "value"))


def _folder() -> Path:
    """`HOLDFAST_DATA`, or the data folder next to the repository."""
    return Path(os.environ.get("HOLDFAST_DATA") or REPOSITORY.parent / "shared" / "data")
