"""Rolling sum and maximum in river and polars, timed here and printed as JSON rows.

Run in the peers' environment by the part `windows`; the arguments are window sizes. The series is
the one `benchmarks.parts.windows` uses.
"""

import json
import statistics
import sys
import time

import numpy as np
import polars
from river import stats, utils

SERIES = np.random.default_rng(20261115).normal(20.0, 5.0, 2**21)
REPEATS = 5


def timed(work, values):
    rates = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        rates.append(values / (time.perf_counter() - start))
    return statistics.median(rates), min(rates), max(rates)


def river_rolling(statistic, size):
    values = SERIES[: 2**16].tolist()

    def work():
        window = statistic(size)
        for value in values:
            window.update(value)
            window.get()

    return timed(work, len(values))


def polars_rolling(method, size):
    series = polars.Series(SERIES)
    return timed(lambda: getattr(series, method)(size), len(series))


def main():
    rows = []
    for size in map(int, sys.argv[1:]):
        rolling_sum = river_rolling(lambda size: utils.Rolling(stats.Sum(), window_size=size), size)
        rows.append(["river (row by row)", "sum", size, *rolling_sum])
        rows.append(["river (row by row)", "max", size, *river_rolling(stats.RollingMax, size)])
        rows.append(["polars (whole column)", "sum", size, *polars_rolling("rolling_sum", size)])
        rows.append(["polars (whole column)", "max", size, *polars_rolling("rolling_max", size)])
    json.dump(rows, sys.stdout)


if __name__ == "__main__":
    main()
