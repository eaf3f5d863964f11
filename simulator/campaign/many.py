"""Many seeds: what `python -m simulator --seeds` runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console

from holdfast.errors import InvalidArgumentError
from simulator.campaign.display import Display, print_summary, say
from simulator.campaign.replay import Replay
from simulator.campaign.result import Tally, attempt, run_seed
from simulator.campaign.smaller import make_smaller
from simulator.campaign.workers import run_seeds
from simulator.scenario import Options, draw_scenario

FAILURES: Final = 5
"""After so many the rest is not run."""


def run_many(
    console: Console,
    options: Options,
    seeds: range,
    *,
    workers: int | None = None,
    shrinking: bool = False,
    picture: Path | None = None,
) -> bool:
    """Run these seeds, by default on all cores; returns whether all were right.

    With `shrinking` a smaller schedule of each failure is printed; the picture is of the first.
    """
    workers = len(os.sched_getaffinity(0)) if workers is None else workers
    _check(options, seeds, workers)
    tally, interrupted = Tally(), False
    with Display(console, len(seeds)) as display:
        try:
            _run(options, seeds, workers, tally, display)
        except KeyboardInterrupt:
            interrupted = True
        seconds = display.seconds
    title = f"seeds {seeds[0]} to {seeds[-1]}, policy {options.policy}, "
    title += f"topology {options.topology}, faults {options.faults}"
    title += ": interrupted" if interrupted else ""
    print_summary(console, title, tally, seconds, workers)
    if len(tally.failures) == FAILURES and tally.seeds < len(seeds):
        say(console, f"stopped after {FAILURES} failures, for others are likely to be the same")
    if interrupted:
        raise KeyboardInterrupt
    failures = [Replay(result.seed, options) for result in tally.failures]
    if shrinking:
        failures = [make_smaller(console, failure) for failure in failures]
    if picture is not None:
        _draw(console, failures, picture)
    return not failures


def _check(options: Options, seeds: range, workers: int) -> None:
    """Mistakes are told before any process is started."""
    if not seeds or seeds[0] < 0:
        raise InvalidArgumentError(
            f"seeds: {len(seeds)} from {seeds.start} on; give at least one, none below 0"
        )
    if workers < 1:
        raise InvalidArgumentError(f"workers: is {workers}; give at least 1")
    draw_scenario(seeds[0], options)


def _run(options: Options, seeds: range, workers: int, tally: Tally, display: Display) -> None:
    with closing(run_seeds(seeds, partial(run_seed, options), workers)) as results:
        for result in results:
            tally.add(result)
            display.update(tally)
            if result.problems:
                display.failed(result, options)
            if len(tally.failures) == FAILURES:
                break


def _draw(console: Console, failures: Sequence[Replay], picture: Path) -> None:
    """The first of the failures, which one looks at first."""
    if not failures:
        say(console, "no picture, for no seed failed; --seed with --picture draws any you like")
        return
    run = attempt(failures[0].scenario()).run
    if run is None:
        say(console, f"no picture of seed {failures[0].seed}, for the simulator broke")
        return
    from simulator.campaign.picture import draw_run

    say(console, f"picture of seed {failures[0].seed}: {draw_run(run, picture)}")
