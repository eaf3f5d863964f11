"""What `holdfast demo` shows: windows on embedded Spark checked against Spark's own, a window whose
process is killed again and again, and a picture. Called by the command line only.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile

from rich.console import Console
from rich.table import Table

from holdfast.demo.crash import survive_kills
from holdfast.demo.fleet import SIZE, SLIDE, run_fleet
from holdfast.demo.picture import draw_sensors
from holdfast.doctor import examine_java
from holdfast.errors import HoldfastError

__all__ = ["DemoError", "run"]


class DemoError(HoldfastError):
    """The demonstration cannot run here, or saw an answer that is not what it must be."""


def run(
    console: Console,
    folder: Path,
    *,
    sensors: int = 1000,
    minutes: int = 12,
    updates: int = 20_000,
    kills: int = 5,
) -> None:
    """Run all of it, leave the pictures in `folder`, raise if anything did not hold."""
    require_java()
    require_folder(folder)
    console.rule(f"1 · {sensors:,} sensors on embedded Spark: {SIZE // 60} minutes every {SLIDE} s")
    fleet = run_fleet(console, folder, sensors, minutes)
    table = Table("sensor", f"mean of its hottest {SIZE // 60} minutes", "ending at (min:s)")
    for sensor, mean, end in fleet.hottest:
        table.add_row(str(sensor), f"{mean:.2f} °C", f"{end // 60:02d}:{end % 60:02d}")
    console.print(table)
    summary = (
        f"{fleet.rows:,} readings in, {fleet.windows:,} windows out in {fleet.seconds:.0f} s. "
        f"Of a sample of {fleet.compared:,} windows, {fleet.different:,} differ from Spark's own."
    )
    console.print(summary)
    console.rule("2 · A window on disk, its process killed with SIGKILL")
    with console.status(f"sliding over {updates:,} updates, with {kills} kills"):
        crash = survive_kills(folder / "window-store", updates, kills)
    console.print(
        f"{crash.kills} kills; {crash.answers:,} answers, {crash.repeated:,} of them given again "
        f"after a restart; {crash.different:,} differ from an uninterrupted run."
    )
    console.rule("3 · Pictures")
    for picture in draw_sensors(fleet, folder, summary):
        console.print(f"three sensors and their windows: {picture}")
    if fleet.different or not fleet.compared or crash.different:
        raise DemoError("the demonstration saw wrong answers, listed above; please report it")
    console.print("[bold green]The answers hold.[/]")


def require_java() -> None:
    java = examine_java()
    if not java.fits:
        found = java.found or "none"
        raise DemoError(f"Spark needs Java {java.needed}, found {found}: {java.remedy}")


def require_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise DemoError(
            f"{folder}: {error.strerror}; give --folder a folder that may be written to"
        ) from error
