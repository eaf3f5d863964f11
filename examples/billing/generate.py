"""Make up a city's meter readings: python generate.py [--meters N] [--days N] [--minutes N]

Each meter sends the energy of every quarter of an hour, in watt hours. Some readings are sent
twice, as radio networks do. Writes `data/` beside this file.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

FIRST_DAY = datetime(2026, 11, 2, tzinfo=UTC)
MINUTES = 15
"""Between two readings of a meter."""
SENT_TWICE = 0.02
TARIFFS = {
    "tariff": ["flat", "night", "night", "night", "solar", "solar"],
    "from_hour": [0, 0, 6, 22, 0, 12],
    "to_hour": [23, 5, 21, 23, 11, 23],
    "cents_per_kwh": ["31.40", "24.15", "33.90", "24.15", "35.20", "27.85"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description="make up meter readings")
    parser.add_argument("--meters", type=int, default=200)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--minutes", type=int, default=MINUTES, help="between two readings")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "data")
    given = parser.parse_args()
    generate(given.folder, given.meters, given.days, given.seed, given.minutes)
    print(f"{given.meters} meters, {given.days} days in {given.folder}")


def generate(folder: Path, meters: int, days: int, seed: int, minutes: int = MINUTES) -> None:
    rng = np.random.default_rng(seed)
    (folder / "readings").mkdir(parents=True, exist_ok=True)
    names = np.array([f"M{number:06}" for number in range(meters)])
    contracts = pa.table(
        {
            "meter": names,
            # A few customers have more than one meter.
            "customer": [
                f"C{number:06}" for number in rng.integers(0, max(meters * 4 // 5, 1), meters)
            ],
            "tariff": rng.choice(["flat", "night", "solar"], meters),
        }
    )
    pa.csv.write_csv(contracts, folder / "contracts.csv")
    pa.csv.write_csv(pa.table(TARIFFS), folder / "tariffs.csv")
    base = rng.lognormal(4.0, 0.6, meters)
    for day in range(days):
        pa.parquet.write_table(
            _readings(rng, names, base, FIRST_DAY + timedelta(days=day), minutes),
            folder / "readings" / f"{FIRST_DAY + timedelta(days=day):%Y-%m-%d}.parquet",
        )


def _readings(
    rng: np.random.Generator, names: np.ndarray, base: np.ndarray, day: datetime, minutes: int
) -> pa.Table:
    count = 24 * 60 // minutes
    number = np.tile(np.arange(count), len(names))
    shape = 1 + 0.8 * np.exp(-(((number * minutes / 60 - 19) / 2.5) ** 2))
    usual = np.repeat(base, count) * minutes / MINUTES
    wh = np.round(usual * shape * rng.lognormal(0, 0.3, len(number)), 3)
    rows = np.arange(len(number))
    again = rng.random(len(rows)) < SENT_TWICE
    rows = rng.permutation(np.concatenate([rows, rows[again]]))
    start = int(day.timestamp() * 1_000_000)
    at = start + number[rows] * minutes * 60_000_000
    return pa.table(
        {
            "meter": np.repeat(names, count)[rows],
            "at": pa.array(at, pa.timestamp("us", "UTC")),
            "wh": wh[rows],
        }
    )


if __name__ == "__main__":
    main()
