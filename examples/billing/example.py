"""Bills that four replicas agree on: readings of 200 meters, by the hour, verified, drawn.

`make example NAME=billing` makes the readings up, has `holdfast verify` run four replicas of
billing.py that check each other, and draws what they agreed on.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from holdfast.pictures import new_picture, save_picture

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description="hourly billing, verified")
    parser.add_argument("--folder", type=Path, default=HERE / "output", help="made anew")
    folder = parser.parse_args().folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run(sys.executable, HERE / "generate.py")
    options = [
        "--output",
        folder / "bills",
        "--storage",
        folder / "storage",
        "--work",
        folder / "work",
    ]
    verify = [sys.executable, "-m", "holdfast", "verify", HERE / "billing.py"]
    run(*verify, "--allow-shared-hosts", *options)
    bills = pd.read_parquet(folder / "bills" / "bills")
    euros = float(bills["cents"].sum()) / 100
    print(f"{len(bills):,} bills of {bills['customer'].nunique()} customers: {euros:,.2f} euros")
    picture = save_picture(draw(read_hours(HERE / "data"), bills), folder / "billing.png")
    print(f"picture: {picture}")


def run(*command: object) -> None:
    """Run it before one's eyes; end as it does if it fails."""
    code = subprocess.run([str(word) for word in command]).returncode
    if code:
        raise SystemExit(code)


def read_hours(data: Path) -> pd.DataFrame:
    """Energy of the city by hour and tariff, in kWh; a reading that was sent twice counts once."""
    readings = pd.concat(map(pd.read_parquet, sorted(data.glob("readings/*.parquet"))))
    once = readings.groupby(["meter", "at"], as_index=False)["wh"].max()
    tariffs = pd.read_csv(data / "contracts.csv").set_index("meter")["tariff"]
    tariff = once["meter"].map(tariffs).rename("tariff")
    hour = once["at"].dt.floor("h").rename("hour")
    return once.groupby([hour, tariff])["wh"].sum().unstack() / 1000


def draw(hours: pd.DataFrame, bills: pd.DataFrame) -> Figure:
    figure = new_picture(11, 6.5)
    energy, money = figure.subplots(2, 1, gridspec_kw={"height_ratios": [3, 2]})
    colours = ["#90caf9", "#1565c0", "#f9a825"]
    energy.stackplot(hours.index, hours.T.to_numpy(), labels=hours.columns, colors=colours)
    energy.set_ylabel("kWh in an hour")
    energy.set_xlim(hours.index[0], hours.index[-1])
    energy.set_ylim(0, 1.25 * hours.sum(axis=1).max())
    energy.legend(title="tariff", loc="upper left", ncols=3, fontsize=8, title_fontsize=8)
    days = bills.assign(euros=bills["cents"].astype(float) / 100).groupby("day")["euros"]
    lines = [values.to_numpy() for _, values in days]
    boxes = money.boxplot(
        lines,
        tick_labels=[f"{pd.Timestamp(day):%a %d %b}" for day, _ in days],
        patch_artist=True,
        flierprops={"marker": ".", "markersize": 3, "markeredgecolor": "#52606d"},
        medianprops={"color": "#26233a"},
    )
    for box in boxes["boxes"]:
        box.set_facecolor("#a5d6a7")
    money.set_ylabel("euros, a customer's day")
    money.set_ylim(bottom=0)
    for axis in (energy, money):
        axis.grid(alpha=0.3)
        axis.set_axisbelow(True)
    figure.suptitle(
        "What the meters sent, and the bills that the replicas agreed on", x=0.01, ha="left"
    )
    return figure


if __name__ == "__main__":
    main()
