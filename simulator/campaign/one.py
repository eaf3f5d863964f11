"""One seed, told and drawn: what `python -m simulator --seed` runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from simulator.campaign.description import print_scenario
from simulator.campaign.display import print_problems, say
from simulator.campaign.replay import Replay
from simulator.campaign.result import Attempt, attempt, count_shown
from simulator.campaign.smaller import make_smaller
from simulator.campaign.trace import Event, Trace, shorten, write_trace

LINES: Final = 150
"""At most so many events on the screen."""
STYLES: Final = {
    "STABLE": "green",
    "INSERT": "green",
    "UP_FAILURE": "yellow",
    "TENTATIVE": "yellow",
    "STABILIZATION": "blue",
    "UNDO": "red",
    "REC_DONE": "green",
    "FAILURE": "red",
}


def run_one(
    console: Console,
    replay: Replay,
    *,
    trace: Path | None = None,
    shrinking: bool = False,
    picture: Path | None = None,
) -> bool:
    """Run it, with all that happens on the screen; returns whether all was right."""
    scenario = replay.scenario()
    print_scenario(console, scenario, replay.numbers())
    told = Trace()
    tried = attempt(scenario, told.note)
    _print_events(console, told.events)
    if trace is not None:
        write_trace(told.events, trace)
        say(console, f"trace: {trace} ({len(told.events):,} events)")
    _print_verdict(console, replay, tried)
    if picture is not None and tried.run is not None:
        from simulator.campaign.picture import draw_run

        say(console, f"picture: {draw_run(tried.run, picture)}")
    if shrinking and tried.problems:
        make_smaller(console, replay)
    return not tried.problems


def _print_events(console: Console, events: Sequence[Event]) -> None:
    news = list(shorten(events))
    say(console, "what happened (the time in seconds, who, what)", style="italic")
    width = max((len(event.who) for event in news), default=0)
    for event in news[:LINES]:
        style = STYLES.get(event.word)
        if event.is_fault:
            style = "magenta"
        line = f"{event.time / 1e6:7.3f}  {event.who:{width}}  {event.what}"
        say(console, line, style=style)
    hidden = len(news) - LINES
    if hidden > 0:
        say(console, f"  and {hidden} more: --trace FILE writes all of them")


def _print_verdict(console: Console, replay: Replay, tried: Attempt) -> None:
    if not tried.problems:
        assert tried.run is not None
        tentative, withdrawn, undos, gaps = count_shown(tried.run)
        say(
            console,
            f"seed {replay.seed} is right: {tentative} tentative pieces shown, {withdrawn} "
            f"withdrawn for corrections; UNDOs: {undos}; stretches given up: {gaps}",
            style="bold green",
        )
        return
    say(console, f"FAILED seed {replay.seed}", style="bold red")
    print_problems(console, tried.problems)
    if tried.traceback:
        say(console, tried.traceback.rstrip())
    say(console, f"  replay: {replay.command()}")
