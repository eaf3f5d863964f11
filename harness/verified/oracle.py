"""What the bills of examples/billing are, by a few lines of plain Python."""

from __future__ import annotations

from collections import defaultdict
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

__all__ = ["expected_bills", "rows_by_bill"]

Bills = dict[tuple[str, date], dict[str, Any]]
"""By customer and day: the other columns."""


def rows_by_bill(rows: pa.Table) -> Bills:
    return {(row.pop("customer"), row.pop("day")): row for row in rows.to_pylist()}


def expected_bills(data: Path) -> Bills:
    return {
        key: {
            "kwh": sum(sorted(bill["wh"])) / 1000,
            "cents": sum(cents for cents, _, _ in bill["cents"]).quantize(
                Decimal("0.01"), ROUND_HALF_UP
            ),
            "dearest_hour": max(bill["cents"])[2],
            "readings": bill["readings"],
        }
        for key, bill in _hours_of(data).items()
    }


def _hours_of(data: Path) -> Bills:
    readings: dict[tuple[str, datetime], float] = {}
    for path in sorted((data / "readings").iterdir()):
        for row in pyarrow.parquet.read_table(path).to_pylist():
            key = (row["meter"], row["at"])
            readings[key] = max(row["wh"], readings.get(key, 0.0))
    hours: dict[tuple[str, datetime], list[float]] = defaultdict(list)
    for (meter, at), wh in readings.items():
        hours[meter, at.replace(minute=0)].append(wh)
    tariffs = pyarrow.csv.read_csv(data / "tariffs.csv").to_pylist()
    bills: dict[tuple[str, date], dict[str, Any]] = {}
    for contract in pyarrow.csv.read_csv(data / "contracts.csv").to_pylist():
        for (meter, hour), values in hours.items():
            if meter != contract["meter"]:
                continue
            wh = sum(sorted(values))
            (price,) = [
                Decimal(str(each["cents_per_kwh"])).quantize(Decimal("0.01"))
                for each in tariffs
                if each["tariff"] == contract["tariff"]
                and each["from_hour"] <= hour.hour <= each["to_hour"]
            ]
            exact = Decimal(repr(wh)).quantize(Decimal("0.001"), ROUND_HALF_UP)
            cents = (exact / 1000 * price).quantize(Decimal("0.000001"), ROUND_HALF_UP)
            bill = bills.setdefault(
                (contract["customer"], hour.date()), {"wh": [], "cents": [], "readings": 0}
            )
            bill["wh"].append(wh)
            bill["cents"].append((cents, -hour.timestamp(), hour))
            bill["readings"] += len(values)
    return bills
