"""Simulated sensors: a slow wave of each, and noise. The same seed gives the same rows."""

from __future__ import annotations

import math
import time

import numpy as np
import pyarrow as pa

from holdfast.sources.inlets import Inlet

__all__ = ["SensorsBringer", "readings"]

TICK = 0.05
"""Seconds between two batches."""
AT_ONCE = 65_536
BLOCK = 1024
"""Noise is made for so many rows at once."""
TURN = 600
"""Readings of a sensor until its wave comes round."""


def readings(seed: int, sensors: int, start: int, stop: int) -> pa.Table:
    """The rows from one number to another: sensors take turns."""
    numbers = np.arange(start, stop)
    sensor, step = numbers % sensors, numbers // sensors
    wave = 10 * np.sin(2 * math.pi * (step / TURN + sensor / sensors))
    blocks = range(start // BLOCK, -(-stop // BLOCK))
    noise = np.concatenate(
        [np.random.default_rng([seed, block]).normal(0, 0.5, BLOCK) for block in blocks]
        or [np.zeros(0)]
    )
    first = start - start // BLOCK * BLOCK
    values = np.round(20 + wave + noise[first : first + len(numbers)], 3)
    width = len(str(sensors - 1))
    names = np.array([f"sensor-{number:0{width}d}" for number in range(sensors)])
    return pa.table({"sensor": pa.array(names[sensor]), "value": pa.array(values)})


class SensorsBringer:
    """The place is the number of rows brought."""

    def __init__(self, *, seed: int, sensors: int, rows_per_second: float) -> None:
        self._seed = seed
        self._sensors = sensors
        self._pace = rows_per_second

    def bring(self, inlet: Inlet) -> None:
        done = first = inlet.place or 0
        begun = time.monotonic()
        while True:
            due = first + int((time.monotonic() - begun) * self._pace)
            if due > done:
                stop = min(due, done + AT_ONCE)
                inlet.take(readings(self._seed, self._sensors, done, stop), stop)
                done = stop
            inlet.pause(TICK if done >= due else 0)
