"""What people see of many seeds: progress while they run, failures, and a summary."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from simulator.campaign.replay import Replay
from simulator.campaign.result import Result, Tally
from simulator.scenario import Options

SECONDS_BETWEEN_LINES: Final = 5.0
PROBLEMS_SHOWN: Final = 4


def say(console: Console, text: str, style: str | None = None) -> None:
    """Print text as it is: no markup, no colouring of numbers, no line breaks of our own."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def print_problems(console: Console, problems: tuple[str, ...]) -> None:
    for problem in problems[:PROBLEMS_SHOWN]:
        say(console, f"  {problem}")
    if len(problems) > PROBLEMS_SHOWN:
        say(console, f"  and {len(problems) - PROBLEMS_SHOWN} more")


class Display:
    """A bar on a terminal, else a line now and then; a context manager, for a bar is taken down."""

    def __init__(
        self, console: Console, total: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._total = total
        self._clock = clock
        self._last_line = clock()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]:.1f} a second, left:"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("seeds", total=total, speed=0.0)
        self._began = clock()

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    @property
    def seconds(self) -> float:
        """How long it has been going on."""
        return self._clock() - self._began

    def update(self, tally: Tally) -> None:
        speed = tally.seeds / max(self.seconds, 1e-9)
        words = f"seeds, {len(tally.failures)} failed" if tally.failures else "seeds"
        self._progress.update(
            self._task, completed=tally.seeds, description=words, speed=round(speed, 1)
        )
        now = self._clock()
        if not self._console.is_terminal and now - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = now
            say(
                self._console,
                f"  {tally.seeds:,} of {self._total:,} {words}, {speed:.1f} a second",
            )

    def failed(self, result: Result, options: Options) -> None:
        say(self._console, f"FAILED seed {result.seed}", style="red")
        print_problems(self._console, result.problems)
        say(self._console, f"  replay: {Replay(result.seed, options).command()}")


def print_summary(console: Console, title: str, tally: Tally, seconds: float, workers: int) -> None:
    say(console, title, style="bold")
    table = Table(show_header=False)
    for what, much in _lines(tally, seconds, workers):
        table.add_row(what, much)
    console.print(table, highlight=False)


def _lines(tally: Tally, seconds: float, workers: int) -> list[tuple[str, str]]:
    speed = tally.seeds / max(seconds, 1e-9)
    processes = "1 process" if workers == 1 else f"{workers} processes"
    failed = ", ".join(str(result.seed) for result in tally.failures)
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in tally.faults.most_common())
    previews = f"{tally.tentative:,} shown, {tally.withdrawn:,} withdrawn for corrections, "
    previews += f"in {tally.with_previews:,} of the seeds"
    return [
        ("seeds run", f"{tally.seeds:,}"),
        ("failed", f"{len(tally.failures)}: {failed}" if failed else "none"),
        ("time", f"{seconds:,.1f} s on {processes}, {speed:.1f} seeds a second"),
        ("tentative pieces", previews if tally.tentative else "none"),
        ("UNDOs", f"{tally.undos:,}" if tally.undos else "none"),
        ("given up", f"{tally.gaps:,} stretches, not kept long enough" if tally.gaps else "none"),
        ("faults", f"{tally.faults.total():,}: {kinds}" if kinds else "none"),
    ]
