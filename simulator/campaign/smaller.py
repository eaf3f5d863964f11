"""Looking for a smaller schedule of a failure, and saying what was found."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from simulator.campaign.description import print_faults
from simulator.campaign.display import print_problems, say
from simulator.campaign.replay import Replay
from simulator.campaign.result import attempt
from simulator.scenario import Scenario
from simulator.shrinking import shrink


def make_smaller(console: Console, replay: Replay) -> Replay:
    """Print the smallest schedule that was found for a failure; returns how to replay it."""
    scenario, numbers = replay.scenario(), replay.numbers()
    runs, fewest = 0, len(scenario.faults)

    with console.status("") as status:

        def fails(tried: Scenario) -> bool:
            nonlocal runs, fewest
            runs += 1
            status.update(escape(f"shrinking seed {replay.seed}: run {runs}, {fewest} faults left"))
            failed = bool(attempt(tried).problems)
            if failed and len(tried.faults) < fewest:
                fewest = len(tried.faults)
                if not console.is_terminal:
                    say(console, f"  run {runs}: {fewest} of {len(scenario.faults)} faults left")
            return failed

        found = shrink(scenario, fails)
    kept = tuple(numbers[place] for place in found.kept)
    smaller = Replay(replay.seed, replay.options, kept)
    say(
        console,
        f"seed {replay.seed}, shrunk in {runs} runs: fails with {len(kept)} of its "
        f"{len(scenario.faults)} faults",
        style="bold",
    )
    print_problems(console, attempt(found.scenario).problems)
    if kept:
        print_faults(console, found.scenario.faults, kept)
    if smaller.scenario().faults != found.scenario.faults:
        say(console, "  some are shortened here; --keep has them at full length, which fails too")
    say(console, f"  replay: {smaller.command()}")
    return smaller
