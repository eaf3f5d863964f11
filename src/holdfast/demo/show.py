"""The command `holdfast demo`.

Windows on embedded Spark checked against Spark's own, a window whose process is killed again and
again, a replicated pipeline that is broken, and pictures. Called by the command line only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

from rich.console import Console
from rich.table import Table

from holdfast.demo.crash import Crash, survive_kills
from holdfast.demo.errors import DemoError
from holdfast.demo.failures import Outcome, break_pipeline
from holdfast.demo.fleet import SIZE, SLIDE, Fleet, run_fleet
from holdfast.demo.picture import draw_failure, draw_sensors
from holdfast.demo.pipeline import Pipeline
from holdfast.doctor import require_java

__all__ = ["DemoError", "run"]


def run(
    console: Console,
    folder: Path,
    *,
    sensors: int = 300,
    minutes: int = 6,
    updates: int = 10_000,
    kills: int = 5,
) -> None:
    """Run all of it, leave the pictures in `folder`, raise if anything did not hold."""
    require_java()
    require_folder(folder)
    with running_pipeline(console, folder / "pipeline") as pipeline:
        console.rule(
            f"1 · {sensors:,} sensors on embedded Spark: {SIZE // 60} minutes every {SLIDE} s"
        )
        console.print("Meanwhile the processes of part 3 start.", style="dim")
        fleet = run_fleet(console, folder, sensors, minutes)
        about_fleet = show_fleet(console, fleet)
        console.rule("2 · A window on disk, its process killed with SIGKILL")
        with console.status(f"sliding over {updates:,} updates, with {kills} kills"):
            crash = survive_kills(folder / "window-store", updates, kills)
        show_crash(console, crash)
        console.rule("3 · A replicated pipeline on Spark, broken")
        outcome = break_pipeline(console, pipeline)
        about_failure = show_outcome(console, outcome)
    console.rule("4 · Pictures")
    for picture in draw_sensors(fleet, folder, about_fleet):
        console.print(f"three sensors and their windows: {picture}", soft_wrap=True)
    for picture in draw_failure(outcome.line, folder, about_failure):
        console.print(f"the time line of the broken pipeline: {picture}", soft_wrap=True)
    if fleet.different or not fleet.compared or crash.different or not outcome.is_right:
        raise DemoError("the demonstration saw wrong answers, listed above; please report it")
    console.print("[bold green]The answers hold.[/]")


@contextmanager
def running_pipeline(console: Console, folder: Path) -> Iterator[Pipeline]:
    """Whatever happens, none of its processes is left."""
    pipeline = Pipeline(folder)
    try:
        pipeline.start()
        yield pipeline
    finally:
        with console.status("ending the processes of the pipeline"):
            pipeline.close()


def show_fleet(console: Console, fleet: Fleet) -> str:
    table = Table("sensor", f"mean of its hottest {SIZE // 60} minutes", "ending at (min:s)")
    for sensor, mean, end in fleet.hottest:
        table.add_row(str(sensor), f"{mean:.2f} °C", f"{end // 60:02d}:{end % 60:02d}")
    console.print(table)
    summary = (
        f"{fleet.rows:,} readings in, {fleet.windows:,} windows out in {fleet.seconds:.0f} s. "
        f"Of a sample of {fleet.compared:,} windows, {fleet.different:,} differ from Spark's own."
    )
    console.print(summary)
    return summary


def show_crash(console: Console, crash: Crash) -> None:
    console.print(
        f"{crash.kills} kills; {crash.answers:,} answers, {crash.repeated:,} of them given again "
        f"after a restart; {crash.different:,} differ from an uninterrupted run."
    )


def show_outcome(console: Console, outcome: Outcome) -> str:
    summary = (
        f"{outcome.answers:,} final answers; {outcome.different:,} differ from those of a run "
        "without failures, recalculated from the logs of the sources. "
        f"{outcome.tentative:,} tentative answers were shown meanwhile, {outcome.withdrawn:,} of "
        f"them are withdrawn. The latest came {outcome.worst:.1f} s after its time; usual are "
        f"{outcome.usual:.1f} s, and max_delay is {outcome.line.max_delay / 1e6:g} s more."
    )
    console.print(summary)
    return summary


def require_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise DemoError(
            f"{folder}: {error.strerror}; give --folder a folder that may be written to"
        ) from error
