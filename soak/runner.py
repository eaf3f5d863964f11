"""The command line of the soak tests: chooses campaigns and seeds, runs them, sums up."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable
from types import ModuleType

from rich.console import Console

from harness.parts import UnknownPartError, load_part, part_names, prepare_part
from soak import campaigns
from soak.campaign import Outcome, run_cases, seeds_from, until_deadline
from soak.display import Display, replay_command, say

__all__ = ["main"]

DEFAULT_CASES = 100
INTERRUPTED = 130


def main(
    arguments: list[str], folder: ModuleType = campaigns, console: Console | None = None
) -> int:
    """Run campaigns; 0 if all cases passed, 1 if one failed, 2 on bad usage, 130 on Ctrl-C."""
    names = part_names(folder)
    options = read_arguments(arguments, names)
    console = console or Console()
    try:
        if not names:
            raise UnknownPartError("there is nothing to run: soak/campaigns has no campaigns yet")
        chosen = [options.part] if options.part else names
        parts = {name: load_part(folder, name) for name in chosen}
    except UnknownPartError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.seed is not None:
        replay(options.part, parts[options.part], options.seed, console)
        return 0

    outcomes: list[Outcome] = []
    for name, campaign in parts.items():
        outcomes.append(run_campaign(name, campaign, options, console))
        if outcomes[-1].interrupted:
            break
    return sum_up(outcomes, console)


def read_arguments(arguments: list[str], names: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m soak",
        description="Run seeded fault campaigns; a failure prints the command that replays it.",
        epilog=f"campaigns: {', '.join(names) or 'none yet'}",
    )
    parser.add_argument("part", nargs="?", help="the campaign to run (default: all of them)")
    parser.add_argument(
        "--seeds",
        type=_above_zero(int),
        help=f"cases per campaign (default: {DEFAULT_CASES}, or as many as fit into --minutes)",
    )
    parser.add_argument("--minutes", type=_above_zero(float), help="time limit per campaign")
    parser.add_argument("--first", type=int, help="the first seed (default: drawn at random)")
    parser.add_argument("--seed", type=int, help="replay this one case and show its traceback")
    options = parser.parse_args(arguments)
    if options.seed is not None and options.part is None:
        parser.error(f"--seed replays a case of one campaign; name it: {', '.join(names)}")
    if options.seeds is None and options.minutes is None:
        options.seeds = DEFAULT_CASES
    if options.first is None:
        options.first = random.randrange(2**31)
    return options


def replay(name: str, campaign: ModuleType, seed: int, console: Console) -> None:
    """Run one case in the open: an error leaves with its traceback."""
    prepare_part(campaign)
    say(console, f"{name}: {campaign.DESCRIPTION}", style="bold")
    say(console, f"  seed {seed}: {campaign.run(seed)}")


def run_campaign(
    name: str, campaign: ModuleType, options: argparse.Namespace, console: Console
) -> Outcome:
    prepare_part(campaign)
    say(console, f"{name}: {campaign.DESCRIPTION}", style="bold")
    say(console, f"  seeds from {options.first} on")
    seeds = seeds_from(options.first, options.seeds)
    if options.minutes is not None:
        seeds = until_deadline(seeds, options.minutes * 60)
    with Display(console) as display:
        return run_cases(name, campaign.run, seeds, display)


def sum_up(outcomes: list[Outcome], console: Console) -> int:
    say(console, "summary", style="bold")
    for outcome in outcomes:
        say(console, f"  {outcome}", style="red" if outcome.failures else "green")
        for failure in outcome.failures:
            say(console, f"    replay: {replay_command(outcome.name, failure)}")
    if any(outcome.failures for outcome in outcomes):
        return 1
    return INTERRUPTED if any(outcome.interrupted for outcome in outcomes) else 0


def _above_zero(kind: Callable[[str], float]) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            number = kind(text)
        except ValueError:
            number = 0
        if number <= 0:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
        return number

    return parse
